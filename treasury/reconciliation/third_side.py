"""Pure: the service's statement as a third side beside ledger and answers, and as entries of the balance accounts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from treasury.money import exact
from treasury.orders.states import State
from treasury.policy.model import Policy
from treasury.provider.status import OrderStatus
from treasury.reconciliation.balances import BalanceAccount, Flows, MovementLine, Night, pooled
from treasury.reconciliation.entries import Name, StatementEntry
from treasury.reconciliation.rolling import roll_forward
from treasury.reconciliation.sides import LINE_COLUMNS, Parts

SLACK = timedelta(days=1)
"""Days by which a line's date may lie before the order was made: the service's day is another zone's."""

DUE = timedelta(days=7)
"""Days by which a line's date may lie after the end of its order: value dates are later than bookings."""


Periods = Mapping[Any, Sequence[tuple[date, date, int]]]
"""Currency and operation -> first and last day of each statement that shows orders of them, and when it was given."""


_COLUMNS = (
    *("request_id", "known_order_no", "order_no", "operation", "state", "status", "currency", "created_at", "final_at"),
)


class Lines:
    """The lines of a statement beside the orders of a report, and the days for which each file shows orders."""

    def __init__(self, entries: Sequence[StatementEntry], parts: Parts, policy: Policy) -> None:
        self._by_name = _by_name(entry for entry in entries if not entry.is_incoming)
        self._back = _by_name(entry for entry in entries if entry.is_incoming and entry.has_moved)
        self._policy = policy
        asked = {entry.request_id for entry in entries if entry.request_id}
        read = parts(("request_id",)) if asked else ()
        self._named = {name for part in read for name in asked.intersection(part["request_id"])}
        """Request ids of orders that lines name."""
        self._periods = self._periods_of(parts)

    def beside(self, both_sides: pd.DataFrame) -> pd.DataFrame:
        """Add what the statement shows of each order, by its request id or the service's number: `LINE_COLUMNS`."""
        both_sides = both_sides.drop(columns=list(LINE_COLUMNS), errors="ignore")
        third = [
            _columns(row, self._of(row), self._periods, self._policy) | self._came_back(row)
            for row in _rows(both_sides)
        ]
        return both_sides.join(pd.DataFrame(third, index=both_sides.index, columns=list(LINE_COLUMNS), dtype=object))

    def _of(self, row: Mapping[Any, Any]) -> Sequence[StatementEntry]:
        """Return the lines of an order: by its request id, or by its number where they name neither another order's
        request id nor another operation."""
        found = list(self._by_name.get(row["request_id"], ()))
        for number in (row["known_order_no"], row["order_no"]):
            found += (each for each in self._by_name.get(number, ()) if (number, row["operation"]) in each.names)
        names = (row["request_id"], None)
        ours = (each for each in found if each.request_id in names or each.request_id not in self._named)
        return tuple({entry.order_no: entry for entry in ours}.values())

    def _came_back(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Say of an order whose money a line shows coming in again, under its request id, that it has not arrived."""
        back = [entry for entry in self._back.get(row["request_id"], ()) if entry.currency == row["currency"]]
        if not any(_is_news(row, entry) for entry in back):
            return {}
        end = row["status"] if row["status"] in RETURNED else OrderStatus.FAILED
        words = [entry.words for entry in self._of(row)] + [f"{entry.words} (came back)" for entry in back]
        return {"line_status": end, "line_words": "; ".join(words), "line_lacks": None}

    def _periods_of(self, parts: Parts) -> Periods:
        """Return the first and last day of which each file shows orders of a currency and operation.

        Where its lines have no dates they are the days of the orders themselves. A line that an earlier file had, too,
        is that file's; the days of a later file are those that its own lines say.
        """
        days: dict[tuple[str, int, Any], tuple[date, date]] = {}
        for part in parts(_COLUMNS):
            for row in _rows(part):
                for entry in self._of(row):
                    file = (entry.file, entry.given_at, (row["currency"], row["operation"]))
                    said = [day for day in (entry.booked_on, entry.first_day, entry.last_day) if day is not None]
                    if booked := [*(said or _own_days(row, self._policy)), *days.get(file, ())]:
                        days[file] = min(booked), max(booked)
        periods: dict[Any, list[tuple[date, date, int]]] = {}
        for (_, given_at, kind), each in days.items():
            periods.setdefault(kind, []).append((*each, given_at))
        return periods


def _rows(both_sides: pd.DataFrame) -> list[dict[Any, Any]]:
    orders = both_sides[list(_COLUMNS)]
    return orders.astype(object).where(orders.notna(), None).to_dict("records")


RETURNED = (OrderStatus.FAILED, OrderStatus.CLOSED)
"""Ends at which the money is back."""


def _by_name(entries: Iterable[StatementEntry]) -> dict[str, list[StatementEntry]]:
    """Return request id and order number -> the lines under it."""
    found: dict[str, list[StatementEntry]] = {}
    for entry in entries:
        for name in {entry.request_id or entry.order_no, entry.order_no}:
            found.setdefault(name, []).append(entry)
    return found


def _is_news(row: Mapping[Any, Any], entry: StatementEntry) -> bool:
    """Tell whether a line was given after its order ended, or came back: an earlier one says nothing about that."""
    return row["final_at"] is None or _is_after(row, entry.given_at)


def _is_after(row: Mapping[Any, Any], given_at: int) -> bool:
    """Tell whether a file was given after an order ended; 0 is one of this very report, whose time nobody says."""
    return bool(given_at == 0 or given_at >= row["final_at"])


def _columns(
    row: Mapping[Any, Any], found: Sequence[StatementEntry], periods: Periods, policy: Policy
) -> dict[str, Any]:
    if not found:
        return {"line_lacks": True} if _is_lacking(row, periods, policy) else {}
    first = next((entry for entry in found if entry.has_effect), found[0])
    return {
        "line_orders": len({entry.order_no for entry in found if entry.has_effect}),
        "line_currency": first.currency,
        "line_amount": first.amount,
        "line_status": first.status if _is_news(row, first) else None,
        "line_words": "; ".join(entry.words for entry in found),
        "line_fee": first.fee,
        "line_fee_currency": first.fee_currency or first.currency,
        "line_is_off": _is_off(row, first, policy) or None,
    }


def _is_off(row: Mapping[Any, Any], entry: StatementEntry, policy: Policy) -> bool:
    """Tell whether a line's date lies before its order was made, or long after it ended."""
    if entry.booked_on is None or row["created_at"] is None:
        return False
    made, ended = _day(row, "created_at", policy), None if row["final_at"] is None else _day(row, "final_at", policy)
    return entry.booked_on < made - SLACK or (ended is not None and entry.booked_on > ended + DUE)


def _is_lacking(row: Mapping[Any, Any], periods: Periods, policy: Policy) -> bool:
    """Tell whether a statement that shows orders like this one, of the days around it, lacks this one."""
    if row["state"] != State.SETTLED or row["status"] != OrderStatus.SUCCESS or row["final_at"] is None:
        return False
    made, ended = _day(row, "created_at", policy), _day(row, "final_at", policy)
    files = periods.get((row["currency"], row["operation"]), ())
    return any(first <= made and ended <= last and _is_after(row, given_at) for first, last, given_at in files)


def _own_days(row: Mapping[Any, Any], policy: Policy) -> list[date]:
    return [_day(row, name, policy) for name in ("created_at", "final_at") if row[name] is not None]


def _day(row: Mapping[Any, Any], name: str, policy: Policy) -> date:
    return date.fromisoformat(policy.day_of(int(row[name])))


@exact
def with_entries(
    balances: Mapping[str, Sequence[Night]], entries: Sequence[StatementEntry], ours: Collection[Name], policy: Policy
) -> dict[str, list[Night]]:
    """Add what a statement shows of others' movements to the flows of the report that was given it.

    `ours`: every name of an order of this ledger, whose movements are entries already. A movement that is known to be
    later than the account's opening is an entry; any other one only ends lots of its sign that it may be a part of.
    """
    series = {currency: list(nights) for currency, nights in balances.items()}
    for entry in (each for each in entries if each.has_moved and not each.is_among(ours)):
        nights = series.get(entry.currency, [])
        opening = next((night for night in nights if night.balance is not None), None)
        place = _place_of(entry, nights)
        if opening is not None and place is not None:
            booked_from = found_until = None
            if entry.booked_on is not None and is_later_than(opening.as_of, entry, policy):
                booked_from = _start_of(entry.booked_on, entry, policy)
            elif entry.booked_on is not None:
                over = _start_of(entry.booked_on + SLACK + timedelta(days=1), entry, policy)
                read = (night.as_of for night in nights if night.balance is not None)
                found_until = next((as_of for as_of in read if as_of >= over), None)
            line = MovementLine(entry.moved, booked_from, found_until)
            nights[place] = replace(nights[place], flows=nights[place].flows + Flows(lines=(line,)))
    return series


def _place_of(entry: StatementEntry, nights: Sequence[Night]) -> int | None:
    """Return the place of the report that was given a line: no clock says which are later, for one may be set back."""
    times = [night.as_of for night in nights]
    if entry.given_at in times:
        return times.index(entry.given_at)
    return next((place for place, as_of in enumerate(times) if as_of >= entry.given_at), None)


def is_later_than(opened_at: int, entry: StatementEntry, policy: Policy) -> bool:
    """Tell whether a movement is known to be of a day after the opening, in the time zone of when it was given."""
    if entry.booked_on is None:
        return False
    return entry.booked_on > date.fromisoformat(_days_of(entry, policy).day_of(opened_at))


def _start_of(day: date, entry: StatementEntry, policy: Policy) -> int:
    """Return when a day began, Unix ms, in the time zone of when a line was given."""
    days = _days_of(entry, policy)
    return days.day_start_ms(datetime.combine(day, time(12), ZoneInfo(days.time_zone)))


def _days_of(entry: StatementEntry, policy: Policy) -> Policy:
    """Return the policy with the time zone of when a line was given: what was reported then stays as it was."""
    return policy if entry.time_zone is None else policy.model_copy(update={"time_zone": entry.time_zone})


def roll_accounts(
    balances: Mapping[str, Sequence[Night]], entries: Sequence[StatementEntry], ours: Collection[Name], policy: Policy
) -> list[BalanceAccount]:
    """Roll all accounts forward, with what lines of statements (`entries`) explain of others' movements."""
    series = with_entries(balances, entries, ours, policy)
    return [roll_forward(currency, nights, codes) for currency, (codes, nights) in pooled(series).items()]
