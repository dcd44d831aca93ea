"""Double-entry books: every movement is a posting whose entries sum to zero in each currency."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from treasury.sandbox.currencies import trim

ZERO = Decimal(0)


class BookAccount(StrEnum):
    """The accounts of the sandbox's world."""

    AVAILABLE = "available"
    """The money that the partner may spend."""
    HOLD = "hold"
    """The partner's, set aside for accepted orders that are not final."""
    FEES = "fees"
    """The money that the service earned."""
    DESK = "desk"
    """The conversion desk: takes one currency, gives another."""
    WORLD = "world"
    """Everything outside: networks, and customers who pay in."""
    BENEFICIARIES = "beneficiaries"
    """Who was paid by bank, wallet or QR code."""
    OPENING = "opening"
    """The money that opening balances come from."""


@dataclass(frozen=True)
class Entry:
    """One side of a posting: this much more (or, negative, less) on this account, in this currency."""

    account: BookAccount
    currency: str
    amount: Decimal


class Books:
    """Balances by account and currency. `on_change` hears of each balance that changed."""

    def __init__(self, on_change: Callable[[str, Decimal], None]) -> None:
        self._balances: dict[tuple[str, str], Decimal] = {}
        self._on_change = on_change

    def post(self, *entries: Entry) -> None:
        """Apply a posting; an unbalanced one, or one that overdraws the partner, is a bug and changes nothing."""
        sums: dict[str, Decimal] = {}
        changes: dict[tuple[str, str], Decimal] = {}
        for entry in entries:
            place = (entry.account.value, entry.currency)
            sums[entry.currency] = sums.get(entry.currency, ZERO) + entry.amount
            changes[place] = changes.get(place, ZERO) + entry.amount
        assert not any(sums.values()), f"a posting does not sum to zero: {sums}"
        after = {place: self._balances.get(place, ZERO) + change for place, change in changes.items() if change}
        for (account, currency), balance in after.items():
            partner = account in (BookAccount.AVAILABLE, BookAccount.HOLD)
            assert balance >= 0 or not partner, f"{account} {currency} would be {balance}"
        self._balances.update(after)
        for (account, currency), balance in after.items():
            self._on_change(f"{account} {currency}", balance)

    def move(self, source: BookAccount, target: BookAccount, currency: str, amount: Decimal) -> None:
        """Post one amount from one account to another."""
        self.post(Entry(source, currency, -amount), Entry(target, currency, amount))

    def balance(self, account: BookAccount, currency: str) -> Decimal:
        """Return what stands on an account."""
        return self._balances.get((account.value, currency), ZERO)

    def restore(self, balances: Mapping[str, Decimal]) -> None:
        """Take over balances as `on_change` told them."""
        for place, balance in balances.items():
            account, currency = place.split(" ")
            self._balances[account, currency] = balance

    def show(self) -> dict[str, dict[str, Decimal]]:
        """Account -> currency -> balance."""
        shown: dict[str, dict[str, Decimal]] = {account.value: {} for account in BookAccount}
        for (account, currency), balance in sorted(self._balances.items()):
            shown[account][currency] = trim(balance)
        return shown

    def sums(self) -> dict[str, Decimal]:
        """Currency -> the sum over all accounts, which is zero."""
        sums: dict[str, Decimal] = {}
        for (_, currency), balance in self._balances.items():
            sums[currency] = sums.get(currency, ZERO) + balance
        return {currency: trim(total) for currency, total in sums.items()}
