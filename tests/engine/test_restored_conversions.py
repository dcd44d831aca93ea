"""Conversions whose quote was asked for before a backup that was restored since: each has a person's way out, none is
made twice."""

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.engine.answers import (
    CONVERSION_QUOTE,
    DAY,
    EXECUTE,
    FIAT_QUERY,
    KNOWN,
    QUOTE,
    WINDOW,
    OpenDesk,
    conversion,
    fiat_payout,
    fiat_quote,
    lives,
    ok,
    plan,
    shown,
    under,
)
from tests.engine.funded import BTC, HELD, PAYOUTS, ROWS, fund_and_pay, plan_round, record, record_round
from tests.engine.rounds import kinds, policy, start
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.errors import InputError
from treasury.ledger.backup import make_backup
from treasury.ledger.quotes import open_quote
from treasury.ledger.restore import restore_backup
from treasury.orders.records import Order
from treasury.orders.states import State
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders, resolve_as_ended, resolve_as_not_sent, resolve_as_sent
from treasury.provider.service_rules import ServiceRules
from treasury.rebalance import rebalancing, trade_orders
from treasury.sandbox.behaviour import Behaviour

D = Decimal
ADA = {"by": "Ada Example", "why": "the service's support says so"}
RATES = "max_rate_age_seconds = 86400"
UNSEEN = {"conversion_found_by": "nothing"}
"""A service none of whose queries shows a conversion."""


@pytest.fixture
def restore(ledger_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Restores a backup of a desk's ledger into an empty home; returns the desk that opens it, five seconds later."""
    opened: list[Desk] = []

    def restored(desk: Desk, file: Path) -> Desk:
        home = tmp_path / "restored"
        on_server = ledger_url.startswith("postgresql")
        url = request.getfixturevalue("postgres")(empty=True) if on_server else f"sqlite:///{home / 'ledger.db'}"
        settings = dataclasses.replace(desk.settings, home=home, ledger_key_file=home / "ledger.key", ledger_url=url)
        clock_of(desk).move(5)
        restore_backup(settings, file, clock=desk.clock)
        opened.append(Desk(desk.account, settings, clock=desk.clock))
        opened[-1].check_standing()  # what was recorded is held from here on
        return opened[-1]

    yield restored
    for desk in opened:
        desk.close()


def record_trade(desk: Desk, rules: Path) -> Order:
    """The trade of a rebalancing, recorded and not sent."""
    planned = rebalancing.propose(desk, rebalancing.planned_round(desk, None, rules, {}, None), rules)
    trade_orders.record_trades(desk, planned["run_key"], rebalancing.kept_plan(desk, planned), rules)
    [order] = desk.ledger.orders()
    return order


def go_on(desk: Desk, order: Order, file: Path, *, quoted: str, executes: bool) -> None:
    """Ask for its quote, and perhaps execute it; a backup is made before, once it is asked for, or once answered."""
    back_up = partial(make_backup, desk.settings, file)
    with desk.hold(order.run_key):
        if quoted == "not yet":
            back_up()
        if quoted == "asked":
            order, _ = open_quote(desk.ledger, order)
            back_up()
        order = desk.submission.fetch_quote(order).order
        if quoted == "answered":
            back_up()
        if executes:
            assert desk.submission.submit(order).state in (State.ACCEPTED, State.SETTLED)
    desk.close()


def released(desk: Desk, start_it: Callable[[], Any], run_key: str) -> Order:
    """A person releases what is held as older, and starts it until a second query, a window later, found nothing."""
    release_orders(desk, run_key, None, **ADA)
    for _ in range(2):
        start_it()
        clock_of(desk).move(WINDOW)
    start_it()
    return desk.ledger.orders(run_key=run_key)[0]


# --- rebalancing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quoted", ["not yet", "asked", "answered"])
def test_a_rebalancing_whose_quote_was_asked_for_and_not_executed_has_a_way_out(
    open_desk: OpenDesk, start_sandbox: Any, restore: Any, tmp_path: Path, quoted: str
) -> None:
    sandbox = start_sandbox(balances={**HELD, "USDT": D(50_000), "BTC": D("0.1")})
    desk, rules = open_desk(sandbox.base_url, resend_after=WINDOW), policy(tmp_path, RATES, BTC=BTC)
    go_on(desk, record_trade(desk, rules), tmp_path / "copy", quoted=quoted, executes=False)
    desk = restore(desk, tmp_path / "copy")
    start_it = partial(start, desk, rules, tmp_path / "out")
    order = released(desk, start_it, desk.ledger.orders()[0].run_key)
    name = order.request_id
    assert (order.state, order.hold_kind) == (State.HELD, "known"), order.reason
    for verb in (f"treasury resolve {name} --as sent", f"treasury resolve {name} --as failed, or --as not-sent"):
        assert verb in str(order.reason)
    [told] = cancel(desk, name, **ADA).decisions
    assert (told.done, "--as failed" in told.says) == (False, True)
    with pytest.raises(InputError, match="--as failed"):
        release_orders(desk, name, None, **ADA)
    if quoted != "answered":  # its end is not known
        [told] = resolve_as_not_sent(desk, name, **ADA)
        until = told.says.partition(" until ")[2].partition(";")[0]
        assert (told.done, f"from {until} on" in str(order.reason)) == (False, True)
        clock_of(desk).move(DAY)
    [told] = resolve_as_not_sent(desk, name, **ADA)
    assert told.done, told.says
    start_it()
    if quoted != "answered":  # another day: it is planned anew
        clock_of(desk).move(WINDOW)
        start_it()
    assert kinds(sandbox) == ["conversion_execute"]
    assert {each.state for each in desk.ledger.orders()} <= {State.SETTLED, State.CANCELLED}


@pytest.mark.parametrize("quoted", ["asked", "answered"])
def test_no_start_and_no_cancel_ends_a_conversion_that_may_have_been_executed_after_the_copy(
    open_desk: OpenDesk, start_sandbox: Any, restore: Any, tmp_path: Path, quoted: str
) -> None:
    held = {**HELD, "USDT": D(50_000), "BTC": D("0.1")}
    sandbox = start_sandbox(balances=held, settle_seconds=10 * DAY, behaviour=Behaviour(**UNSEEN))
    rules = policy(tmp_path, RATES, BTC=BTC)
    desk = open_desk(sandbox.base_url, resend_after=WINDOW, service=ServiceRules(**UNSEEN))
    go_on(desk, record_trade(desk, rules), tmp_path / "copy", quoted=quoted, executes=True)
    desk = restore(desk, tmp_path / "copy")
    [order] = desk.ledger.orders()
    [told] = cancel(desk, order.request_id, **ADA).decisions
    assert (told.done, told.order.hold_kind, "--as failed" in told.says) == (False, "known", True)
    for _ in range(3):
        start(desk, rules, tmp_path / "out", seconds=0)
        clock_of(desk).move(WINDOW)
    assert kinds(sandbox) == ["conversion_execute"]


@pytest.mark.both_databases
@pytest.mark.parametrize("quoted", ["not yet", "asked", "answered"])
def test_a_conversion_that_was_executed_after_the_copy_is_not_made_again_where_no_query_shows_it(
    open_desk: OpenDesk, start_sandbox: Any, restore: Any, tmp_path: Path, quoted: str
) -> None:
    held = {**HELD, "USDT": D(50_000), "BTC": D("0.1")}
    sandbox = start_sandbox(balances=held, settle_seconds=10 * DAY, behaviour=Behaviour(**UNSEEN))
    rules = policy(tmp_path, RATES, BTC=BTC)
    desk = open_desk(sandbox.base_url, resend_after=WINDOW, service=ServiceRules(**UNSEEN))
    go_on(desk, record_trade(desk, rules), tmp_path / "copy", quoted=quoted, executes=True)
    desk = restore(desk, tmp_path / "copy")
    start_it = partial(start, desk, rules, tmp_path / "out", seconds=0)
    order = released(desk, start_it, desk.ledger.orders()[0].run_key)
    assert kinds(sandbox) == ["conversion_execute"]
    assert (order.state, order.hold_kind) == (State.HELD, "known"), order.reason
    [told] = resolve_as_sent(desk, order.request_id, **ADA)
    assert told.done
    start_it()
    assert kinds(sandbox) == ["conversion_execute"]
    [order] = desk.ledger.orders()
    assert order.state is State.ACCEPTED
    for said in (told.says, str(desk.submission.ask(order).reason)):
        assert f"treasury resolve {order.request_id} --as settled, --as failed, or --as not-sent" in said
    [told] = resolve_as_ended(desk, order.request_id, State.SETTLED, None, **ADA)
    assert (told.done, told.order.state) == (True, State.SETTLED)


# --- a payment run that is funded ------------------------------------------------------------------------------------


def test_a_run_whose_conversion_was_quoted_before_a_restore_is_funded_and_paid_once_a_person_has_said_so(
    open_desk: OpenDesk, start_sandbox: Any, restore: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD)
    desk, file = open_desk(sandbox.base_url, resend_after=WINDOW), sheet(tmp_path, *ROWS)
    rules = policy(tmp_path, RATES, tail=PAYOUTS, BTC=BTC)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    record_round(desk, planned, file, rules)
    [order] = desk.ledger.orders(run_key="run.fund")
    go_on(desk, order, tmp_path / "copy", quoted="answered", executes=False)
    desk = restore(desk, tmp_path / "copy")
    release_orders(desk, "run", None, **ADA)
    start_it = partial(fund_and_pay, desk, file, rules, tmp_path / "out")
    order = released(desk, start_it, "run.fund")
    assert (order.state, order.hold_kind) == (State.HELD, "known"), order.reason
    [told] = resolve_as_not_sent(desk, order.request_id, **ADA)
    assert told.done, told.says
    for _ in range(3):
        done = start_it()
        clock_of(desk).move(WINDOW)
    assert done["counts"] == {"settled": 3}
    assert kinds(sandbox) == ["conversion_execute", *["payout"] * 3]


def test_a_run_that_is_funded_converts_once_what_was_executed_after_the_copy_and_no_query_shows(
    open_desk: OpenDesk, start_sandbox: Any, restore: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox(balances=HELD, settle_seconds=10 * DAY, behaviour=Behaviour(**UNSEEN))
    desk = open_desk(sandbox.base_url, resend_after=WINDOW, service=ServiceRules(**UNSEEN))
    file, rules = sheet(tmp_path, *ROWS), policy(tmp_path, RATES, tail=PAYOUTS, BTC=BTC)
    record(desk, file, rules)
    planned = plan_round(desk, file, rules)
    assert planned is not None
    record_round(desk, planned, file, rules)
    [order] = desk.ledger.orders(run_key="run.fund")
    go_on(desk, order, tmp_path / "copy", quoted="answered", executes=True)
    desk = restore(desk, tmp_path / "copy")
    release_orders(desk, "run", None, **ADA)
    for _ in range(5):
        fund_and_pay(desk, file, rules, tmp_path / "out", seconds=0)
        clock_of(desk).move(WINDOW)
    assert kinds(sandbox) == ["conversion_execute"]
    [order] = desk.ledger.orders(run_key="run.fund")
    assert (order.state, order.hold_kind) == (State.HELD, "known")


# --- one order -------------------------------------------------------------------------------------------------------


def older(desk: Desk, order: Order) -> Order:
    """An order that this ledger brought back, released."""
    clock_of(desk).move(1)
    desk.begin_epoch("restored")
    [told] = release_orders(desk, order.request_id, None, **ADA)
    clock_of(desk).move(1)
    desk.submission.begin_start()
    return desk.ledger.note(told.order, absences_needed=0)  # two queries found nothing


def quote_of_conversion(body: Any) -> Any:
    terms = {"payCurrency": "ETH", "payAmt": "1", "settleCurrency": "USDT", "settleAmt": "2000", "rate": "2000"}
    return ok(quoteId="Q-" + body["xid"], **terms, **lives(60))


def test_an_earlier_quote_that_the_service_answers_with_and_that_has_ended_is_not_waited_for_for_ever(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url)
    service.plan(CONVERSION_QUOTE, quote_of_conversion)
    order = plan(desk, conversion())
    order, _ = open_quote(desk.ledger, order)
    order = older(desk, order)
    clock_of(desk).move(DAY)
    service.plan(CONVERSION_QUOTE, lambda body: ok(**{**quote_of_conversion(body)[1]["data"], **lives(-DAY)}))
    order = desk.submission.submit(order)
    assert (order.state, order.hold_kind, service.sent_to(EXECUTE)) == (State.HELD, "known", [])
    [told] = resolve_as_not_sent(desk, order.request_id, **ADA)
    assert told.done, told.says


def test_an_end_is_said_of_what_the_service_knows_after_it_was_taken_over(open_desk: OpenDesk, service: Any) -> None:
    desk = open_desk(service.base_url)
    service.plan(CONVERSION_QUOTE, KNOWN)
    order = desk.submission.submit(plan(desk, conversion()))
    with pytest.raises(InputError, match="--as sent, and its end after that; --as failed ends it"):
        resolve_as_ended(desk, order.request_id, State.SETTLED, None, **ADA)


# --- fiat payouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quoted", ["asked", "answered"])
def test_a_fiat_quote_of_an_older_ledger_is_not_replaced_before_it_has_certainly_ended(
    open_desk: OpenDesk, service: Any, quoted: str
) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    service.plan(QUOTE, fiat_quote(), KNOWN)
    order = plan(desk, fiat_payout())
    if quoted == "asked":
        service.plan(QUOTE, KNOWN)
        order, _ = open_quote(desk.ledger, order)
    else:
        order = desk.submission.fetch_quote(order).order
    order = older(desk, order)
    clock_of(desk).move(61)
    for _ in range(2):
        order = desk.submission.submit(order)
        assert (order.state, order.generation) == (State.PREPARED, 1)
        assert "this ledger before it was restored" in str(order.reason)


def test_a_fiat_quote_of_an_older_ledger_that_may_have_been_paid_is_not_cancelled(
    open_desk: OpenDesk, service: Any
) -> None:
    desk = open_desk(service.base_url, resend_after=WINDOW)
    service.plan(QUOTE, fiat_quote())
    order = desk.submission.fetch_quote(plan(desk, fiat_payout())).order
    clock_of(desk).move(1)
    desk.begin_epoch("restored")
    service.plan(FIAT_QUERY, under(desk, order, 1, shown(11, order_amount=None, currency=None)))
    [told] = cancel(desk, order.request_id, **ADA).decisions
    assert (told.done, told.order.state, told.order.hold_kind) == (False, State.HELD, "known")
    clock_of(desk).move(DAY)
    [told] = resolve_as_not_sent(desk, order.request_id, **ADA)
    assert told.done, told.says
