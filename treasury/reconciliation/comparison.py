"""Pure: compares both sides of every order, a part at a time, and counts and sums what each class holds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from treasury.money import ZERO, canonical, exact, is_same_currency
from treasury.orders.states import State
from treasury.policy.model import Policy
from treasury.policy.tables import BPS
from treasury.provider.status import OrderStatus
from treasury.reconciliation.classes import ABOVE_BOUND, CHANGED, PRIORITY
from treasury.reconciliation.entries import StatementEntry
from treasury.reconciliation.scope import SUPERSEDED
from treasury.reconciliation.sides import (
    COLUMNS,
    ENDINGS,
    LINE_COLUMNS,
    OUR_COLUMNS,
    THEIR_COLUMNS,
    Mask,
    Parts,
    Rows,
    Sides,
)
from treasury.reconciliation.third_side import Lines

_ENDED = {99: State.SETTLED.outcome, 44: State.FAILED.outcome, 88: State.CLOSED.outcome}
_STATES = frozenset(State)


@dataclass
class _Fees:
    orders: int = 0
    amount: Decimal = ZERO
    fees: Decimal = ZERO


@dataclass
class _Rates:
    orders: int = 0
    total: Decimal = ZERO
    lowest: Decimal = Decimal("Infinity")
    highest: Decimal = ZERO


@dataclass
class OrderSums:
    """Counts and sums over compared orders."""

    time_zone: str
    orders: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    """Class -> orders."""
    days: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Day in the time zone, and outcome as people read it -> orders."""
    _fees: dict[str, _Fees] = field(default_factory=lambda: defaultdict(_Fees))
    _rates: dict[str, _Rates] = field(default_factory=lambda: defaultdict(_Rates))

    @exact
    def add(self, orders: pd.DataFrame) -> None:
        """Add compared orders: both sides and `class`."""
        self.orders += len(orders)
        self.classes.update(orders["class"])
        if not orders.empty:
            self.days.update(zip(self._days(orders), _outcomes(orders), strict=True))
        arrived = orders[orders["status"] == 99]
        self._add_fees(arrived[arrived["seen_fee"].notna()])
        self._add_rates(arrived[arrived["currency"].notna() & arrived["receive_currency"].notna()])

    def _days(self, orders: pd.DataFrame) -> "pd.Series[Any]":
        made = pd.to_datetime(pd.to_numeric(orders["created_at"]), unit="ms", utc=True)
        return made.dt.tz_convert(ZoneInfo(self.time_zone)).dt.strftime("%Y-%m-%d").fillna("")

    def _add_fees(self, arrived: pd.DataFrame) -> None:
        """Add fees of what arrived. The amount of an order that nobody knew when it was sent is the one shown, and a
        fee whose currency is not shown is in the quoted one."""
        ours = ("currency", "amount", "receive_currency", "receive_amount")
        columns = ("seen_fee", "seen_fee_currency", "fee_currency", "seen_amount", "seen_currency", *ours)
        for fee, charged, quoted, seen, seen_in, *sides in zip(*(arrived[name] for name in columns), strict=True):
            currency = charged or quoted or sides[0]
            if currency is None:
                continue
            shown = seen if is_same_currency(seen_in, currency) else None
            base = (sides[1] or shown) if sides[0] == currency else sides[3] if sides[2] == currency else None
            sums = self._fees[currency]
            sums.orders += 1
            sums.amount += Decimal(base or 0)
            sums.fees += Decimal(fee)

    def _add_rates(self, arrived: pd.DataFrame) -> None:
        columns = (arrived[name] for name in ("currency", "receive_currency", "seen_rate", "rate"))
        for pays, receives, seen, quoted in zip(*columns, strict=True):
            rate = seen if seen is not None else quoted
            if rate is not None:
                sums, value = self._rates[f"{pays}-{receives}"], Decimal(rate)
                sums.orders += 1
                sums.total += value
                sums.lowest, sums.highest = min(sums.lowest, value), max(sums.highest, value)

    def by_day(self) -> Iterator[dict[str, Any]]:
        """Yield how many orders of each day came to which end."""
        for (day, outcome), count in sorted(self.days.items()):
            yield {"day": day, "outcome": outcome, "orders": count}

    @exact
    def fees(self) -> list[dict[str, Any]]:
        """Return the fees of what arrived, by their currency; `bps`: in basis points of the amounts."""
        return [
            {
                "currency": currency,
                "orders": sums.orders,
                "amount": canonical(sums.amount),
                "fees": canonical(sums.fees),
                "bps": f"{sums.fees / sums.amount * BPS:.2f}" if sums.amount else None,
            }
            for currency, sums in sorted(self._fees.items())
        ]

    @exact
    def rates(self) -> list[dict[str, Any]]:
        """Return the rates of what arrived, as the service shows them, for each pair of currencies."""
        return [
            {
                "pair": pair,
                "orders": sums.orders,
                "lowest": canonical(sums.lowest),
                "average": f"{sums.total / sums.orders:.8g}",
                "highest": canonical(sums.highest),
            }
            for pair, sums in sorted(self._rates.items())
        ]


def _outcomes(orders: pd.DataFrame) -> "pd.Series[Any]":
    """Return what became of each order, as people read it: as the service shows it, else as our side has it."""
    ours = orders["state"].map(lambda state: State(state).outcome if state in _STATES else state)
    theirs = orders["status"].map(_ENDED, na_action="ignore")
    return theirs.where(theirs.notna(), ours)


_LEFT = ("request_id", "run_key", "row_ref", "operation", "state", "known_order_no", "answer", "status", "order_no")


def compare_parts(
    parts: Parts, entries: Sequence[StatementEntry], policy: Policy, as_of: int, fee_on_top: Collection[str]
) -> Iterator[pd.DataFrame]:
    """Yield every order with its class, as `compare` gives them; `entries`: of the service's statement."""
    requoted, lines = requoted_rows(parts), Lines(entries, parts, policy) if entries else None
    for part in parts((*OUR_COLUMNS, *THEIR_COLUMNS)):
        sides = part if lines is None else lines.beside(part)
        yield compare(sides, policy, as_of, fee_on_top, requoted)


def requoted_rows(parts: Parts) -> Rows:
    """Return run key and row of the orders of which money left under more than one quote; their quotes may be in
    several parts.

    A second reading looks only for what the first one asks about: in most nights there is nothing.
    """
    asked = {row for sides in _read(parts) for row in sides.rows(sides.left_superseded)}
    if not asked:
        return frozenset()
    left = Counter(row for sides in _read(parts) for row in sides.rows(sides.left_as_quoted) if row in asked)
    return frozenset(row for row, count in left.items() if count > 1)


def _read(parts: Parts) -> Iterator[Sides]:
    return (Sides(part, Policy(), 0) for part in parts(_LEFT))


@exact
def compare(
    both_sides: pd.DataFrame,
    policy: Policy,
    as_of: int,
    fee_on_top: Collection[str] = (),
    requoted: Rows = frozenset(),
) -> pd.DataFrame:
    """Every order with its `class`, sorted by request id; the order of the rows that come in does not matter.

    Columns: `COLUMNS`, without `LINE_COLUMNS` where no statement is given; those that are missing count as not known.
    `requoted`: as `requoted_rows` gives them. `as_of`: Unix milliseconds, by which lateness is judged. Money compares
    exactly. An order that was not asked is one that could not be: `query_failed`. Of operations in `fee_on_top` the
    whole amount should arrive, of every other one the amount less its fee: `should_arrive`. `over_bound`: how much more
    than its bound an order debited. `only_quoted`: the amounts are those of a quote that nobody confirmed.
    """
    shown = [name for name in COLUMNS if name in both_sides or name not in LINE_COLUMNS]
    sides = Sides(both_sides.reindex(columns=shown), policy, as_of, fee_on_top, requoted)
    names = np.array([name for name, _ in RULES], dtype=object)
    first = np.select([rule(sides) for _, rule in RULES], range(len(RULES)), default=len(RULES) - 1)
    found = {name: getattr(sides, name) for name in ("should_arrive", "over_bound", "only_quoted")}
    return sides.frame.assign(**{"class": names[first], **found})


def _orphan(sides: Sides) -> Mask:
    said = sides.found & sides.status(OrderStatus.SUCCESS)
    line: Mask = sides.number("line_status", -1) == int(OrderStatus.SUCCESS)
    return sides.unpaid & (said | line)


def _missing(sides: Sides) -> Mask:
    return sides.absent & sides.at_service & sides.operation_says("absence_is_evidence")


def _currency(sides: Sides) -> Mask:
    shown = sides.differs("currency", "seen_currency") | sides.differs("receive_currency", "seen_receive_currency")
    return (sides.found & ~sides.only_quoted & shown) | sides.differs("currency", "line_currency")


def _amount(sides: Sides) -> Mask:
    shown = sides.differs("amount", "seen_amount") | sides.differs("receive_amount", "seen_receive_amount")
    arrived = sides.excess | sides.arrived_otherwise
    return (sides.found & ~sides.only_quoted & (shown | arrived)) | sides.differs("amount", "line_amount")


def _reversed(sides: Sides) -> Mask:
    others = [
        sides.state(state) & sides.status(*(status for status in ENDINGS.values() if status is not ending))
        for state, ending in ENDINGS.items()
    ]
    turned: Mask = np.logical_or.reduce(others)
    return sides.found & turned


def _conflict(sides: Sides) -> Mask:
    """Return where an order is found although it never acted, or is no longer final although it was."""
    never = sides.state(State.PREPARED, State.HELD, State.REJECTED, State.CANCELLED, SUPERSEDED)
    again = sides.state(*ENDINGS) & sides.status(OrderStatus.SUBMITTED, OrderStatus.PROCESSING)
    return sides.found & ~sides.only_quoted & (never | again | sides.ends_otherwise_in_the_statement)


def _stated_otherwise(sides: Sides) -> Mask:
    same = ~sides.differs("seen_fee_currency", "line_fee_currency")
    return sides.known("line_is_off") | (same & sides.differs("seen_fee", "line_fee"))


def _fee(sides: Sides) -> Mask:
    tolerance = sides.policy.reconciliation.fee_tolerance_bps
    other = sides.differs("fee_currency", "seen_fee_currency") & sides.known("seen_fee")
    return (
        sides.found
        & ~sides.not_there
        & ~sides.shows_no_fee
        & (other | sides.varies("fee", "seen_fee", tolerance, sides.fee_base))
    )


def _rate(sides: Sides) -> Mask:
    tolerance, quoted = sides.policy.reconciliation.rate_tolerance_bps, sides.column("rate")
    varies = sides.varies("rate", "seen_rate", tolerance, lambda place: abs(Decimal(quoted[place])))
    return sides.found & ~sides.not_there & varies


RULES: tuple[tuple[str, Callable[[Sides], Mask]], ...] = (
    ("query_failed", lambda sides: ~sides.found & ~sides.absent),
    ("other_record", lambda sides: sides.is_other_record),
    ("duplicate_effect", lambda sides: sides.paid_twice),
    ("orphan_success", _orphan),
    ("missing_at_service", _missing),
    ("currency_mismatch", _currency),
    ("amount_mismatch", _amount),
    ("reversed_after_final", _reversed),
    ("status_conflict", _conflict),
    ("unknown_outcome", lambda sides: sides.not_there & sides.state(State.SENDING, State.UNKNOWN)),
    ("partial", lambda sides: sides.short),
    (ABOVE_BOUND, lambda sides: sides.over_bound != None),  # noqa: E711 - by element
    ("missing_in_statement", lambda sides: sides.known("line_lacks")),
    (CHANGED, lambda sides: sides.known("changed")),
    ("unclassified_status", lambda sides: sides.found & ~sides.only_quoted & ~sides.is_listed),
    ("fee_variance", _fee),
    ("rate_variance", _rate),
    ("statement_variance", _stated_otherwise),
    ("pending_late", lambda sides: sides.waits & sides.late),
    ("unreadable_metadata", lambda sides: sides.found & ~sides.only_quoted & sides.known("unreadable")),
    ("in_progress", lambda sides: sides.waits),
    ("quote_expired_unused", lambda sides: sides.state(SUPERSEDED)),
    ("matched", lambda sides: np.ones(len(sides.frame), dtype=bool)),
)
"""Class -> where it applies; an order gets the first that applies."""

if [PRIORITY[name] for name, _ in RULES] != sorted(PRIORITY[name] for name, _ in RULES):
    raise AssertionError("the rules are not in the order of the classes")
