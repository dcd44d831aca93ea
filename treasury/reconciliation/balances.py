"""Pure: the balance account of a currency. It rolls forward from its opening; what nothing explains stays in it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from treasury.money import ZERO, canonical, exact
from treasury.texts import count_of

DAY_MS = 24 * 3_600_000


class BalanceJudgement(StrEnum):
    """The judgement on one balance."""

    EXPLAINED = "explained"
    INFLOW = "inflow"
    """More came in than the entries explain: deposits, pay-ins of others, a pooled balance. A warning."""
    OUTFLOW = "outflow"
    """More left than the entries explain. A break."""
    FIRST = "first"
    """Its account is opened by this report."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class MovementLine:
    """A movement that a statement shows, by no order of the ledger: more came in (positive), or left.

    `booked_from`: the beginning of its day, Unix ms, where that is known and later than the account's opening: then it
    is an entry of the account. Any other one only ends a lot of its sign.
    """

    amount: Decimal
    booked_from: int | None = None


@dataclass(frozen=True)
class Flows:
    """Sums of one currency from the orders, zero or more (but `arrived`, `received` and `fees`, which corrections may
    turn). The first five since the report before, and `fees_beside`; the others at the time of the report."""

    arrived: Decimal = ZERO
    """Paid out for good."""
    received: Decimal = ZERO
    """Amounts that conversions brought."""
    fees: Decimal = ZERO
    """Debited beside what arrived: of operations that the account lists in `fee_on_top`."""
    found: Decimal = ZERO
    """Part of what was debited: of orders that had been final without effect, so that it may have left earlier."""
    returned: Decimal = ZERO
    """Part of what came back: of orders that had been settled, so that it may have come earlier."""
    ended_out: Decimal = ZERO
    """Part of what was debited: of orders that were on their way at the report before, of operations that debit when
    they are final. They may have ended before it learnt of that."""
    ended_in: Decimal = ZERO
    """Part of what came back: of orders that debit when they are accepted, and failed since."""
    ended_since: int | None = None
    """When the oldest of both was sent, Unix ms."""
    in_flight: Decimal = ZERO
    """May be debited already, or only at the end: the interface does not say."""
    in_flight_before: Decimal = ZERO
    """The part of it that was sent before the account was opened, and so was on its way then, too."""
    in_flight_then: Decimal = ZERO
    """Of orders that the service showed on their way when the account was opened, and that a person took over since."""
    receiving: Decimal = ZERO
    """Amounts that conversions on their way may have brought already."""
    receiving_before: Decimal = ZERO
    """The part of it that was sent before the account was opened, and so may be inside the opening, too."""
    receiving_then: Decimal = ZERO
    """Of conversions that the service showed on their way when the account was opened, and that a person took over
    since: the amount that they bring."""
    unpriced: Decimal = ZERO
    """All debits so far that were not known when they were sent (scan-to-pay), by what the service shows of them, less
    what pay-ins and deposits brought."""
    unpriced_since: Decimal = ZERO
    """The part of it that cannot have moved before the report before."""
    fees_beside: Decimal = ZERO
    """Fees of what arrived since the report before that are not in `fees`: the account says that they are inside."""
    debited: Decimal = ZERO
    """Amounts that orders on their way have taken, of operations that debit when they are accepted (`debited_when`)."""
    undebited: Decimal = ZERO
    """Amounts that orders on their way have not taken yet, of operations that debit when they are final."""
    open_orders: int = 0
    """Orders that `in_flight` and `receiving` are made of."""
    open_since: int | None = None
    """When the oldest of them was made, Unix ms."""
    open_named: tuple[str, ...] = ()
    """Request ids of the oldest of them."""
    late_named: tuple[str, ...] = ()
    """Request ids of orders that had been final otherwise and moved the balance, learnt since the report before."""
    lines: tuple["MovementLine", ...] = ()
    """Movements of others that statements show, given since the report before."""

    def __add__(self, other: "Flows") -> "Flows":
        """Of two codes of one pooled balance."""
        times = ("open_since", "ended_since")
        added = {name: value + getattr(other, name) for name, value in vars(self).items() if name not in times}
        for name in times:
            told = (getattr(self, name), getattr(other, name))
            added[name] = min((at for at in told if at is not None), default=None)
        return Flows(**added)


@dataclass(frozen=True)
class Night:
    """A currency in one report of all orders: what the service showed of its balance, and the orders' flows."""

    as_of: int
    """When the report was made, Unix ms."""
    balance: Decimal | None
    """None where it was not asked for or could not be read."""
    moved: Decimal = ZERO
    """The reading before `balance` less `balance`: more than zero where it fell while it was read."""
    flows: Flows = Flows()
    note: str | None = None
    """Why it could not be read."""
    refused: bool = False
    """The service said that it does not show it."""
    frozen: Decimal | None = None
    """The part of it that the service reserves for orders, where it shows that."""

    @property
    def may_be_debited(self) -> Decimal:
        """Return how much of what was on its way may have left the balance: nothing where just that is frozen."""
        flows = self.flows
        is_frozen = not self.moved and self.frozen in (flows.in_flight, flows.in_flight + flows.undebited)
        return ZERO if is_frozen else flows.in_flight


@dataclass(frozen=True)
class Lot:
    """An amount that one report could not explain: more came in (positive), or left. `at`: its time, Unix ms."""

    at: int
    amount: Decimal
    fees: Decimal = ZERO
    """Fees of what arrived in that time, which the account says are inside the amounts."""
    ruled: Decimal = ZERO
    """The amount that was on its way then, of operations that `debited_when` lists."""


@dataclass(frozen=True)
class BalanceAccount:
    """The account of one balance, amounts in its currency.

    The entries, with what is open, explain a change since the opening from `explained_low` to `explained_high`.
    """

    currency: str
    nights: int
    """Reports that read it."""
    opened_at: int | None
    opening: Decimal | None
    closing: Decimal | None
    change: Decimal | None
    explained_low: Decimal | None
    explained_high: Decimal | None
    lots: Sequence[Lot]
    last: Night
    codes: tuple[str, ...]
    """All codes that show this balance, itself among them."""
    stated: Sequence[Lot]
    """Parts of its lots that lines of statements without a day have explained: when, and how much."""
    open_then: Sequence[str] = ()
    """Request ids of orders that were open when it was opened, the oldest ones."""
    moved_then: Decimal = ZERO
    """How much the balance moved while it was opened."""
    debited_then: Decimal = ZERO
    """The amount that orders on their way had taken already when it was opened (`debited_when`)."""

    @property
    def is_unread(self) -> bool:
        """Tell whether the balance could not be read now, though it was read before, or another try may read it."""
        return self.last.balance is None and (self.nights > 0 or not self.last.refused)


@exact
def roll_forward(currency: str, nights: Sequence[Night], codes: Sequence[str] = ()) -> BalanceAccount:
    """Roll the account of a currency forward over all reports, oldest first; the first that read it opens it.

    `codes`: those that share its balance.

    A report that finds the change outside of what is explained makes a lot of the rest. Before that, entries that may
    be older than the report which learned of them end lots of their sign; nothing else ends one.
    """
    opening: Night | None = None
    lots = _Lots()
    total, lines = Flows(), list[MovementLine]()
    read, span = 0, Span(ZERO, ZERO)
    change = unpriced = since = entered = ZERO
    said: list[Lot] = []
    for night in nights:
        if opening is None:
            if night.balance is not None:
                opening, read, unpriced = night, 1, night.flows.unpriced
                span = _span(opening, total, night, ZERO)
            continue
        total, lines = _with(total, night.flows), [*lines, *night.flows.lines]
        lots.learn(-night.flows.found, night.flows.returned)
        lots.learn(-night.flows.ended_out, night.flows.ended_in, since=night.flows.ended_since)
        since += night.flows.unpriced_since
        if night.balance is None or opening.balance is None:
            continue
        read += 1
        settled, unpriced = night.flows.unpriced - unpriced, night.flows.unpriced
        lots.learn(since - settled)
        since = ZERO
        for line in lines:
            if line.booked_from is not None:
                entered += line.amount
                lots.learn(line.amount - lots.end(line.amount, since=line.booked_from))
        change, span = night.balance - opening.balance, _span(opening, total, night, entered)
        lots.explain(change, span, night.as_of, total.fees_beside, night.flows.debited + night.flows.undebited)
        total = replace(total, fees_beside=ZERO)
        known = sum((lots.end(line.amount) for line in lines if line.booked_from is None), ZERO)
        entered, span, lines = entered + known, Span(span.low + known, span.high + known), []
        said += [Lot(night.as_of, known)] if known else []
    last = nights[-1]
    shown = None if opening is None or last.balance is None else (change, span.low, span.high)
    return BalanceAccount(
        currency=currency,
        nights=read,
        opened_at=None if opening is None else opening.as_of,
        opening=None if opening is None else opening.balance,
        closing=last.balance,
        change=None if shown is None else shown[0],
        explained_low=None if shown is None else shown[1],
        explained_high=None if shown is None else shown[2],
        lots=tuple(lots.standing),
        last=last,
        codes=tuple(codes) or (currency,),
        stated=tuple(said),
        open_then=() if opening is None else opening.flows.open_named,
        moved_then=ZERO if opening is None else opening.moved,
        debited_then=ZERO if opening is None else opening.flows.debited,
    )


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

    def end(self, amount: Decimal, *, since: int | None = None, most: Decimal | None = None) -> Decimal:
        """End lots of the sign of a movement, equal ones first, then the oldest; return how much of it that was.

        `since`: only lots that were found from then on, Unix ms; `most`: no more than this.
        """
        left = abs(amount) if most is None else min(abs(amount), most)
        wanted = sorted(self.standing, key=lambda lot: (lot.amount != amount, lot.at))
        ended = ZERO
        for lot in wanted:
            if lot.amount * amount > 0 and left and (since is None or lot.at >= since):
                taken = min(abs(lot.amount), left).copy_sign(amount)
                place = self.standing.index(lot)
                self.standing[place] = replace(lot, amount=lot.amount - taken)
                ended, left = ended + taken, left - abs(taken)
        self.standing = [lot for lot in self.standing if lot.amount]
        return ended


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
    low = exactly - night.may_be_debited - inside - max(moved)
    may_be_debited = opening.may_be_debited + now.in_flight_then
    ended = max(may_be_debited - now.in_flight_before, ZERO)  # what is open still has not come back
    return Span(low, exactly + ended + now.receiving - min(moved))


def pooled(series: Mapping[str, Sequence[Night]]) -> dict[str, tuple[tuple[str, ...], list[Night]]]:
    """Return each code with all codes of its balance, and its nights with the flows of all of them.

    Codes of one asset on several chains may show one pooled balance (public fact 5.10 leaves it open). Where they were
    read first by one report, and every report that read them shows the same amounts, they are one balance, and all
    their flows together explain it. A night before the last on which one of them could not be read is that of another.
    """
    pools: list[list[str]] = []
    for currency, nights in series.items():
        shared = (pool for pool in pools if all(_is_one((code, series[code]), (currency, nights)) for code in pool))
        found = next(shared, None)
        if found is None:
            pools.append([currency])
        else:
            found.append(currency)
    together = {currency: tuple(codes) for codes in pools for currency in codes}
    return {
        currency: (
            together[currency],
            [
                _pooled_night(night, others, is_last=number == len(nights))
                for number, (night, *others) in enumerate(
                    zip(nights, *(series[code] for code in together[currency]), strict=True), 1
                )
            ],
        )
        for currency, nights in series.items()
    }


def _is_one(one: tuple[str, Sequence[Night]], other: tuple[str, Sequence[Night]]) -> bool:
    """Tell whether two codes, each with its nights, show one balance."""
    (code, nights), (other_code, other_nights) = one, other
    shown = [(mine.balance, its.balance) for mine, its in zip(nights, other_nights, strict=True)]
    read = [pair for pair in shown if pair != (None, None)]
    agree = all(None in pair or pair[0] == pair[1] for pair in read)
    is_family = code.partition("_")[0] == other_code.partition("_")[0]
    return is_family and agree and None not in (read[0] if read else ())


def _pooled_night(night: Night, others: Sequence[Night], *, is_last: bool) -> Night:
    """Return a night with the flows of all codes of its balance, and with what another one of them showed of it."""
    read = next((each for each in others if each.balance is not None), night)
    shown = read if night.balance is None and not is_last else night
    return replace(shown, flows=_sum(other.flows for other in others))


def _sum(flows: Iterable[Flows]) -> Flows:
    total = Flows()
    for each in flows:
        total += each
    return total


@dataclass(frozen=True)
class BalanceLine:
    """The proof of one balance. `unexplained`: the sum of its lots that nobody accepted; `adjusted`: of the others."""

    account: BalanceAccount
    judgement: BalanceJudgement
    unexplained: Decimal | None
    adjusted: Decimal
    note: str | None

    @property
    def currency(self) -> str:
        """The currency."""
        return self.account.currency

    def as_text(self) -> dict[str, str | None]:
        """Return it as exact text."""
        names = ("opening", "closing", "change", "explained_low", "explained_high")
        said = {name: getattr(self.account, name) for name in names} | {"unexplained": self.unexplained}
        shown = {name: None if value is None else canonical(value) for name, value in said.items()}
        shown |= {"adjusted": canonical(self.adjusted), "judgement": self.judgement.value, "note": self.note or ""}
        return {"currency": self.currency, **shown}


@exact
def judge_account(account: BalanceAccount, accepted: Collection[Lot]) -> BalanceLine:
    """Judge an account by the lots that nobody accepted."""
    standing = [lot.amount for lot in account.lots if lot not in accepted]
    if account.closing is None:
        judgement = BalanceJudgement.UNREADABLE
    elif any(amount < 0 for amount in standing):
        judgement = BalanceJudgement.OUTFLOW
    elif standing:
        judgement = BalanceJudgement.INFLOW
    else:
        judgement = BalanceJudgement.FIRST if account.nights == 1 else BalanceJudgement.EXPLAINED
    return BalanceLine(
        account=account,
        judgement=judgement,
        unexplained=None if account.opening is None else sum(standing, ZERO),
        adjusted=sum((lot.amount for lot in account.lots if lot in accepted), ZERO),
        note=account.last.note if account.closing is None else _not_provable(account),
    )


def _not_provable(account: BalanceAccount) -> str | None:
    """Say how much open orders leave unproven; None where everything is known to the digit."""
    low, high = account.explained_low, account.explained_high
    if low is None or high is None or low == high:
        return None
    flows = account.last.flows
    why = "orders that were open when the account was opened"
    if (account.last.moved or account.moved_then) and not account.open_then:
        why = "what the balance moved while it was read"
    if flows.open_since is not None:
        days = (account.last.as_of - flows.open_since) // DAY_MS
        why = f"{count_of(flows.open_orders, 'open order')}, "
        why += f"the oldest for {count_of(days, 'day')}"
    return f"not provable: between 0 and {canonical(high - low)}, because of {why}"
