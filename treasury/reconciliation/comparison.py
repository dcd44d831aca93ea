"""Pure: compares both sides of every order and gives its class, a part of the orders at a time, so that more orders
need no more memory."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal

import numpy as np
import pandas as pd

from treasury.money import exact
from treasury.orders.states import State
from treasury.policy.model import Policy
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
    than its bound an order debited.
    """
    shown = [name for name in COLUMNS if name in both_sides or name not in LINE_COLUMNS]
    sides = Sides(both_sides.reindex(columns=shown), policy, as_of, fee_on_top, requoted)
    names = np.array([name for name, _ in RULES], dtype=object)
    first = np.select([rule(sides) for _, rule in RULES], range(len(RULES)), default=len(RULES) - 1)
    return sides.frame.assign(
        **{"class": names[first], "should_arrive": sides.should_arrive, "over_bound": sides.over_bound}
    )


def _query_failed(sides: Sides) -> Mask:
    return ~sides.found & ~sides.absent


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
    return (sides.found & ~sides.only_quoted & (shown | sides.excess)) | sides.differs("amount", "line_amount")


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
    ("query_failed", _query_failed),
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
