"""The sums of each balance account that a report draws: what moved since the one before, and what is on its way."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from treasury.ledger.receipts import credit_of, is_inside, is_later
from treasury.ledger.taken_over import is_first_landing
from treasury.ledger.unpriced import brings, debit_of, on_its_way
from treasury.money import ZERO, format_amount
from treasury.orders.states import OPEN, State
from treasury.provider.service_rules import ServiceRules
from treasury.provider.status import OrderStatus

MAX_NAMED = 20
"""Open orders, and orders of which an effect was learnt late, that a report names of each currency."""


def _amounts() -> "defaultdict[str, defaultdict[str, Decimal]]":
    return defaultdict(lambda: defaultdict(Decimal))


def _lists() -> "defaultdict[str, list[Any]]":
    return defaultdict(list)


@dataclass
class AccountSums:
    """Adds up rows of the ledger by currency, under the names of `Flows`."""

    rules: ServiceRules
    opened: Mapping[str, Any]
    """Currency -> the report that opened its account."""
    since: int | None
    """When the report before was made, Unix ms."""
    shown: Mapping[tuple[str, int], OrderStatus]
    """Currency and id -> status of an order in that opening, which was held, or had ended unpaid."""
    _flows: defaultdict[str, defaultdict[str, Decimal]] = field(default_factory=_amounts)
    _ages: defaultdict[str, list[tuple[int, str]]] = field(default_factory=_lists)
    _late: defaultdict[str, list[str]] = field(default_factory=_lists)
    _ended: defaultdict[str, list[int]] = field(default_factory=_lists)

    @property
    def pending(self) -> set[int]:
        """Ids of the orders that may be inside an opening: the service showed them on their way then."""
        return {number for (_, number), status in self.shown.items() if not status.is_final}

    def _is_pending(self, currency: str, order_id: int) -> bool:
        status = self.shown.get((currency, order_id))
        return status is not None and not status.is_final

    def _is_inside(self, currency: str, order_id: int) -> bool:
        """Tell whether the opening of an account holds already what an order moved."""
        return self.shown.get((currency, order_id)) is OrderStatus.SUCCESS

    # --- on its way ---

    def add_open(self, row: Any) -> None:
        """Add an open order whose amount is known."""
        for name, currency, amount in on_its_way(row, self.rules):
            self._add_on_its_way(row, name, currency, amount)
        if debit_of(row, self.rules) == "in_flight":
            self._add_age(row.currency, row)
        if brings(row):
            self._add_age(row.receive_currency, row)

    def _add_on_its_way(self, row: Any, name: str, currency: str, amount: Decimal) -> None:
        """Add what an order moves, and whether it was on its way when the account of the currency was opened."""
        sums, opening = self._flows[currency], self.opened.get(currency)
        sums[name] += amount
        was_sent = row.sent_at is not None and opening is not None and row.sent_at <= opening.as_of
        if (was_sent or self._is_pending(currency, row.id)) and name in ("in_flight", "receiving"):
            sums[f"{name}_before"] += amount

    def _add_age(self, currency: str, row: Any) -> None:
        self._ages[currency].append((row.created_at, row.request_id))

    def add_pending(self, row: Any) -> None:
        """Add what an opening may hold of an order of `pending`."""
        for name, currency, amount in on_its_way(row, self.rules):
            if name != "undebited" and self._is_pending(currency, row.id):
                self._flows[currency]["receiving_then" if name == "receiving" else "in_flight_then"] += amount

    def add_unpriced(self, row: Any, shown: Mapping[str, Any]) -> None:
        """Add an order whose amount only its answer shows, open or settled; what left after the report before had not
        moved then."""
        state, currency = State(row.state), row.currency or shown.get("seen_currency")
        if currency is None:
            return
        debits = [(currency, Decimal(shown["seen_amount"]))]
        if row.operation in self.rules.fee_on_top and shown.get("seen_fee") is not None:
            debits.append((shown.get("seen_fee_currency") or currency, Decimal(shown["seen_fee"])))
        for code, amount in debits:
            sums = self._flows[code]
            if self._is_pending(code, row.id):
                sums["in_flight_then"] += amount
            if state is State.SETTLED:
                debit = ZERO if self._is_inside(code, row.id) else amount
                sums["unpriced"] += debit
                is_new = self.since is not None and row.sent_at is not None and row.sent_at > self.since
                sums["unpriced_since"] += debit if is_new else 0
            else:
                self._add_on_its_way(row, "in_flight", code, amount)
        if state in OPEN:
            self._add_age(currency, row)

    # --- moved ---

    def add_step(self, row: Any) -> None:
        """Add what a step of the journal moved, and name what was learnt late."""
        source, target = State(row.source), State(row.target)
        landed = (target is State.SETTLED) - (source is State.SETTLED)
        if landed:
            is_late = source not in OPEN or bool(row.taken_over)
            for name, currency, amount in self._effects(row):
                if self._is_inside(currency, row.order_id) and is_first_landing(row):
                    continue
                self._add_effect(currency, name, landed * amount, is_late=is_late)
                if is_late and name in ("arrived", "received"):
                    self._late[currency].append(row.request_id)
        if self.since is not None and row.sent_at is not None and row.sent_at <= self.since:
            self._add_ended(row, source, target)

    def _effects(self, row: Any) -> Iterator[tuple[str, str, Decimal]]:
        """Yield name, currency and amount of what an order moves when it is paid."""
        yield "arrived", row.currency, Decimal(row.amount)
        if row.fee is not None:
            name = "fees" if row.operation in self.rules.fee_on_top else "fees_beside"
            yield name, row.fee_currency or row.currency, Decimal(row.fee)
        if brings(row):
            yield "received", row.receive_currency, Decimal(row.receive_amount)

    def _add_effect(self, currency: str, name: str, amount: Decimal, *, is_late: bool) -> None:
        """Add an effect; one that the ledger learns of late may have been earlier."""
        self._flows[currency][name] += amount
        if is_late and name != "fees_beside":
            self._add_earlier(currency, -amount if name == "received" else amount)

    def _add_earlier(self, currency: str, debit: Decimal) -> None:
        self._flows[currency]["found" if debit > 0 else "returned"] += abs(debit)

    def _add_ended(self, row: Any, source: State, target: State) -> None:
        """Add what the end of an order moved that the report before had on its way, where `debited_when` leaves no
        range: it may have ended after that report asked about it, or could not, and before it read the balance."""
        when = self.rules.debited_when.get(row.operation)
        if when == "final" and source in OPEN and target is State.SETTLED:
            name = "ended_out"
        elif when == "accepted" and source is State.ACCEPTED and target in (State.FAILED, State.CLOSED):
            name = "ended_in"
        else:
            return
        debits = [(row.currency, Decimal(row.amount))]
        if row.operation in self.rules.fee_on_top and row.fee is not None:
            debits.append((row.fee_currency or row.currency, Decimal(row.fee)))
        for currency, amount in debits:
            self._flows[currency][name] += amount
            self._ended[currency].append(row.sent_at)

    def correct_fees(self, steps: Iterable[Any], booked: Mapping[str, Decimal], *, moves_beside: bool) -> None:
        """Add what fees since the accounts were opened come to now beyond what was `booked` of them: the setting says
        otherwise now (`moves_beside`), or the service shows another fee than before, or its first one.

        `steps`: of the journal up to the report before, of operations whose fee is on top.
        """
        fees: dict[str, Decimal] = defaultdict(Decimal)
        for row in steps:
            currency = row.fee_currency or row.currency
            landed = (row.target == State.SETTLED.value) - (row.source == State.SETTLED.value)
            if self._is_inside(currency, row.order_id) and is_first_landing(row):
                continue
            if landed and currency in self.opened and row.step > self.opened[currency].journal_id:
                fees[currency] += landed * Decimal(row.fee)
        for currency in {*fees, *booked}:
            if debit := fees[currency] - booked.get(currency, ZERO):
                self._flows[currency]["fees"] += debit
                self._flows[currency]["fees_beside"] -= debit if moves_beside else 0
                self._add_earlier(currency, debit)

    def add_receipt(self, row: Any, counted: Collection[str]) -> None:
        """Add what a pay-in or deposit brought, but what an opening holds already; `counted`: those that it counts."""
        currency, credited = credit_of(row)
        opening = self.opened.get(currency)
        if opening is not None and is_inside(row, opening.as_of) and row.request_id not in counted:
            return
        self._flows[currency]["unpriced"] -= credited
        if self.since is not None and is_later(row, self.since):
            self._flows[currency]["unpriced_since"] -= credited

    # --- said ---

    def said(self) -> dict[str, dict[str, Any]]:
        """Return the sums as a report keeps them: by currency, amounts as text."""
        return {
            currency: {
                **{name: format_amount(total) for name, total in sorted(sums.items())},
                **_open(self._ages[currency]),
                "late_named": self._late[currency][:MAX_NAMED],
                "ended_since": min(self._ended[currency], default=None),
            }
            for currency, sums in sorted(self._flows.items())
            if currency
        }


def _open(ages: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Return what is said of the open orders of a currency, each given by its age and request id."""
    oldest = sorted(ages)[:MAX_NAMED]
    named = {"open_since": oldest[0][0], "open_named": [name for _, name in oldest]} if oldest else {}
    return {"open_orders": len(ages), **named}
