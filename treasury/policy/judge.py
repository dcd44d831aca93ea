"""The judge of limits, for every way money can leave; pure.

Each door says what is about to leave (`Leaving`) and words what is found (`Breach`). A field of a policy that nobody
judges, and that no module is named to read, fails at import.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, get_args

from treasury.addresses import canonical_address, listed_as
from treasury.errors import RowProblem
from treasury.money import ZERO, format_amount
from treasury.orders.rows import PayoutRow, Route
from treasury.policy.limits import Limits, PaymentLimits, PayoutLimits, WithdrawalLimits, least_rate
from treasury.policy.model import AssetBand, Changes, Policy, RebalancingTable, Scheduled
from treasury.policy.people import Person
from treasury.policy.tables import PolicyTable
from treasury.policy.tolerances import ByAge, Tolerances
from treasury.provider.service_rules import ServiceRules


class Leaving(NamedTuple):
    """A payment or conversion that is about to leave, as far as a door knows it. None is judged by a later step."""

    currency: str
    debit: Decimal | None = None
    """The most that it debits."""
    of_run: Decimal | None = None
    """The debits of its run in its currency, with it."""
    of_day: Decimal | None = None
    """The debits of its day in its currency, with it."""
    countries: Collection[str] = ()
    """The country that a payment says, and those that the account names by itself."""
    address: str | None = None
    """As a policy lists it: with its tag."""
    symbol: str | None = None
    """The trading pair of a conversion."""
    pair: str = ""
    """Of a quote: what is paid and what is received, as USDT-EUR."""
    rate: Decimal | None = None
    """The rate of a quote at hand; one that is still to be asked for is held to it by its bounds."""
    moved: Mapping[str, Decimal | None] = {}
    """Currency -> what conversions of the day move of it, with this one; None where nobody knows."""
    has_plan: bool = True
    """False: a conversion by itself, which no plan made from rates and balances."""


class Breach(NamedTuple):
    """A limit that something is over, or a list that it is not on."""

    limit: str
    """The field of the policy."""
    said: str
    """The amount or rate that is over it, the currency of a turnover, or the name that the list lacks."""
    most: str | None = None
    """The limit, where it is an amount; the least of a rate."""


Found = Iterable[tuple[str, str | None]]
Judge = Callable[[Any, Leaving], Found]
"""Returns what is over a limit, with the limit."""


def above(limit: Mapping[str, Decimal], currency: str, total: Decimal) -> Decimal | None:
    """Return the limit of a currency that a total is above; None where it is not."""
    most = limit.get(currency)
    return most if most is not None and total > most else None


def _amount(total: Callable[[Leaving], Decimal | None]) -> Judge:
    def judges(limit: Mapping[str, Decimal], leaving: Leaving) -> Found:
        sums = total(leaving)
        most = None if sums is None else above(limit, leaving.currency, sums)
        return () if sums is None or most is None else [(format_amount(sums), format_amount(most))]

    return judges


def _listed(names: Callable[[Leaving], Iterable[str | None]], alike: Callable[[str], str] = str) -> Judge:
    def judges(limit: Collection[str], leaving: Leaving) -> Found:
        said = (name for name in names(leaving) if name is not None and name not in limit)
        return [(name, None) for name in said if alike(name) not in map(alike, limit)]

    return judges


def _rate(limit: Mapping[str, Decimal], leaving: Leaving) -> Found:
    least = least_rate(limit, leaving.pair)
    if least is not None and (leaving.rate is None or leaving.rate < least):
        yield "unknown" if leaving.rate is None else format_amount(leaving.rate), format_amount(least)


def _turnover(limit: Mapping[str, Decimal], leaving: Leaving) -> Found:
    for currency, total in leaving.moved.items():
        if currency in limit and (total is None or total > limit[currency]):
            yield currency, format_amount(limit[currency])


def _of_a_plan(limit: Any, leaving: Leaving) -> Found:
    """Find a limit broken that needs the rates and balances of a plan, where there is none."""
    return [("", None)] if limit and not leaving.has_plan else ()


JUDGES: Mapping[str, Judge] = {
    "max_per_payout": _amount(lambda leaving: leaving.debit),
    "max_per_trade": _amount(lambda leaving: leaving.debit),
    "max_per_run": _amount(lambda leaving: leaving.of_run),
    "max_per_day": _amount(lambda leaving: leaving.of_day),
    "currencies": _listed(lambda leaving: [leaving.currency]),
    "countries": _listed(lambda leaving: leaving.countries),
    "addresses": _listed(lambda leaving: [leaving.address], canonical_address),
    "min_rates": _rate,
    **dict.fromkeys(
        ("max_value_per_day", "max_share_percent", "max_cost_per_day", "max_cost_bps", "max_per_pair"), _of_a_plan
    ),
    "pairs": _listed(lambda leaving: [leaving.symbol]),
    "max_turnover": _turnover,
}
"""Field of a table of limits -> what judges it. Trades of a plan are judged together: `planning.trades.first_over`."""


def judge(limits: Limits, leaving: Leaving) -> Iterator[Breach]:
    """Yield every limit of a table that something is over, in the order of `JUDGES`."""
    fields = vars(limits)  # asked for each row of a sheet: a model takes ten times as long to say that it lacks one
    for name, judges in JUDGES.items():
        if (limit := fields.get(name)) is not None:
            for found in judges(limit, leaving):
                yield Breach(name, *found)


def limits_any(limits: Limits) -> bool:
    """Tell whether a table limits something besides amounts of currencies: what is unknown cannot be judged by it."""
    usual = type(limits)()
    names = (*JUDGES, "cooling_days", "when_changed")
    return any(getattr(limits, name, None) != getattr(usual, name, None) for name in names)


READ_BY: Mapping[type[PolicyTable], Mapping[str, str]] = {
    Limits: {"policy/limits": "one_approval_above two_approvals_above"},
    PaymentLimits: {
        "ledger/intents": "duplicate_days",
        "ledger/holds": "new_payee_above change_above_percent when_changed",
        "planning/payout_planner": "stop_after_failures stop_above_percent",
        "pay/funding_needs": "send_when_funding_is_unknown",
    },
    WithdrawalLimits: {"ledger/holds": "cooling_hours"},
    PayoutLimits: {"ledger/holds": "cooling_days", "pay/payout_plans": "estimate_margin_percent"},
    Policy: {
        "policy/model": "time_zone holidays base_asset assets rebalancing payouts withdrawals conversions changes "
        "people",
        "planning/position": "scheduled",
        "payments/governing": "approval_hours",
        "ledger/policies": "no_limits",
        "reconciliation/report": "reconciliation",
    },
    AssetBand: {"planning/market": "target minimum maximum floor", "policy/model": "symbol"},
    RebalancingTable: {
        "planning/market": "min_trade slippage_bps fixed_cost pairs max_rate_age_seconds max_rate_move_bps "
        "max_spread_bps max_reference_move_bps",
        "planning/round_planner": "fee_bps",
        "policy/model": "return_to",
        "planning/position": "horizon_days history_quantile history_days",
        "rebalance/rebalancing": "max_rounds",
        "rebalance/round_inputs": "max_balance_age_minutes check_inverse_rates reference_rates",
    },
    Scheduled: {"planning/position": "name currency amount", "policy/model": "day_of_month weekday"},
    Changes: {"policy/model": "approvals people"},
    Person: {"policy/people": "keys os_users may"},
    Tolerances: {
        "reconciliation/comparison": "fee_tolerance_bps rate_tolerance_bps",
        "policy/tolerances": "due_hours",
        "reconciliation/breaks": "high_amounts",
        "reconciliation/report": "kyc_unused_days",
        "reconciliation/arrivals": "invoice_days likely_bps likely_days",
        "nights/sweep": "by_age",
    },
    ByAge: {"policy/tolerances": "nightly_days weekly_days monthly_days"},
}
"""Table -> the module of `treasury` that reads each field which `JUDGES` does not judge."""


def tables_of(table: type[PolicyTable]) -> Iterator[type[PolicyTable]]:
    """Yield a table of a policy and every table in it."""
    yield table
    parts = [field.annotation for field in table.model_fields.values()]
    while parts:
        part = parts.pop()
        parts += get_args(part)
        if isinstance(part, type) and issubclass(part, PolicyTable):
            yield from tables_of(part)


def check_judged(policy: type[Policy] = Policy) -> None:
    """Raise `TypeError` for a field of a policy that nobody judges or reads."""
    for table in tables_of(policy):
        read = {name for each in table.__mro__ for names in READ_BY.get(each, {}).values() for name in names.split()}
        judged = JUDGES.keys() if issubclass(table, Limits) else set()
        if left := table.model_fields.keys() - read - judged:
            raise TypeError(
                f"{table.__name__}: nobody judges or reads {', '.join(sorted(left))}: say who does in JUDGES or READ_BY"
            )


check_judged()


# --- rows of a sheet -----------------------------------------------------------------------------------------------


def judge_rows(rows: Iterable[PayoutRow], limits: PaymentLimits) -> list[RowProblem]:
    """Problems of rows with the limits. Messages show no amount that is not in the sheet."""
    return [
        RowProblem(row.line, row.row_ref, column, rule, value, code="policy_limit")
        for row in rows
        for column, rule, value in _judge_row(row, limits)
    ]


def judge_unbounded(rows: Iterable[PayoutRow], limits: PaymentLimits) -> list[RowProblem]:
    """Problems of rows whose debit nothing bounds: neither they, nor an estimate, nor the policy."""
    said = "cannot be paid: the service does not say in {} what it costs, fee included, and nothing else limits that"
    rule = (
        "is needed: this row fixes what is received, and the service did not say a rate, so nothing bounds what it "
        "debits; give the most that it may debit here, or set max_per_payout.{} in the policy"
    )
    found = []
    for row in rows:
        if row.route is Route.QR_CODE:
            if row.estimate is None:
                found.append(RowProblem(row.line, row.row_ref, "qrcode", said.format(row.currency), code="unbounded"))
        elif row.amount is None and row.ceiling(limits.max_per_payout.get(row.currency)) is None:
            asked = rule.format(row.currency)
            found.append(RowProblem(row.line, row.row_ref, "max_pay_amount", asked, code="unbounded"))
    return found


def judge_service(rows: Iterable[PayoutRow], service: ServiceRules) -> list[RowProblem]:
    """Problems of rows with what this account's service accepts."""
    found = ((row, service.quote_problem(row.fields)) for row in rows)
    return [
        RowProblem(row.line, row.row_ref, problem.field, problem.rule, problem.value, code="service_rule")
        for row, problem in found
        if problem is not None
    ]


def _judge_row(row: PayoutRow, limits: PaymentLimits) -> Iterator[tuple[str, str, str | None]]:
    maximum, way = limits.max_per_payout.get(row.currency), row.way
    if row.amount is None and row.ceiling(maximum) is None and row.currency in limits.limited():
        rule = (
            f"is needed: the policy limits {row.currency}, and what this row debits is not known beforehand; give the "
            f"most that it may debit here, or set max_per_payout.{row.currency} in the policy"
        )
        yield "max_pay_amount", rule, None
    costs = row.estimate if row.route is Route.QR_CODE else None  # nothing that is sent holds it to a bound
    rule = f"may cost {format_amount(costs or ZERO)} {row.currency} by the service's terms and the margin: more than"
    if costs is not None and row.max_pay_amount is not None and costs > row.max_pay_amount:
        yield "qrcode", f"{rule} max_pay_amount, {format_amount(row.max_pay_amount)}", None
    address = listed_as(row.account, row.bank) if row.route is Route.WITHDRAWAL else None
    debit = row.amount if row.amount is not None else costs
    countries = {} if getattr(limits, "countries", None) is None else row.countries
    for breach in judge(limits, Leaving(currency=row.currency, debit=debit, countries=countries, address=address)):
        match breach.limit:
            case "max_per_payout" if row.amount is None:
                yield "qrcode", f"{rule} max_per_payout, {breach.most}", None
            case "max_per_payout":
                rule = f"is over the policy's limit of {breach.most} {row.currency} per payout"
                yield str(way.amount), rule, breach.said
            case "currencies":
                yield way.currency or "qrcode", "is not a currency that the policy allows", breach.said
            case "countries" if breach.said == row.country:
                yield countries[breach.said], "is not a country that the policy allows", breach.said
            case "countries":
                rule = f"belongs to {breach.said}, which is not a country that the policy allows"
                yield countries[breach.said], rule, None
            case "addresses":
                with_tag = " with its tag, listed as ADDRESS:TAG," if row.bank else ""
                yield "address", f"is not{with_tag} among the addresses that the policy allows", None
            case _:  # a limit that has no words here is one all the same
                yield "row", f"is over {breach.limit} of the policy", None


def check_run_total(debits: Mapping[str, Decimal], limits: PaymentLimits) -> str | None:
    """Why the sums of a run are over its limits; None when they are not."""
    for currency, total in debits.items():
        if (most := above(limits.max_per_run, currency, total)) is not None:
            sums = f"{format_amount(total)} {currency}, over the limit of {format_amount(most)}"
            return f"the run debits {sums} per run"
    return None
