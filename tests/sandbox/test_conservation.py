"""Whatever is done in whatever order, no money comes from nowhere."""

import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sandbox import builders
from tests.sandbox.builders import (
    START,
    client_of,
    convert,
    fiat_quote,
    partner_total,
    pay,
    payout,
    query,
    scan,
    withdraw,
)
from treasury.errors import Refused
from treasury.provider.client import Client
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import CreateFiatPayout
from treasury.sandbox import DEFAULT_BALANCES, Behaviour, RunningSandbox, SandboxClock, build_promptpay, running_sandbox

names = (f"c-{number}" for number in itertools.count())

endings = st.sampled_from(["1111", "0044", "0088", "0022", "0012"])
amounts = st.decimals("0.5", "900", places=2).map(str) | st.just("10000000")
acts = st.tuples(st.sampled_from(["withdraw", "payout", "scan", "pay", "convert", "fiat", "wait"]), endings, amounts)


BEHAVIOURS = {
    "fees inside": Behaviour(),
    "fees on top": Behaviour(
        fee_on_top=frozenset({"withdraw", "payout", "create_fiat_payout", "submit_scan_to_pay"}),
        conversion_fee_in="paid",
        conversion_found_by="order_no",
        statuses={44: 45, 99: 100},
    ),
    "buys the quote currency": Behaviour(buy="quote", conversion_shown_in="received", payout_shown_in="received"),
}


@pytest.fixture(scope="module", params=BEHAVIOURS)
def world(request: pytest.FixtureRequest) -> Iterator[tuple[RunningSandbox, Client]]:
    """One sandbox for all examples: the books must hold over all of them together."""
    chosen = builders.settings(settle_seconds=3.0, behaviour=BEHAVIOURS[request.param])
    with running_sandbox(chosen, SandboxClock(start=START)) as sandbox, client_of(sandbox) as client:
        yield sandbox, client


def act(sandbox: RunningSandbox, client: Client, kind: str, ending: str, amount: str) -> None:
    """Do one thing; a refusal is an outcome like any other."""
    name = next(names)
    try:
        if kind == "withdraw":
            client.send(withdraw(name, address=f"T{ending}", amount=amount))
        elif kind == "payout":
            client.send(payout(name, account_no=ending, amount=amount))
        elif kind == "scan":
            client.send(scan(name, qrcode=build_promptpay(f"081234{ending}"), amount=amount))
        elif kind == "pay":
            httpx.post(f"{client.send(pay(name, amount=amount)).checkout_url}/pay")
        elif kind == "convert":
            side = "BUY" if ending in ("1111", "0022") else "SELL"  # one of the two spends USDT, whatever BUY means
            quoted = client.send(convert(name, amount=amount, side=side))
            client.send(ConversionExecute(quote_id=quoted.quote_id))
        elif kind == "fiat":
            offered = client.send(fiat_quote(name, ending, pay_amount=amount))
            client.send(CreateFiatPayout(order_no=offered.order_no, purpose_code="30"))
        else:
            sandbox.advance(float(Decimal(amount)) % 5)
    except Refused:
        pass


def expected_totals(sandbox: RunningSandbox) -> dict[str, Decimal]:
    """Opening, less what successful orders took, plus what they brought: from the orders, not from the books."""
    totals = dict(DEFAULT_BALANCES)
    for order in sandbox.orders():
        if order["status"] != 99:
            continue
        if order["order_type"] != "pay":
            totals[order["currency"]] -= order["debit"]
        if order["target"] == "available":
            totals[order["credit_currency"]] += order["credit"]
    return totals


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(acts, max_size=12))
def test_any_sequence_keeps_every_sum_zero_and_the_partners_total_explained(world: Any, sequence: list[Any]) -> None:
    sandbox, client = world
    for step in sequence:
        act(sandbox, client, *step)
        assert set(sandbox.books()["sums"].values()) == {Decimal(0)}
    assert partner_total(sandbox) == expected_totals(sandbox)


def test_what_is_held_is_exactly_what_is_open(world: tuple[RunningSandbox, Client]) -> None:
    sandbox, client = world
    act(sandbox, client, "withdraw", "0022", "5")
    assert query(client, sandbox.orders()[-1]["request_id"]).status == 22
    held: dict[str, Decimal] = {}
    for order in sandbox.orders():
        if order["status"] in (11, 12, 22) and order["order_type"] != "pay":
            held[order["currency"]] = held.get(order["currency"], Decimal(0)) + order["debit"]
    assert {code: amount for code, amount in sandbox.books()["balances"]["hold"].items() if amount} == held
