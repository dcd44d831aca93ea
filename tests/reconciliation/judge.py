"""An independent judge of balance accounts: plain loops after `docs/balance-accounts.md`, no sums of the product.

It takes nights and lines of statements, and says the range, the lots and the sums that the page demands.
`Judged.contested` names the nights on which the page and the sums of a night do not settle which lot ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from treasury.reconciliation.balances import Flows, Night
from treasury.reconciliation.breaks import Acceptance, Finding
from treasury.reconciliation.entries import StatementEntry

ZERO = Decimal(0)
INCOMING = ("charge", "pay")
TYPES = {
    "extract": ["withdraw"],
    "proxy_pay": ["submit_scan_to_pay"],
    "payout": ["payout", "create_fiat_payout"],
    "exchange": ["create_fiat_payout", "conversion_execute"],
    "charge": ["pay"],
    "pay": ["pay"],
}
"""The operations that a type names; any other type may be of all."""


def day_of(at: int) -> date:
    """Return the day of a time in Unix ms, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).date()


def days_between(before: int, now: int) -> list[str]:
    """List the days between two reports on which none was made."""
    day, last, days = day_of(before) + timedelta(days=1), day_of(now), []
    while day < last:
        days.append(day.isoformat())
        day += timedelta(days=1)
    return days


def left_at_most(night: Night) -> Decimal:
    """Return how much of what is open may have left: nothing where just that is frozen, and the balance stood still."""
    is_frozen = night.frozen == night.flows.in_flight and not night.moved
    return ZERO if is_frozen else night.flows.in_flight


def comes_in(line: StatementEntry) -> bool:
    return line.order_type in INCOMING


def counts(line: StatementEntry, known: Sequence[str], numbers: Sequence[tuple[str, str]] = ()) -> bool:
    """Tell whether the line is a movement of the account: money that moved for good, by no order of ours.

    `numbers`: each with the operation that it was given to.
    """
    ours = line.order_no in known or line.request_id in known
    for number, operation in numbers:
        may_be_of = TYPES.get(line.order_type or "", [operation])
        ours = ours or line.request_id == number or (line.order_no == number and operation in may_be_of)
    return not ours and (line.status is None or int(line.status) == 99)


@dataclass(frozen=True)
class Judged:
    """A night of one account, as the page wants it. The figures are None where the balance could not be read."""

    opening: Decimal | None
    closing: Decimal | None
    change: Decimal | None
    low: Decimal | None
    high: Decimal | None
    lots: Mapping[int, Decimal]
    contested: str | None = None


@dataclass
class AccountJudge:
    """The account of one balance, which rolls forward from its opening."""

    opening: Night | None = None
    entries: Decimal = ZERO
    lots: dict[int, Decimal] = field(default_factory=dict)
    waiting: list[Flows] = field(default_factory=list)
    lines: list[StatementEntry] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    """When reports read the balance."""
    kept: list[Decimal] = field(default_factory=list)
    """Entries that a range has taken in: negative ones left."""

    def judge(self, night: Night, given: Sequence[StatementEntry]) -> Judged:
        """Roll forward by one report of everything; `given` are the movements that its statement shows first."""
        if self.opening is None:
            return self._open(night)
        self.waiting.append(night.flows)
        self.lines.extend(given)
        if night.balance is not None:
            self.read.append(night.as_of)
        else:
            return Judged(self.opening.balance, None, None, None, None, dict(self.lots))
        assert self.opening.balance is not None
        change = night.balance - self.opening.balance
        found = returned = ZERO
        for flows in self.waiting:
            self.entries += flows.received - flows.arrived - flows.fees
            found, returned = found + flows.found, returned + flows.returned
        out_early, in_early = [found] if found else [], [returned] if returned else []
        out_lines: list[tuple[Decimal, int | None]] = []
        in_lines: list[tuple[Decimal, int | None]] = []
        for line in self.lines:
            if line.booked_on is not None and line.booked_on > day_of(self.opening.as_of):
                self.entries += line.amount if comes_in(line) else -line.amount
                (in_early if comes_in(line) else out_early).append(line.amount)
            else:
                (in_lines if comes_in(line) else out_lines).append((line.amount, self._found_until(line)))
        dated = any(line.booked_on is not None for line in self.lines)
        self.waiting, self.lines = [], []
        below, above = self._reach(night)
        contested = self._end_early(night, change, (below, above), out_early, in_early, dated)
        contested = self._state(out_lines, in_lines) or contested
        low, high = self.entries - below, self.entries + above
        return Judged(self.opening.balance, night.balance, change, low, high, dict(self.lots), contested)

    def take(self, lots: Mapping[int, Decimal], entries: Decimal) -> None:
        """Go on from what the product made of a contested night."""
        self.lots, self.entries = dict(lots), entries

    def reach(self, night: Night) -> tuple[Decimal, Decimal]:
        """Return how far the range goes below and above the entries."""
        return self._reach(night)

    def _open(self, night: Night) -> Judged:
        if night.balance is None:
            return Judged(None, None, None, None, None, {})
        self.opening = night
        self.read.append(night.as_of)
        below, above = self._reach(night)
        return Judged(night.balance, night.balance, ZERO, -below, above, {})

    def _reach(self, night: Night) -> tuple[Decimal, Decimal]:
        assert self.opening is not None
        first = self.opening
        below = left_at_most(night) + first.flows.receiving + max(night.moved, ZERO) + max(-first.moved, ZERO)
        above = left_at_most(first) + night.flows.receiving + max(-night.moved, ZERO) + max(first.moved, ZERO)
        return below, above

    def _end_early(
        self,
        night: Night,
        change: Decimal,
        reach: tuple[Decimal, Decimal],
        outs: Sequence[Decimal],
        ins: Sequence[Decimal],
        dated: bool,
    ) -> str | None:
        """End lots whose balance moved before the entry was known, and open one of what nothing explains."""
        lots = sum(self.lots.values(), ZERO)
        most, least = change - self.entries + reach[0], change - self.entries - reach[1]
        missing = least - lots if lots < least else most - lots if lots > most else ZERO
        here_out, here_in = self._sum(lambda amount: amount < 0), self._sum(lambda amount: amount > 0)
        contested = None
        touched = (outs and here_out) or (ins and here_in)
        if touched and (any(reach) or len(outs) + len(ins) > 1):
            contested = "an entry ends a lot while there is a range, or with another entry"
        elif touched and (dated or missing) and abs(missing) != min(sum(outs) or sum(ins), abs(here_out or here_in)):
            contested = "an entry whose amount is not what the balance misses"
        early = sum(outs, ZERO) if missing > 0 else sum(ins, ZERO)
        ended = self._end(min(abs(missing), early), lambda amount: (amount < 0) == (missing > 0)) if missing else ZERO
        left = (abs(missing) - ended).copy_sign(missing)
        if not any(reach):  # closed: an entry that a range had taken in ends a lot of which just its amount is missing
            for entry in self.kept:
                if left and entry == -left:
                    later = self._end(abs(entry), lambda amount, entry=entry: (amount < 0) == (entry < 0))  # type: ignore[misc]
                    left = (abs(left) - later).copy_sign(left)
        self.kept = [*self.kept, *(-out for out in outs), *ins] if any(reach) else []
        if left:
            self.lots[night.as_of] = left
        return contested

    def _found_until(self, line: StatementEntry) -> int | None:
        """Say when the last report was made whose lot a line may end: the first after its day and the next one."""
        if line.booked_on is None:
            return None
        over = line.booked_on + timedelta(days=2)
        return next((at for at in self.read if day_of(at) >= over), None)

    def _state(
        self, outs: Sequence[tuple[Decimal, int | None]], ins: Sequence[tuple[Decimal, int | None]]
    ) -> str | None:
        """Let lines without a day later than the opening's end lots of their sign."""
        for amounts, sign in ((outs, -1), (ins, 1)):
            for amount, until in amounts:
                self.entries += sign * self._end(amount, lambda lot, sign=sign: (lot > 0) == (sign > 0), until)  # type: ignore[misc]
        return "several lines without a day" if len(outs) > 1 or len(ins) > 1 else None

    def _sum(self, which: Callable[[Decimal], bool]) -> Decimal:
        return sum((amount for amount in self.lots.values() if which(amount)), ZERO)

    def _end(self, amount: Decimal, which: Callable[[Decimal], bool], until: int | None = None) -> Decimal:
        """End lots of `which` up to `amount`, an equal one first, else the oldest; return how much ended.

        `until`: only those that were found until then.
        """
        ended = ZERO
        may = [at for at in sorted(self.lots) if which(self.lots[at]) and (until is None or at <= until)]
        equal = [at for at in may if abs(self.lots[at]) == amount]
        for at in equal[:1] or may:
            part = min(abs(self.lots[at]), amount - ended)
            ended += part
            self.lots[at] -= part.copy_sign(self.lots[at])
            if not self.lots[at]:
                del self.lots[at]
        return ended


def adjusted(currency: str, lots: Mapping[int, Decimal], acceptances: Mapping[str, Acceptance]) -> Decimal:
    """Add the lots that a person accepted as they are now."""
    total = ZERO
    for at, amount in lots.items():
        accepted = acceptances.get(lot_id(currency, at))
        if accepted is not None and accepted.name == lot_class(amount) and accepted.difference == -amount:
            total += amount
    return total


def lot_class(amount: Decimal) -> str:
    return "balance_gap" if amount < 0 else "unexplained_inflow"


def lot_id(currency: str, at: int) -> str:
    """Return the id of the break that a lot is."""
    return Finding(f"balance {currency} {at}", "", None, currency, None, ZERO, "").id


def gross_and_net(lots: Sequence[Decimal], others: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    """Add differences of breaks without and with their signs; a lot that another break is, counts once."""
    differences, left = list(others), list(others)
    for lot in lots:
        if lot in left:
            left.remove(lot)
        else:
            differences.append(lot)
    return sum((abs(one) for one in differences), ZERO), sum(differences, ZERO)
