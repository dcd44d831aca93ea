"""Each fault does what its line in the table says."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.sandbox.builders import START, client_of, fiat_quote, payout, query, refused, settings, withdraw
from treasury.errors import OutcomeUnknown, Refused
from treasury.provider.client import Client
from treasury.provider.conversion import ConversionRate
from treasury.provider.fiat_payouts import CreateFiatPayout
from treasury.provider.funds import PartnerBalance
from treasury.provider.orders import QueryTransaction
from treasury.sandbox import FAULTS, RunningSandbox, SandboxClock, running_sandbox


@contextmanager
def faulty(*names: str, rate: float = 1.0, **changed: Any) -> Iterator[tuple[RunningSandbox, Client]]:
    """A sandbox with these faults, and its client."""
    faults = dict.fromkeys(names, rate)
    with (
        running_sandbox(settings(faults=faults, **changed), SandboxClock(start=START)) as sandbox,
        client_of(sandbox) as client,
    ):
        yield sandbox, client


@pytest.mark.parametrize(
    ("name", "error", "acts"),
    [
        ("drop_before", OutcomeUnknown, False),
        ("drop_after", OutcomeUnknown, True),
        ("error_500_before", Refused, False),
        ("error_500_after", Refused, True),
        ("rate_limit_429", Refused, False),
        ("rate_limit_429_bare", Refused, False),
        ("clock_skew", Refused, False),
        ("truncated_json", OutcomeUnknown, True),
        ("html", OutcomeUnknown, True),
        ("wrong_length", OutcomeUnknown, True),
        ("unlisted_code_after", Refused, True),
    ],
)
def test_a_fault_breaks_the_answer_and_acts_or_not(name: str, error: type[Exception], acts: bool) -> None:
    with faulty(name) as (sandbox, client):
        with pytest.raises(error):
            client.send(payout("p-1"))
        assert len(sandbox.orders()) == acts
        assert (sandbox.books()["balances"]["available"]["USDT"] < 1_000_000) == acts
        assert client.send(PartnerBalance(currency="ETH")).available == 10  # what only reads is spared
        client.send(ConversionRate(symbol="ETH-USDT", side="BUY"))


def test_429_says_when_to_retry_or_does_not() -> None:
    for name, expected in (("rate_limit_429", "1"), ("rate_limit_429_bare", None)):
        with faulty(name) as (sandbox, client):
            answer = httpx.post(f"{sandbox.base_url}/v1/order/payout", json=client.signed_body(payout("p-1")))
            assert (answer.status_code, answer.headers.get("retry-after")) == (429, expected)


def test_other_amount_answers_success_with_another_amount() -> None:
    with faulty("other_amount") as (sandbox, client):
        assert client.send(payout("p-1", amount="50.5")).order_amount == Decimal("51.5")
        assert sandbox.orders()[0]["amount"] == Decimal("50.5")


def test_unknown_status_is_in_no_list() -> None:
    with faulty("unknown_status") as (_, client):
        status = client.send(payout("p-1")).status
        assert status is not None
        assert not status.is_classified
        assert query(client, "p-1").status == 99


def test_slow_acts_at_once_and_answers_late() -> None:
    with faulty("slow", slow_seconds=0.3) as (_, client):
        begun = time.monotonic()
        client.send(payout("p-1"))
        assert time.monotonic() - begun >= 0.3


@pytest.mark.parametrize("settle", [0.0, 3.0])
def test_repeat_acts_costs_a_second_time(settle: float) -> None:
    with faulty("repeat_acts", settle_seconds=settle) as (sandbox, client):
        first, again = (client.send(withdraw("w-1")) for _ in range(2))
        assert first.order_no == again.order_no
        quoted = client.send(fiat_quote("f-1"))
        for _ in range(2):
            client.send(CreateFiatPayout(order_no=quoted.order_no, purpose_code="30"))
        sandbox.advance(3)
        assert [order["effects"] for order in sandbox.orders()] == [2, 2]
        balances = sandbox.books()["balances"]
        assert (balances["available"]["USDT_TRC20"], balances["hold"]["USDT_TRC20"]) == (499_800, 0)
        assert (balances["available"]["USDT"], balances["hold"]["USDT"]) == (999_800, 0)
        assert set(sandbox.books()["sums"].values()) == {Decimal(0)}


def test_repeat_answers_first_does_not_act() -> None:
    with faulty("repeat_answers_first") as (sandbox, client):
        first, again = (client.send(withdraw("w-1")).model_dump() for _ in range(2))
        assert first == again
        assert sandbox.orders()[0]["effects"] == 1
        assert refused(client, payout("w-1")).code == "202224"  # another operation under the same name


def test_read_lag_hides_an_order_for_a_while() -> None:
    with faulty("read_lag") as (sandbox, client):
        client.send(withdraw("w-1"))
        assert refused(client, QueryTransaction(request_id="w-1")).code == "7000"
        sandbox.advance(3)
        assert query(client, "w-1").status == 99


def test_flip_final_takes_a_success_back() -> None:
    with faulty("flip_final") as (sandbox, client):
        client.send(withdraw("w-1"))
        assert query(client, "w-1").status == 99
        sandbox.advance(5)
        flipped = query(client, "w-1")
        assert (flipped.status, flipped.reason) == (44, "returned by the receiving bank")
        books = sandbox.books()
        assert books["balances"]["available"]["USDT_TRC20"] == 500_000
        assert set(books["sums"].values()) == {Decimal(0)}


def test_quote_expired_leaves_no_time() -> None:
    with faulty("quote_expired") as (_, client):
        quoted = client.send(fiat_quote("f-1"))
        refusal = refused(client, CreateFiatPayout(order_no=quoted.order_no, purpose_code="30"))
        assert "expired" in refusal.message


def test_faults_fall_the_same_way_in_any_order() -> None:
    struck = []
    names = [f"p-{number}" for number in range(40)]
    for order in (names, names[::-1]):
        with faulty("error_500_before", rate=0.5) as (_, client):
            struck.append({name for name in order if not answered(client, name)})
    assert struck[0] == struck[1]
    assert 5 < len(struck[0]) < 35


def answered(client: Client, request_id: str) -> bool:
    """Tell whether this payout is answered with success."""
    try:
        client.send(payout(request_id))
    except Refused:
        return False
    return True


def test_every_fault_is_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sandbox-behaviour.md").read_text()
    assert [name for name in FAULTS if f"`{name}`" not in text] == []
