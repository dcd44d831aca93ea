"""Pure: the balance account of a currency. It rolls forward from its opening; what nothing explains stays in it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from treasury.money import canonical, exact

ZERO = Decimal(0)

DAY_MS = 24 * 3_600_000


class Judgement(StrEnum):
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
class Flows:
    """Sums of one currency from the orders, zero or more (but `arrived`, `received` and `fees`, which corrections may
    turn). Those up to `stated_in` since the report before, and `fees_beside`; the others at the time of the report."""

    arrived: Decimal = ZERO
    """Paid out for good."""
    received: Decimal = ZERO
    """What conversions brought."""
    fees: Decimal = ZERO
    """Debited beside what arrived: of operations that the account lists in `fee_on_top`."""
    found: Decimal = ZERO
    """Part of what was debited: of orders that had been final without effect, so that it may have left earlier."""
    returned: Decimal = ZERO
    """Part of what came back: of orders that had been settled, so that it may have come earlier."""
    stated_out: Decimal = ZERO
    """What a statement shows to have left, by nobody's order here, not known to be later than the opening."""
    stated_in: Decimal = ZERO
    """What it shows to have come in like that."""
    in_flight: Decimal = ZERO
    """May be debited already, or only at the end: the interface does not say."""
    receiving: Decimal = ZERO
    """What conversions on their way may have brought already."""
    unpriced: Decimal = ZERO
    """All debits so far that were not known when they were sent (scan-to-pay), by what the service shows of them."""
    fees_beside: Decimal = ZERO
    """Fees of what arrived since the report before that are not in `fees`: the account says that they are inside."""
    open_orders: int = 0
    """Orders that `in_flight` and `receiving` are made of."""
    open_since: int | None = None
    """When the oldest of them was made, Unix ms."""
    open_named: tuple[str, ...] = ()
    """Request ids of the oldest of them."""

    def __add__(self, other: "Flows") -> "Flows":
        """Of two codes of one pooled balance."""
        added = {name: value + getattr(other, name) for name, value in vars(self).items() if name != "open_since"}
        oldest = [each.open_since for each in (self, other) if each.open_since is not None]
        return Flows(**added, open_since=min(oldest, default=None))


@dataclass(frozen=True)
class Night:
    """A currency in one report of all orders: what the service showed of its balance, and the orders' flows."""

    as_of: int
    """When the report was made, Unix ms."""
    balance: Decimal | None
    """None where it was not asked for or could not be read."""
    moved: Decimal = ZERO
    """How much it moved while it was read, signed."""
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
        is_frozen = not self.moved and self.frozen is not None and self.frozen == flows.in_flight
        return ZERO if is_frozen else flows.in_flight


@dataclass(frozen=True)
class Lot:
    """An amount that one report could not explain: more came in (positive), or left. `at`: its time, Unix ms."""

    at: int
    amount: Decimal
    fees: Decimal = ZERO
    """Fees of what arrived in that time, which the account says are inside the amounts."""


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
    """What lines of statements without a day have explained of its lots: when, and how much it moved the balance."""
    open_then: Sequence[str] = ()
    """Request ids of orders that were open when it was opened, the oldest ones."""

    @property
    def is_unread(self) -> bool:
        """Tell whether the balance could not be read now, though it was read before, or another try may read it."""
        return self.last.balance is None and (self.nights > 0 or not self.last.refused)


@exact
def roll_forward(currency: str, nights: Sequence[Night], codes: Sequence[str] = ()) -> BalanceAccount:
    """Roll the account of a currency forward over all reports, oldest first; the first that read it opens it.

    `codes`: those that share its balance.

    A report that finds the change outside of what is explained makes a lot of the rest. An order whose effect became
    known late ends lots of its sign first; nothing else ends one.
    """
    opening: Night | None = None
    lots: list[Lot] = []
    total = pending = Flows()
    read, bounds = 0, (ZERO, ZERO)
    change = unpriced = stated = ZERO
    said: list[Lot] = []
    for night in nights:
        if opening is None:
            if night.balance is not None:
                opening, read, unpriced = night, 1, night.flows.unpriced
                bounds = _bounds(opening, total, night)
            continue
        total, pending = _with(total, night.flows), _with(pending, night.flows)
        if night.balance is None or opening.balance is None:
            continue
        read += 1
        settled, unpriced = night.flows.unpriced - unpriced, night.flows.unpriced
        pending = _with(pending, Flows(found=max(settled, ZERO), returned=max(-settled, ZERO)))
        change, (low, high) = night.balance - opening.balance, _bounds(opening, total, night)
        lots = _explain(lots, change, (low + stated, high + stated), pending, night.as_of)
        lots, known = _stated(lots, pending)
        stated += known
        said += [Lot(night.as_of, known)] if known else []
        bounds, pending = (low + stated, high + stated), Flows()
    last = nights[-1]
    shown = None if opening is None or last.balance is None else (change, *bounds)
    return BalanceAccount(
        currency=currency,
        nights=read,
        opened_at=None if opening is None else opening.as_of,
        opening=None if opening is None else opening.balance,
        closing=last.balance,
        change=None if shown is None else shown[0],
        explained_low=None if shown is None else shown[1],
        explained_high=None if shown is None else shown[2],
        lots=tuple(lots),
        last=last,
        codes=tuple(codes) or (currency,),
        stated=tuple(said),
        open_then=() if opening is None else opening.flows.open_named,
    )


def _with(total: Flows, flows: Flows) -> Flows:
    """Add the flows of one more report."""
    since = ("arrived", "received", "fees", "found", "returned", "stated_out", "stated_in", "fees_beside")
    return replace(total, **{name: getattr(total, name) + getattr(flows, name) for name in since})


def _bounds(opening: Night, total: Flows, night: Night) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest change since the opening that entries and open orders explain."""
    exactly = total.received - total.arrived - total.fees - (night.flows.unpriced - opening.flows.unpriced)
    moved = [ZERO, night.moved, -opening.moved, night.moved - opening.moved]
    low = exactly - night.may_be_debited - opening.flows.receiving - max(moved)
    return low, exactly + opening.may_be_debited + night.flows.receiving - min(moved)


def _explain(
    lots: Sequence[Lot], change: Decimal, bounds: tuple[Decimal, Decimal], pending: Flows, at: int
) -> list[Lot]:
    """Return the lots after a report: those that a late order explains are less, what is left over is a new one."""
    low, high = bounds
    known = sum((lot.amount for lot in lots), ZERO)
    over = max(change - high - known, ZERO) or min(change - low - known, ZERO)
    if not over:
        return list(lots)
    found = min(pending.found, over) if over > 0 else -min(pending.returned, -over)
    kept = _reduced(lots, found)
    rest = over + known - sum((lot.amount for lot in kept), ZERO)
    return [*kept, *([Lot(at, rest, pending.fees_beside)] if rest else [])]


def _stated(lots: Sequence[Lot], pending: Flows) -> tuple[list[Lot], Decimal]:
    """Take what a statement shows off the lots of its sign, as far as they go; return them, and how much it was."""
    left = sum((-lot.amount for lot in lots if lot.amount < 0), ZERO)
    came = sum((lot.amount for lot in lots if lot.amount > 0), ZERO)
    out, back = min(pending.stated_out, left), min(pending.stated_in, came)
    return _reduced(_reduced(lots, out), -back), back - out


def _reduced(lots: Sequence[Lot], found: Decimal) -> list[Lot]:
    """Take what was found (positive: it had left; negative: it had come in) off the lots, equal ones first."""
    kept = sorted(lots, key=lambda lot: (lot.amount != -found, lot.at))
    for place, lot in enumerate(kept):
        if lot.amount * found < 0:
            taken = min(abs(lot.amount), abs(found))
            sign = 1 if found > 0 else -1
            kept[place] = replace(lot, amount=lot.amount + sign * taken)
            found -= sign * taken
    return sorted((lot for lot in kept if lot.amount), key=lambda lot: lot.at)


def pooled(series: Mapping[str, Sequence[Night]]) -> dict[str, tuple[tuple[str, ...], list[Night]]]:
    """Return each code with all codes of its balance, and its nights with the flows of all of them.

    Codes of one asset on several chains may show one pooled balance (public fact 5.10 leaves it open). Where every
    report that read them shows the same amounts they are one balance, and all their flows together explain it.
    """
    pools: dict[object, list[str]] = {}
    for currency, nights in series.items():
        shown = tuple((night.as_of, night.balance) for night in nights if night.balance is not None)
        pools.setdefault((currency.partition("_")[0], shown), []).append(currency)
    together = {currency: tuple(codes) for codes in pools.values() for currency in codes}
    return {
        currency: (
            together[currency],
            [
                replace(night, flows=_sum(other.flows for other in others))
                for night, *others in zip(nights, *(series[code] for code in together[currency]), strict=True)
            ],
        )
        for currency, nights in series.items()
    }


def _sum(flows: Iterable[Flows]) -> Flows:
    total = Flows()
    for each in flows:
        total += each
    return total


@dataclass(frozen=True)
class BalanceLine:
    """The proof of one balance. `unexplained`: the sum of its lots that nobody accepted; `adjusted`: of the others."""

    account: BalanceAccount
    judgement: Judgement
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
        judgement = Judgement.UNREADABLE
    elif any(amount < 0 for amount in standing):
        judgement = Judgement.OUTFLOW
    elif standing:
        judgement = Judgement.INFLOW
    else:
        judgement = Judgement.FIRST if account.nights == 1 else Judgement.EXPLAINED
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
    if flows.open_since is not None:
        days = (account.last.as_of - flows.open_since) // DAY_MS
        why = f"{flows.open_orders} open order{'' if flows.open_orders == 1 else 's'}, the oldest for {days} days"
    return f"not provable: between 0 and {canonical(high - low)}, because of {why}"
