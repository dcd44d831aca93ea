"""Pure: the balance account of a currency, as reports show it and judge it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from treasury.money import ZERO, canonical, exact, family_of
from treasury.policy.tolerances import DAY_MS
from treasury.texts import count_of


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
    `found_until`: when the first report after its day was made, Unix ms, where that day is not later: a lot that was
    found after that is of another movement.
    """

    amount: Decimal
    booked_from: int | None = None
    found_until: int | None = None


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
    unread_out: Decimal = ZERO
    """Part of what left: after the balance was asked for, so that it may not show it."""
    unread_in: Decimal = ZERO
    """Part of what came in, or back: after that; and the most that scanned codes debited which settled meanwhile."""
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
    """How much the balance moved, or may have, while it was opened."""
    debited_then: Decimal = ZERO
    """The amount that orders on their way had taken already when it was opened (`debited_when`)."""

    @property
    def is_unread(self) -> bool:
        """Tell whether the balance could not be read now, though it was read before, or another try may read it."""
        return self.last.balance is None and (self.nights > 0 or not self.last.refused)


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
    is_family = family_of(code) == family_of(other_code)
    return is_family and agree and None not in (read[0] if read else ())


def _pooled_night(night: Night, others: Sequence[Night], *, is_last: bool) -> Night:
    """Return a night with the flows of all codes of its balance, and with what another one of them showed of it."""
    read = next((each for each in others if each.balance is not None), night)
    shown = read if night.balance is None and not is_last else night
    return replace(shown, flows=sum((other.flows for other in others), Flows()))


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
    is_moving = account.last.moved or account.moved_then or flows.unread_out or flows.unread_in
    if is_moving and not account.open_then:
        why = "what the balance moved while it was read"
    if flows.open_since is not None:
        days = (account.last.as_of - flows.open_since) // DAY_MS
        why = f"{count_of(flows.open_orders, 'open order')}, "
        why += f"the oldest for {count_of(days, 'day')}"
    return f"not provable: between 0 and {canonical(high - low)}, because of {why}"
