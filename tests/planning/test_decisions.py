"""Tests of whether a quote may be confirmed: inside its bounds, and nowhere else."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from typing import Any

import pytest

from treasury.orders.payment_decisions import (
    Bounds,
    EvidenceRules,
    Next,
    QueryResult,
    as_paid,
    bounds_of,
    certain_end,
    is_foreign,
    judge_absence,
    judge_query,
    most_debited,
    over_bound,
    quote_problem,
    settled_amount,
)
from treasury.orders.records import Order, Quote, Stage
from treasury.orders.states import State
from treasury.planning.position import Snapshot
from treasury.planning.round_planner import plan_rebalancing
from treasury.planning.trades import Rates
from treasury.policy.model import parse_policy
from treasury.provider.operation import SeenOrder
from treasury.provider.service_rules import ServiceRules
from treasury.provider.status import OrderStatus
from treasury.rebalance.trade_orders import plan_trade

NOW = 1_790_000_000_000
POLICY = parse_policy(
    {
        "time_zone": "UTC",
        "base_asset": "USDT",
        "rebalancing": {"slippage_bps": 50, "fee_bps": 100, "min_trade": "10"},
        "assets": {"ETH": {"target": "2"}, "USDT": {"target": "1000", "minimum": "0", "maximum": "100000"}},
    },
    "test",
)


def bounds(eth: str, usdt: str) -> Bounds:
    rates = {"ETH-USDT": Rates(buy=Decimal(2010), sell=Decimal(2000))}
    held = {"ETH": Decimal(eth), "USDT": Decimal(usdt)}
    [trade] = plan_rebalancing(POLICY, Snapshot(NOW, available=held, rates=rates, fee_bps=Decimal(0))).plan.trades
    return Bounds.from_dict(plan_trade(trade, ServiceRules()).payload["bounds"])


BOUNDS = {"sale": bounds("3.5", "0"), "purchase": bounds("0.5", "9000")}
QUOTES: Mapping[str, Mapping[str, Any]] = {
    "sale": {
        "quote": "q1",
        "pay_currency": "ETH",
        "pay_amount": "1.500",
        "receive_currency": "USDT",
        "receive_amount": "2983",
        "fee_currency": "USDT",
        "fee": "3",
        "rate": "1995",
        "expires_at": NOW + 1,
    },
    "purchase": {
        "quote": "q1",
        "pay_currency": "USDT",
        "pay_amount": "3015",
        "receive_currency": "ETH",
        "receive_amount": "1.4915",
        "fee_currency": "ETH",
        "fee": "0.0015",
        "rate": "2012",
        "expires_at": NOW + 1,
    },
}


ANSWERED: Mapping[str, Any] = {
    "order_id": 1,
    "generation": 1,
    "request_id": "r",
    "note": None,
    "created_at": NOW,
    "stage": Stage.ANSWERED,
    "asks": 1,
    "ends_at": None,
    "service_ends_at": None,
}
"""Columns that the ledger adds to the terms of a quote that was answered."""


def judge(kind: str, change: Mapping[str, Any]) -> str | None:
    said = {**QUOTES[kind], **change}
    for name in ("pay_amount", "receive_amount", "fee", "rate"):
        said[name] = None if said[name] is None else Decimal(said[name])
    return quote_problem(Quote(**ANSWERED, **said), BOUNDS[kind], NOW)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("sale", {}),
        ("purchase", {}),
        ("sale", {"receive_amount": "2982", "fee": "3"}),
        ("sale", {"receive_amount": "2985", "fee": None, "fee_currency": None}),
        ("sale", {"rate": "1990"}),
        ("purchase", {"rate": "2020.05"}),
    ],
)
def test_a_quote_inside_its_bounds_may_be_confirmed(kind: str, change: Mapping[str, Any]) -> None:
    assert judge(kind, change) is None


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("sale", {"rate": "1989.99"}, "rate is 1989.99, less than 1990"),
        ("sale", {"rate": None}, "does not say its rate"),
        ("sale", {"receive_amount": "2981.99"}, "before the fee is 2984.99, less than 2985"),
        ("sale", {"fee": "30.01", "receive_amount": "2983"}, "fee is 30.01, more than 30"),
        ("sale", {"fee": "-1"}, "fee is -1"),
        ("sale", {"fee_currency": "ETH"}, "fee is taken in ETH"),
        ("sale", {"pay_amount": "1.4999"}, "pay amount is 1.4999, not 1.5"),
        ("sale", {"pay_currency": "BTC"}, "pay currency is BTC"),
        ("sale", {"receive_currency": "USDC"}, "receive currency is USDC"),
        ("sale", {"expires_at": NOW}, "expired"),
        ("sale", {"quote": None}, "incomplete"),
        ("sale", {"receive_amount": None}, "incomplete"),
        ("purchase", {"rate": "2020.06"}, "rate is 2020.06, more than 2020.05"),
        ("purchase", {"receive_amount": "1.49"}, "before the fee is 1.4915, less than"),
    ],
)
def test_a_quote_outside_its_bounds_is_refused_with_the_reason(
    kind: str, change: Mapping[str, Any], reason: str
) -> None:
    said = judge(kind, change)
    assert said is not None
    assert reason in said


# --- quotes that say less, and bounds that ask less ------------------------------------------------------------------


def quote(**changes: Any) -> Quote:
    said = {"quote": "q1", "pay_currency": "USDT", "pay_amount": Decimal(100), "receive_currency": "EUR"}
    said |= {"receive_amount": Decimal(90), "fee": None, "fee_currency": None, "rate": None, "expires_at": None}
    return Quote(**{**ANSWERED, **said, **changes})


def bound(**changes: Any) -> Bounds:
    return Bounds("USDT", "EUR", **changes)


@pytest.mark.parametrize(
    ("changes", "bounds", "problem"),
    [
        ({}, bound(), None),
        ({"pay_amount": None}, bound(), "incomplete"),
        ({"fee": Decimal(5), "fee_currency": "ETH"}, bound(), None),
        ({"fee": Decimal(5), "fee_currency": "ETH"}, bound(max_fee=Decimal(9)), "fee is taken in ETH"),
        ({"fee": Decimal(5), "fee_currency": "USDT"}, bound(max_fee=Decimal(9), fee_currency="USDT"), None),
        (
            {"fee": Decimal(5), "fee_currency": "EUR"},
            bound(max_fee=Decimal(9), fee_currency="USDT"),
            "in EUR, not in USDT",
        ),
        ({}, bound(max_rate=Decimal(2)), "does not say its rate"),
        ({}, bound(min_rate=Decimal(2)), "does not say its rate"),
        ({"rate": Decimal(2)}, bound(min_rate=Decimal(2), max_rate=Decimal(2)), None),
        ({"rate": Decimal("2.1")}, bound(max_rate=Decimal(2)), "more than 2"),
        ({}, bound(max_debit=Decimal(100)), None),
        ({}, bound(max_debit=Decimal("99.5")), "with its fee on top is 100, more than 99.5"),
        ({"fee": Decimal(2), "fee_currency": "USDT"}, bound(max_debit=Decimal(101)), "on top is 102, more than 101"),
        ({"expires_at": NOW + 1}, bound(), None),
        ({"expires_at": NOW}, bound(), "expired"),
        # What it brings before the fee: the fee counts when it is taken from what is received, and only then.
        ({}, bound(min_receive=Decimal(90)), None),
        ({}, bound(min_receive=Decimal("90.01")), "before the fee is 90, less than 90.01"),
        ({"fee": Decimal(2), "fee_currency": "EUR"}, bound(min_receive=Decimal(92)), None),
        ({"fee": Decimal(2), "fee_currency": "USDT"}, bound(min_receive=Decimal(92)), "before the fee is 90"),
        ({"fee": None, "fee_currency": "EUR"}, bound(min_receive=Decimal(90)), None),
    ],
)
def test_what_a_quote_leaves_out_counts_only_where_a_bound_asks_for_it(
    changes: Mapping[str, Any], bounds: Bounds, problem: str | None
) -> None:
    said = quote_problem(quote(**changes), bounds, NOW)
    assert (said is None) == (problem is None)
    assert problem is None or problem in str(said)


def test_bounds_do_not_change_once_approved() -> None:
    with pytest.raises(FrozenInstanceError):
        bound().min_rate = Decimal(0)  # type: ignore[misc]


# --- evidence, and the side an order is shown from -------------------------------------------------------------------


def order(**changes: Any) -> Order:
    values: dict[str, Any] = dict.fromkeys(Order.__dataclass_fields__)
    values |= {"operation": "payout", "state": State.UNKNOWN, "absent_since": NOW, "currency": "ETH"}
    return Order(**{**values, "amount": Decimal(1), "receive_currency": "USDT", **changes})


RULES = EvidenceRules(600, 300)
ENDED = NOW + 300_000
"""When a quote that ends now can no longer be confirmed."""
CONFIRMED = {"operation": "create_fiat_payout"}


@pytest.mark.parametrize(
    ("changes", "later_ms", "following"),
    [
        ({}, 600_000, Next.RESEND),
        ({}, 599_999, Next.WAIT),
        ({"operation": "conversion_execute"}, 600_000, Next.PERSON),
        ({"absent_since": None}, 600_000, Next.COUNT),
        ({"order_no": "P1"}, 600_000, Next.PERSON),
        ({"status": OrderStatus.SUBMITTED}, 600_000, Next.PERSON),
        ({"first_answer": "202203"}, 600_000, Next.REJECT),
        ({"first_answer": "202203"}, 599_999, Next.WAIT),
        ({"first_answer": "202224"}, 600_000, Next.PERSON),
        ({"first_answer": "412"}, 600_000, Next.RESEND),
    ],
)
def test_only_two_absences_far_apart_of_what_was_never_shown_are_evidence(
    changes: Mapping[str, Any], later_ms: int, following: Next
) -> None:
    assert judge_absence(order(**changes), None, NOW + later_ms, None, RULES) is following


def test_a_quote_that_shows_no_end_lives_as_long_as_the_service_says_quotes_do_and_the_margin() -> None:
    assert certain_end(confirmed_quote(ends_at=None), RULES) == NOW - 60_000 + 86_400_000 + 300_000
    assert certain_end(confirmed_quote(), RULES) == NOW + 300_000


def confirmed_quote(**changes: Any) -> Quote:
    """A quote whose life ends now."""
    values: dict[str, Any] = dict.fromkeys(Quote.__dataclass_fields__)
    values |= {"quote": "Q", "created_at": NOW - 60_000, "expires_at": NOW - 1, "ends_at": NOW, "asks": 1}
    return Quote(**{**values, "stage": Stage.ANSWERED, **changes})


@pytest.mark.parametrize(
    ("changes", "quoted", "now", "service_now", "following"),
    [
        ({"absent_since": ENDED}, {}, ENDED + 600_000, None, Next.QUOTE_AGAIN),
        ({"absent_since": ENDED}, {}, ENDED + 599_999, None, Next.WAIT),
        ({"absent_since": ENDED - 1}, {}, ENDED + 600_000, None, Next.COUNT),
        ({"absent_since": None}, {}, ENDED, None, Next.COUNT),
        ({"absent_since": None}, {}, ENDED - 1, None, Next.WAIT),
        ({"absent_since": ENDED}, {"service_ends_at": NOW}, ENDED + 600_000, ENDED - 1, Next.WAIT),
        ({"absent_since": ENDED}, {"service_ends_at": NOW}, ENDED + 600_000, ENDED, Next.QUOTE_AGAIN),
        ({"absent_since": ENDED, "first_answer": "400"}, {}, ENDED + 600_000, None, Next.REJECT),
        (
            {"absent_since": ENDED, "first_answer": "400", "sent_at": NOW - 2_001},
            {},
            ENDED + 600_000,
            None,
            Next.REJECT,
        ),
        (
            {"absent_since": ENDED, "first_answer": "400", "sent_at": NOW - 2_000},
            {},
            ENDED + 600_000,
            None,
            Next.QUOTE_AGAIN,
        ),
        (
            {"absent_since": NOW},
            {"expires_at": NOW + 900_000, "ends_at": NOW + 900_000},
            NOW + 600_000,
            None,
            Next.WAIT,
        ),
        ({"absent_since": None}, {"ends_at": None, "created_at": ENDED}, ENDED + 86_400_000, None, Next.WAIT),
        ({"absent_since": None}, {"ends_at": None, "created_at": NOW}, ENDED + 86_400_000, None, Next.COUNT),
    ],
)
def test_another_quote_follows_only_one_that_nobody_can_confirm(
    changes: Mapping[str, Any], quoted: Mapping[str, Any], now: int, service_now: int | None, following: Next
) -> None:
    assert judge_absence(order(**CONFIRMED, **changes), confirmed_quote(**quoted), now, service_now, RULES) is following


@pytest.mark.parametrize(
    ("operation", "status", "result"),
    [
        ("payout", 11, QueryResult.SHOWN),
        ("create_fiat_payout", None, QueryResult.UNDECIDED),
        ("create_fiat_payout", 11, QueryResult.UNDECIDED),
        ("create_fiat_payout", 12, QueryResult.UNDECIDED),
        ("create_fiat_payout", 13, QueryResult.ABSENT),
        ("create_fiat_payout", 22, QueryResult.SHOWN),
        ("conversion_execute", 99, QueryResult.SHOWN),
    ],
)
def test_a_quote_that_is_shown_is_a_payment_only_where_its_status_says_so(
    operation: str, status: int | None, result: QueryResult
) -> None:
    seen = SeenOrder(status=None if status is None else OrderStatus(status))
    rules = EvidenceRules(600, 300, ServiceRules(unconfirmed_statuses=frozenset({13})))
    assert judge_query(order(operation=operation), seen, rules) is result
    assert judge_query(order(operation=operation), None, rules) is QueryResult.ABSENT


@pytest.mark.parametrize(("made_before_ms", "foreign"), [(0, False), (5_000, False), (5_001, True)])
@pytest.mark.parametrize("skew_ms", [0, 3_600_000, -3_600_000])
def test_a_quote_made_before_it_was_asked_for_is_somebody_elses(
    made_before_ms: int, foreign: bool, skew_ms: int
) -> None:
    quoted = confirmed_quote(
        created_at=NOW, expires_at=NOW + 60_000, service_ends_at=NOW + skew_ms - made_before_ms + 60_000
    )
    assert is_foreign(quoted, NOW + 50, NOW + 50 + skew_ms) is foreign
    assert not is_foreign(replace(quoted, asks=2), NOW + 50, NOW + 50 + skew_ms)


@pytest.mark.parametrize("unknown", ["expires_at", "service_ends_at", "the service's time"])
def test_a_quote_without_a_time_is_nobody_elses(unknown: str) -> None:
    quoted = confirmed_quote(created_at=NOW, expires_at=NOW + 60_000, service_ends_at=NOW + 1)
    assert is_foreign(quoted, NOW, NOW)
    if unknown == "the service's time":
        assert not is_foreign(quoted, NOW, None)
    else:
        assert not is_foreign(quoted.changed({unknown: None}), NOW, NOW)


CONVERTED = {"operation": "conversion_execute"}


@pytest.mark.parametrize(
    ("ours", "shown", "turned"),
    [
        (CONVERTED, {"currency": "USDT", "amount": Decimal(9)}, True),
        (CONVERTED, {"currency": "ETH", "amount": Decimal(1)}, False),
        (CONVERTED, {"currency": None, "amount": Decimal(1)}, False),
        (CONVERTED, {"currency": "BTC", "amount": Decimal(1)}, False),
        (CONVERTED, {"currency": "USDT", "amount": Decimal(9), "receive_currency": "USDT"}, False),
        ({**CONVERTED, "receive_currency": None}, {"currency": None, "amount": Decimal(1)}, False),
        ({}, {"currency": "USDT", "amount": Decimal(9)}, False),
    ],
)
def test_only_a_conversion_may_be_shown_in_what_it_brings(
    ours: Mapping[str, Any], shown: Mapping[str, Any], turned: bool
) -> None:
    seen = SeenOrder(**shown)
    read = as_paid(seen, order(**ours), ServiceRules())
    if turned:
        assert (read.currency, read.amount, read.receive_currency) == (None, None, "USDT")
        assert read.receive_amount == Decimal(9)
    else:
        assert read == seen


@pytest.mark.parametrize(
    ("amount", "arrives", "brought"),
    [
        ("9", None, "9"),
        ("9", "9", "9"),
        ("10", "9", "9"),  # with the fee, and without it
        ("9", "8", "9"),  # as quoted; that less arrived is told by the report
        ("10", "8", "8"),
        ("10", "0", "10"),  # nothing has arrived yet
    ],
)
def test_a_conversion_may_be_shown_with_the_fee_of_what_it_brings(
    amount: str, arrives: str | None, brought: str
) -> None:
    arrived = None if arrives is None else Decimal(arrives)
    seen = SeenOrder(currency="USDT", amount=Decimal(amount), arrive_amount=arrived, fee=Decimal(1))
    read = as_paid(seen, order(**CONVERTED, receive_amount=Decimal(9)), ServiceRules())
    assert (read.receive_currency, read.receive_amount) == ("USDT", Decimal(brought))


@pytest.mark.parametrize(
    ("known", "fee", "fee_currency", "read_as"),
    [
        (None, Decimal(1), None, "USDT"),
        (None, Decimal(1), "ETH", "ETH"),
        (None, None, None, None),
        (Decimal(2), Decimal(1), None, None),
        (Decimal(2), Decimal(1), "ETH", "ETH"),
    ],
)
def test_a_fee_shown_with_what_arrives_is_in_its_currency_where_none_is_known(
    known: Decimal | None, fee: Decimal | None, fee_currency: str | None, read_as: str | None
) -> None:
    seen = SeenOrder(currency="USDT", amount=Decimal(9), fee=fee, fee_currency=fee_currency)
    read = as_paid(seen, order(**CONVERTED, fee=known), ServiceRules())
    assert (read.fee, read.fee_currency) == (fee, read_as)


CODE = {"operation": "submit_scan_to_pay", "amount": None, "ceiling": Decimal(11), "currency": "USDT"}


@pytest.mark.parametrize(
    ("changes", "amount"),
    [
        ({}, Decimal(1)),
        ({"status": OrderStatus.SUCCESS, "ceiling": Decimal(2)}, Decimal(1)),
        ({**CODE, "status": OrderStatus.SUCCESS}, Decimal(11)),
        ({**CODE, "status": OrderStatus.PROCESSING}, None),
        ({**CODE, "status": OrderStatus.FAILED}, None),
        ({**CODE, "status": None}, None),
        # What confirms a quote is bounded by its ceiling, which is not what it debited.
        ({**CONFIRMED, "amount": None, "ceiling": Decimal(11), "status": OrderStatus.SUCCESS}, None),
    ],
)
def test_the_amount_of_a_settled_order_is_what_it_debited(changes: Mapping[str, Any], amount: Decimal | None) -> None:
    assert settled_amount(order(**changes)) == amount


PAID = {"status": OrderStatus.SUCCESS, "bound": Decimal(10), "amount": Decimal(10), "currency": "ETH"}


@pytest.mark.parametrize(
    ("changes", "on_top", "over"),
    [
        ({}, (), None),
        ({"amount": Decimal("10.01")}, (), Decimal("0.01")),
        ({"amount": Decimal("10.01"), "status": OrderStatus.PROCESSING}, (), Decimal("0.01")),
        ({"amount": Decimal("10.01"), "status": OrderStatus.FAILED}, (), None),
        ({"amount": Decimal("10.01"), "status": None}, (), None),
        ({"amount": Decimal("10.01"), "bound": None}, (), None),
        ({"fee": Decimal(1), "fee_currency": "ETH"}, (), None),
        ({"fee": Decimal(1), "fee_currency": "ETH"}, ("payout",), Decimal(1)),
        ({"fee": Decimal(1)}, ("payout",), Decimal(1)),
        ({"fee": Decimal(1), "fee_currency": "USDT"}, ("payout",), None),
        ({"fee": None}, ("payout",), None),
        # The ceiling of a code is its whole debit once that is known, its fee included.
        ({**CODE, "fee": Decimal(1), "fee_currency": "USDT"}, ("submit_scan_to_pay",), Decimal(1)),
        ({**CODE, "ceiling": None}, ("submit_scan_to_pay",), None),
    ],
)
def test_a_debit_above_its_bound_is_found(
    changes: Mapping[str, Any], on_top: tuple[str, ...], over: Decimal | None
) -> None:
    assert over_bound(order(**{**PAID, **changes}), on_top) == over


@pytest.mark.parametrize(("on_top", "pays", "expected"), [(True, None, "21"), (True, "20", None), (False, None, None)])
def test_what_a_payment_debits_at_the_most_bounds_its_amount_with_a_fee_on_top(
    on_top: bool, pays: str | None, expected: str | None
) -> None:
    """Only where the quote may choose what is paid, and the account charges that operation's fee on top."""
    stored = {"pay_currency": "USDT", "receive_currency": "EUR", "max_pay": "21"} | (
        {"pay_amount": pays} if pays else {}
    )
    found = bounds_of({"bounds": stored}, "fiat_payout", {"fiat_payout"} if on_top else set())
    assert found.max_debit == (None if expected is None else Decimal(expected))


OPEN_TO_ANOTHER = (State.PREPARED, State.SENDING, State.UNKNOWN, State.HELD)


@pytest.mark.parametrize("state", State)
def test_an_order_debits_its_ceiling_at_the_most_as_long_as_another_quote_may_follow(state: State) -> None:
    expected = Decimal(12) if state in OPEN_TO_ANOTHER else Decimal(10)
    assert most_debited(state, Decimal(10), Decimal(12)) == expected
    assert most_debited(state, Decimal(10), None) == Decimal(10)
    assert most_debited(state, None, Decimal(12)) == Decimal(12)
