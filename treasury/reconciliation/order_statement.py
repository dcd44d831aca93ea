"""Pure: the statement of orders, per currency. What was in flight, what left, what became of it, what still is."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal

from treasury.money import ZERO, canonical, exact
from treasury.orders.states import OPEN, State

RETURNED = (State.FAILED, State.CLOSED)


@dataclass(frozen=True)
class Move:
    """A step of the journal: an amount that went from one state to another. `is_on_top`: its fee is no part of it."""

    currency: str
    amount: Decimal
    source: State
    target: State
    fee_currency: str | None = None
    fee: Decimal | None = None
    is_on_top: bool = False


@dataclass(frozen=True)
class StatementLine:
    """One currency, amounts in it: opening in flight + sent = arrived + fees + failed and returned + closing in flight.

    `sent`: less what turned out never to have left. `fees`: taken from the amounts of what arrived. `fees_beside`:
    taken on top of them, or from amounts of another currency; no part of the sums.
    """

    currency: str
    opening_in_flight: Decimal
    sent: Decimal
    arrived: Decimal
    fees: Decimal
    failed_and_returned: Decimal
    closing_in_flight: Decimal
    fees_beside: Decimal = ZERO

    @property
    @exact
    def residual(self) -> Decimal:
        """Return what the journal's steps do not explain of the change in flight; zero, or the books are wrong."""
        gone = self.arrived + self.fees + self.failed_and_returned
        return self.opening_in_flight + self.sent - gone - self.closing_in_flight

    def as_text(self) -> dict[str, str]:
        """As exact text, the residual with it."""
        said = {name: _text(value) for name, value in asdict(self).items()}
        return {**said, "residual": canonical(self.residual)}


_SUMS = [each.name for each in fields(StatementLine) if each.name != "currency"]


@exact
def draw_statement(
    opening: Mapping[str, Decimal], moves: Iterable[Move], closing: Mapping[str, Decimal]
) -> list[StatementLine]:
    """The statement of a period, one line per currency.

    `opening`: in flight at the last report, as it said. `moves`: every step of the journal since. `closing`: in
    flight by the orders' states now. Three sources, so that the residual says something.
    """
    lines: dict[str, dict[str, Decimal]] = defaultdict(lambda: dict.fromkeys(_SUMS, ZERO))
    for name, known in (("opening_in_flight", opening), ("closing_in_flight", closing)):
        for currency, amount in known.items():
            lines[currency][name] = amount
    for move in moves:
        sums = lines[move.currency]
        sums["sent"] += move.amount * (_left(move.target) - _left(move.source))
        landed = (move.target is State.SETTLED) - (move.source is State.SETTLED)
        sums["arrived"] += move.amount * landed
        sums["failed_and_returned"] += move.amount * ((move.target in RETURNED) - (move.source in RETURNED))
        if move.fee is not None and landed:
            taken_in = move.fee_currency or move.currency
            if move.is_on_top or taken_in != move.currency:
                lines[taken_in]["fees_beside"] += move.fee * landed
            else:
                sums["fees"] += move.fee * landed
                sums["arrived"] -= move.fee * landed
    return [StatementLine(currency=currency, **sums) for currency, sums in sorted(lines.items())]


def _left(state: State) -> int:
    """Tell whether an order in this state has left us: 1, or 0."""
    return int(state in OPEN or state is State.SETTLED or state in RETURNED)


def _text(value: str | Decimal) -> str:
    return value if isinstance(value, str) else canonical(value)
