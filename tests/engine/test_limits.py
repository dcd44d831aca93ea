"""Each limit of the policy at each door by which money leaves: what is over it does not leave, what is at it does.

The cases are those of the policy's models: a field without one fails.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.parts import DIRECT, QUOTED
from treasury.call import calls
from treasury.errors import ApprovalNeeded, InvalidFields, LimitExceeded
from treasury.ledger import schema
from treasury.ledger.intents import commit_plan, payee_hashes
from treasury.orders.payment_decisions import Bounds, quote_problem
from treasury.orders.records import Intent, Quote
from treasury.orders.rows import PayoutRow, Route, country_of_number
from treasury.payments.desk import Desk
from treasury.payments.governing import Governing
from treasury.planning.funding_planner import plan_funding
from treasury.planning.payout_planner import plan_payouts, plan_row
from treasury.planning.position import Snapshot
from treasury.planning.round_planner import plan_rebalancing
from treasury.planning.single import Quoted, judge_operation
from treasury.planning.trades import Rates, Trade, Traded, TradePlan, check_trades
from treasury.policy.judge import judge_rows, judge_unbounded
from treasury.policy.limits import ConversionLimits, Limits, PayoutLimits, WithdrawalLimits
from treasury.policy.model import Policy, parse_policy
from treasury.promptpay import build_promptpay
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import CreateFiatPayout
from treasury.provider.operation import Operation
from treasury.provider.orders import DepositAddress, Payout, Withdraw
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.provider.service_rules import ServiceRules
from treasury.rebalance.trade_orders import plan_trade
from treasury.sheets.reading import Sheet

D = Decimal
DAY_MS = 86_400_000
TABLES: Mapping[str, type[Limits]] = {
    "payouts": PayoutLimits,
    "withdrawals": WithdrawalLimits,
    "conversions": ConversionLimits,
}


@dataclass(frozen=True)
class Attempt:
    """A payment as a door makes it: why it refuses it, and the order that it would record."""

    problems: list[str]
    intent: Intent
    debits: Mapping[str, Decimal]


@dataclass(frozen=True)
class Door:
    """A way money leaves. `makes`: given a policy, an account and an amount."""

    table: str
    makes: Callable[[Desk, Policy, str, Decimal], Attempt]


# --- doors ---------------------------------------------------------------------------------------------------------

NAME = "Ann Example"


def fields_of(route: Route, account: str, amount: Decimal) -> dict[str, Any]:
    """The body of an operation or of a quote."""
    text = str(amount)
    match route:
        case Route.DIRECT:
            body = {name: value for name, value in DIRECT.items() if name != "route"}
            return {**body, "amount": text, "account_no": account, "account_name": NAME}
        case Route.QUOTED:
            party = {"account_no": account, "bank_name": "Musterbank", "address": "Ring 1", "full_name": NAME}
            left_out = {"route", "bank_name", "address", "full_name", "purpose_code"}
            body = {name: value for name, value in QUOTED.items() if name not in left_out}
            return {**body, "pay_amount": text, "individual_beneficiary": party}
        case Route.QR_CODE:
            code = build_promptpay(account, name=NAME)
            return {
                "user_xid": "u-1",
                "qrcode": code,
                "amount": str(amount * 33),
                "notify_url": "https://example.com/n",
            }
    return {"currency": "USDT", "amount": text, "customer_ref_id": "c-1", "address": f"T{account}"}


def row_of(route: Route, account: str, amount: Decimal) -> PayoutRow:
    estimate = amount if route is Route.QR_CODE else None
    return PayoutRow(2, "row", route, fields_of(route, account, amount), purpose_code="22", estimate=estimate)


def by_sheet(route: Route) -> Callable[[Desk, Policy, str, Decimal], Attempt]:
    def makes(_: Desk, policy: Policy, account: str, amount: Decimal) -> Attempt:
        rows = Sheet[PayoutRow]()
        rows.append(row_of(route, account, amount))
        plan = plan_payouts("run", rows, policy)
        [intent] = plan.intents
        problems = [each.rule for each in (*judge_rows(rows, plan.limits), *judge_unbounded(rows, plan.limits))]
        problems += [] if plan.over is None else [plan.over]
        if route is Route.QUOTED:
            facts = {"quote": "N1", "pay_currency": "USDT", "pay_amount": amount, "receive_currency": "EUR"}
            facts |= {"receive_amount": amount * RATE, "rate": RATE, "expires_at": 10}
            problems += filter(None, [quote_problem(quote_of(facts), Bounds.from_dict(intent.payload["bounds"]), 1)])
        return Attempt(problems, intent, plan.counted)

    return makes


RATE = D("0.90")


def quote_of(facts: Mapping[str, Any]) -> Quote:
    return Quote(**{**Quote.unanswered(), **facts})


def by_call(operation: Callable[..., Any], route: Route | None = None) -> Callable[..., Attempt]:
    def makes(desk: Desk, policy: Policy, account: str, amount: Decimal) -> Attempt:
        called: Operation[Any]
        quoted, most = None, None
        if operation is CreateFiatPayout:
            asked, called = row_of(Route.QUOTED, account, amount), CreateFiatPayout(order_no="N1", purpose_code="22")
            payee = payee_hashes(desk.ledger.key, plan_row(asked))
            quoted = Quoted("USDT", amount, "EUR", amount * RATE, countries=asked.countries, rate=RATE, payee=payee)
        elif operation is ConversionExecute:
            called = ConversionExecute(quote_id="Q1")
            quoted = Quoted("USDT", amount, "ETH", amount / 2000, symbol="ETH-USDT")
        else:
            assert route is not None
            called = operation(request_id="one", **fields_of(route, account, amount))
            most = amount if route is Route.QR_CODE else None
        judged = judge_operation(called, policy, quoted, {}, most)
        return Attempt(list(judged.problems), calls._intent(called, judged, quoted), judged.debits)

    return makes


PLANNED = {
    "base_asset": "USDT",
    "assets": {"USDT": {"target": 1000}, "ETH": {"target": 2, "minimum": 1, "maximum": 3}},
    "rebalancing": {"min_trade": "25"},
}
SNAPSHOT = Snapshot(
    1, available={"USDT": D(100_000), "ETH": D(0)}, rates={"ETH-USDT": Rates(buy=D(2010), sell=D(2000))}
)
NOTHING_BEFORE = Traded({}, (), {}, D(0))


def trades_of(door: str, policy: Policy) -> tuple[Trade, ...]:
    found = (
        plan_rebalancing(policy, SNAPSHOT)
        if door == "rebalance"
        else plan_funding(policy, SNAPSHOT, {"ETH": D(1)}, "run")
    )
    return found.plan.trades


def by_plan(door: str) -> Callable[..., Attempt]:
    """Plan by the limits, and judge the plan that was made without them when it is recorded.

    What is clipped when it is planned is refused when it is recorded, but for what needs balances and rates, which
    a plan that this ledger made was made by.
    """

    def makes(_: Desk, policy: Policy, _account: str, _amount: Decimal) -> Attempt:
        meant = trades_of(door, Policy.model_validate(PLANNED))
        problems = ["another plan"] if trades_of(door, policy) != meant else []
        over = check_trades(TradePlan("", meant, ()), policy.conversions, NOTHING_BEFORE)
        assert policy.conversions is not None
        planned_alone = {"max_share_percent", "max_cost_bps", "max_per_day"} & policy.conversions.model_fields_set
        assert planned_alone or (over is not None) == bool(problems)
        return Attempt(problems, plan_trade(meant[0], ServiceRules()), {"USDT": meant[0].amount})

    return makes


DOORS = {
    "pay, direct": Door("payouts", by_sheet(Route.DIRECT)),
    "pay, quoted": Door("payouts", by_sheet(Route.QUOTED)),
    "scan-pay": Door("payouts", by_sheet(Route.QR_CODE)),
    "withdraw": Door("withdrawals", by_sheet(Route.WITHDRAWAL)),
    "call payout": Door("payouts", by_call(Payout, Route.DIRECT)),
    "call submit_scan_to_pay": Door("payouts", by_call(SubmitScanToPay, Route.QR_CODE)),
    "call create_fiat_payout": Door("payouts", by_call(CreateFiatPayout)),
    "call withdraw": Door("withdrawals", by_call(Withdraw, Route.WITHDRAWAL)),
    "call conversion_execute": Door("conversions", by_call(ConversionExecute)),
    "rebalance": Door("conversions", by_plan("rebalance")),
    "pay --fund": Door("conversions", by_plan("fund")),
}


# --- cases ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A value of a limit that breaks, and one at which a payment still leaves; both given the amount that it debits."""

    over: Callable[[Decimal], Any]
    at: Callable[[Decimal], Any]
    before: str = ""
    """A payment that was made earlier: `same`, `other account` or `other amount`."""
    beside: Mapping[str, Any] | None = None
    """Other settings that it needs."""


AMOUNTS = Case(lambda debit: {"USDT": str(debit - D("0.01"))}, lambda debit: {"USDT": str(debit)})


CASES = {
    "max_per_day": AMOUNTS,
    "one_approval_above": AMOUNTS,
    "two_approvals_above": AMOUNTS,
    "max_per_payout": AMOUNTS,
    "max_per_run": AMOUNTS,
    "max_per_trade": AMOUNTS,
    "max_turnover": AMOUNTS,
    "new_payee_above": AMOUNTS,
    "duplicate_days": Case(lambda _: 6, lambda _: 4, before="same"),
    "currencies": Case(lambda _: ["BTC"], lambda _: ["USDT"]),
    "countries": Case(lambda _: ["BR"], lambda _: ["ID", "DE", "TH"]),
    "addresses": Case(lambda _: ["TOTHER"], lambda _: ["T0812345678"]),
    "min_rates": Case(lambda _: {"USDT-EUR": "0.91"}, lambda _: {"USDT-EUR": "0.90"}),
    "cooling_days": Case(lambda _: 3, lambda _: 0, before="other account"),
    "cooling_hours": Case(lambda _: 1, lambda _: 0),
    "when_changed": Case(lambda _: "hold", lambda _: "show", before="other amount"),
    "change_above_percent": Case(lambda _: 99, lambda _: 100, before="other amount", beside={"when_changed": "hold"}),
    "pairs": Case(lambda _: ["BTC-USDT"], lambda _: ["ETH-USDT"]),
    "max_per_pair": Case(lambda debit: {"ETH-USDT": str(debit - 9)}, lambda debit: {"ETH-USDT": str(debit)}),
    "max_value_per_day": Case(lambda debit: str(debit - 9), str),
    "max_share_percent": Case(lambda _: 1, lambda _: 5),
    "max_cost_per_day": Case(lambda _: "1", lambda _: "100"),
    "max_cost_bps": Case(lambda _: 10, lambda _: 1000),
}

HELD_BY_ITS_OWN = {
    "stop_after_failures": "test_controls.py",
    "stop_above_percent": "test_controls.py",
    "estimate_margin_percent": "test_ceilings.py",
    "send_when_funding_is_unknown": "../commands/test_not_funded.py",
}
"""Settings that limit no single payment -> the test beside this one that names them."""

QUOTES = ("pay, quoted", "call create_fiat_payout")
ONLY_AT = {"min_rates": QUOTES}
"""Limits of something that only some payments of their table have."""

BY_PLAN_ALONE = ("max_per_pair", "max_value_per_day", "max_share_percent", "max_cost_per_day", "max_cost_bps")
"""Limits that a conversion by itself is refused under, whatever they are."""


def pairs() -> Iterator[Any]:
    for name, door in DOORS.items():
        for field in TABLES[door.table].model_fields:
            if field not in HELD_BY_ITS_OWN and name in ONLY_AT.get(field, DOORS):
                yield pytest.param(name, field, id=f"{name}: {field}")


@pytest.mark.parametrize(("name", "field"), [*pairs()])
def test_what_is_over_a_limit_is_refused_and_what_is_at_it_leaves(
    name: str, field: str, open_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    door, case = DOORS[name], CASES[field]
    amount = D(10)
    if door.table == "conversions" and name != "call conversion_execute":
        amount = trades_of("rebalance" if name == "rebalance" else "fund", Policy.model_validate(PLANNED))[0].amount

    def leaves(limit: object) -> bool:
        ledger = f"sqlite:///{tmp_path / str(limit == case.at(amount))}.db"
        desk = open_desk("http://127.0.0.1:9", ledger=ledger)
        policy = parse_policy({**PLANNED, "time_zone": "UTC", door.table: {field: limit, **(case.beside or {})}}, "p")
        if case.before:
            other = ("0812345679", amount) if case.before == "other account" else ("0812345678", amount)
            paid_before(desk, door, policy, *((other[0], amount / 2) if case.before == "other amount" else other))
        return is_prepared(desk, door, policy, door.makes(desk, policy, "0812345678", amount))

    assert not leaves(case.over(amount))
    if not (name == "call conversion_execute" and field in BY_PLAN_ALONE):
        assert leaves(case.at(amount))


@pytest.mark.parametrize("name", ["pay, direct", "pay, quoted", "call payout", "call create_fiat_payout"])
def test_an_account_is_of_the_country_that_its_iban_names_whatever_its_row_says(
    name: str, open_desk: Callable[..., Desk]
) -> None:
    desk, door = open_desk("http://127.0.0.1:9"), DOORS[name]
    for account, countries in (("CY17 0020 0128 0000 0012 0052 7600", ["ID", "DE"]), ("0812345678", ["ID", "DE"])):
        policy = parse_policy({"payouts": {"countries": countries}}, "p")
        problems = door.makes(desk, policy, account, D(10)).problems
        assert [("CY" in each, "not a country that the policy allows" in each) for each in problems] == (
            [(True, True)] if account.startswith("CY") else []
        )
        policy = parse_policy({"payouts": {"countries": [*countries, "CY"]}}, "p")
        assert door.makes(desk, policy, account, D(10)).problems == []


def test_a_bic_names_a_country_too() -> None:
    fields = {**fields_of(Route.QUOTED, "0812345678", D(10)), "beneficiaryFields": {"swiftCode": "BCYPCY2N"}}
    row = PayoutRow(2, "row", Route.QUOTED, fields)
    assert row.countries == {"CY": "field.swiftCode", "DE": "beneficiary_country"}
    assert country_of_number("bic", "RZ25AT2L123") == "AT", "it begins as an IBAN does"
    assert country_of_number("reference", "BCYPCY2N") is None
    assert country_of_number("account_no", "CY17002001280000001200527601") is None, "its check digits are wrong"


UNKNOWN: Mapping[str, Operation[Any]] = {
    "payouts": CreateFiatPayout(order_no="N1", purpose_code="22"),
    "conversions": ConversionExecute(quote_id="Q1"),
}
"""Table -> the confirmation of a quote that was not asked for here: nobody knows what it debits, and whom it pays."""


@pytest.mark.parametrize(
    ("table", "field"),
    [(table, field) for table in UNKNOWN for field in TABLES[table].model_fields if field not in HELD_BY_ITS_OWN],
)
def test_what_nobody_knows_is_refused_under_any_limit(table: str, field: str) -> None:
    case = CASES[field]
    if field == "duplicate_days":
        return  # it counts without a policy, too, and a quote is confirmed once
    policy = parse_policy({table: {field: case.over(D(100)), **(case.beside or {})}}, "policy")
    [problem] = judge_operation(UNKNOWN[table], policy).problems
    assert "what it debits is not known beforehand" in problem


def is_prepared(desk: Desk, door: Door, policy: Policy, attempt: Attempt) -> bool:
    """Tell whether a payment is recorded and waits to leave."""
    if attempt.problems:
        return False
    rules = Governing(policy, None).rules(desk, door.table, attempt.debits, {})
    with suppress(LimitExceeded, ApprovalNeeded):
        commit_plan(desk.ledger, "run", "payout", {}, "sha", [attempt.intent], rules)
    return [order.state.value for order in desk.ledger.orders(run_key="run")] == ["prepared"]


def paid_before(desk: Desk, door: Door, policy: Policy, account: str, amount: Decimal) -> None:
    """Record a payment that was settled five days ago."""
    attempt = door.makes(desk, policy, account, amount)
    made = replace(attempt.intent, request_id="before")
    commit_plan(desk.ledger, "before", "payout", {}, "before", [made])
    ago = desk.ledger.now() - 5 * DAY_MS
    values = {"state": "settled", "final_at": ago, "created_at": ago}
    desk.ledger.write(lambda connection: connection.execute(update(schema.orders).values(**values)).rowcount)


@pytest.mark.parametrize(("field", "file"), [*HELD_BY_ITS_OWN.items()])
def test_what_limits_no_single_payment_has_a_test_of_its_own(field: str, file: str) -> None:
    assert field in (Path(__file__).parent / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("spelled", ["usdt_trc20", "Usdt_TRC20", " USDT_TRC20", "USDT_TRC20\n", "USDT\u200b_TRC20"])
def test_a_currency_has_one_spelling_so_no_other_one_gets_around_its_limits(spelled: str) -> None:
    given = {"request_id": "r", "address": "TXYZ", "amount": "100", "customer_ref_id": "c"}
    with pytest.raises(InvalidFields, match="must be written in capitals"):
        Withdraw(currency=spelled, **given)
    with pytest.raises(InvalidFields, match="must be written in capitals"):
        DepositAddress(currency=spelled, customer_ref_id="c")
