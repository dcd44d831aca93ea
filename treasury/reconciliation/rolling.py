"""Pure: a balance account rolls forward from its opening over all reports; what nothing explains stays in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from treasury.money import ZERO, exact
from treasury.reconciliation.balances import BalanceAccount, Flows, Lot, MovementLine, Night


@exact
def roll_forward(currency: str, nights: Sequence[Night], codes: Sequence[str] = ()) -> BalanceAccount:
    """Roll the account of a currency forward over all reports, oldest first; the first that read it opens it.

    `codes`: those that share its balance.

    A report that finds the change outside of what is explained makes a lot of the rest. Before that, entries that may
    be older than the report which learned of them end lots of their sign; nothing else ends one.
    """
    account = _Account()
    for night in nights:
        account.add(night)
    return account.rolled(currency, tuple(codes) or (currency,), nights[-1])


@dataclass(frozen=True)
class Span:
    """The least and the greatest change since the opening that entries and open orders explain."""

    low: Decimal
    high: Decimal


class _Lots:
    """The lots of an account while it is rolled forward, and the entries that may end some.

    Such an entry is new in the report that learns of it. One that the range has taken in is kept: once the range is
    closed, it ends a lot if just its amount is missing.
    """

    def __init__(self) -> None:
        self.standing: list[Lot] = []
        self._new: list[tuple[Decimal, int | None]] = []
        self._kept: list[tuple[Decimal, int | None]] = []

    def learn(self, *amounts: Decimal, since: int | None = None) -> None:
        """Take entries that may be older than this report: negative ones left, positive ones came in.

        `since`: they had not moved before, Unix ms.
        """
        self._new += [(amount, since) for amount in amounts if amount]

    def explain(self, change: Decimal, span: Span, at: int, fees: Decimal, ruled: Decimal) -> None:
        """Let the new entries end lots where the balance says that they moved before; make a lot of what is left."""
        width = span.high - span.low
        for entry, since in sorted(self._new, key=lambda new: new[0] != -self._over(change, span)):
            over = self._over(change, span)
            if over * entry < 0:  # a movement is whole, as far as the range lets it be
                self.end(entry, since=since, most=abs(over) + width)
        if not width:
            for entry, since in self._kept:
                if entry == -self._over(change, span):
                    self.end(entry, since=since)
        self._kept = [*self._kept, *self._new] if width else []
        self._new = []
        if rest := self._over(change, span):
            self.standing.append(Lot(at, rest, fees, ruled))

    def _over(self, change: Decimal, span: Span) -> Decimal:
        """Return how much of the change neither the range nor the lots explain."""
        known = sum((lot.amount for lot in self.standing), ZERO)
        return max(change - span.high - known, ZERO) or min(change - span.low - known, ZERO)

    def end(
        self, amount: Decimal, *, since: int | None = None, until: int | None = None, most: Decimal | None = None
    ) -> Decimal:
        """End lots of the sign of a movement, equal ones first, then the oldest; return how much of it that was.

        `since`, `until`: only lots that were found from then on, or until then, Unix ms; `most`: no more than this.
        """
        left = abs(amount) if most is None else min(abs(amount), most)
        wanted = sorted(self.standing, key=lambda lot: (lot.amount != amount, lot.at))
        ended = ZERO
        for lot in wanted:
            is_in_time = (since is None or lot.at >= since) and (until is None or lot.at <= until)
            if lot.amount * amount > 0 and left and is_in_time:
                taken = min(abs(lot.amount), left).copy_sign(amount)
                place = self.standing.index(lot)
                self.standing[place] = replace(lot, amount=lot.amount - taken)
                ended, left = ended + taken, left - abs(taken)
        self.standing = [lot for lot in self.standing if lot.amount]
        return ended


class _Account:
    """An account while it is rolled forward."""

    def __init__(self) -> None:
        self._opening: Night | None = None
        self._nights = 0
        self._lots = _Lots()
        self._total, self._entered = Flows(), ZERO
        """Flows, and entries of statements, since the opening."""
        self._change, self._span = ZERO, Span(ZERO, ZERO)
        self._unpriced = self._unpriced_since = ZERO
        self._lines = list[MovementLine]()
        """Lines of statements since a report read the balance last."""
        self._stated = list[Lot]()

    def add(self, night: Night) -> None:
        """Add the next report; the first that read the balance opens the account."""
        opening = self._opening
        if opening is None and night.balance is not None:
            self._opening, self._nights, self._unpriced = night, 1, night.flows.unpriced
            self._span = _span(night, self._total, night, ZERO)
        if opening is None:
            return
        self._learn(night.flows)
        if night.balance is not None and opening.balance is not None:
            self._explain(opening, night, night.balance - opening.balance)

    def _learn(self, flows: Flows) -> None:
        """Take what a report learnt, whether it read the balance or not."""
        self._total, self._lines = _with(self._total, flows), [*self._lines, *flows.lines]
        self._lots.learn(-flows.found, flows.returned)
        self._lots.learn(-flows.ended_out, flows.ended_in, since=flows.ended_since)
        self._unpriced_since += flows.unpriced_since

    def _explain(self, opening: Night, night: Night, change: Decimal) -> None:
        """Explain the change since the opening; lines of statements without a day end lots after the others."""
        flows, lots = night.flows, self._lots
        settled, self._unpriced = flows.unpriced - self._unpriced, flows.unpriced
        lots.learn(self._unpriced_since - settled)
        for line in self._lines:
            if line.booked_from is not None:
                self._entered += line.amount
                lots.learn(line.amount - lots.end(line.amount, since=line.booked_from))
        span = _span(opening, self._total, night, self._entered)
        lots.explain(change, span, night.as_of, self._total.fees_beside, flows.debited + flows.undebited)
        others = [line for line in self._lines if line.booked_from is None]
        known = sum((lots.end(line.amount, until=line.found_until) for line in others), ZERO)
        self._entered += known
        self._stated += [Lot(night.as_of, known)] if known else []
        self._change, self._span = change, Span(span.low + known, span.high + known)
        self._nights += 1
        self._total, self._unpriced_since, self._lines = replace(self._total, fees_beside=ZERO), ZERO, []

    def rolled(self, currency: str, codes: tuple[str, ...], last: Night) -> BalanceAccount:
        """Return the account as it stands after the last report."""
        opening, is_read = self._opening, self._opening is not None and last.balance is not None
        return BalanceAccount(
            currency=currency,
            nights=self._nights,
            opened_at=None if opening is None else opening.as_of,
            opening=None if opening is None else opening.balance,
            closing=last.balance,
            change=self._change if is_read else None,
            explained_low=self._span.low if is_read else None,
            explained_high=self._span.high if is_read else None,
            lots=tuple(self._lots.standing),
            last=last,
            codes=codes,
            stated=tuple(self._stated),
            open_then=() if opening is None else opening.flows.open_named,
            moved_then=ZERO if opening is None else opening.moved or opening.flows.unread_out + opening.flows.unread_in,
            debited_then=ZERO if opening is None else opening.flows.debited,
        )


def _with(total: Flows, flows: Flows) -> Flows:
    """Add the flows of one more report."""
    since = ("arrived", "received", "fees", "fees_beside")
    return replace(total, **{name: getattr(total, name) + getattr(flows, name) for name in since})


def _span(opening: Night, total: Flows, night: Night, entered: Decimal) -> Span:
    """Return what entries, `entered` ones of statements among them, and open orders explain of the change."""
    now, then = night.flows, opening.flows
    shown = now.unpriced - then.unpriced + now.debited - then.debited
    exactly = total.received - total.arrived - total.fees - shown + entered
    moved = [ZERO, night.moved, -opening.moved, night.moved - opening.moved]
    receiving = then.receiving + now.receiving_then
    inside = max(receiving - now.receiving_before, ZERO)  # what is on its way still has not come in twice
    low = exactly - night.may_be_debited - inside - max(moved) - now.unread_in - then.unread_out
    may_be_debited = opening.may_be_debited + now.in_flight_then
    ended = max(may_be_debited - now.in_flight_before, ZERO)  # what is open still has not come back
    return Span(low, exactly + ended + now.receiving - min(moved) + now.unread_out + then.unread_in)
