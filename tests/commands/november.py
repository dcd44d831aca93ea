"""Forty payees in six countries, sheets that pay them, and the books that somebody keeps by hand beside the product."""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import data
from tests.ibans import german_iban

D = Decimal
FIAT_FEE = D("1.25")
"""The fee of a quoted payout, in dollars, inside what is paid (docs/sandbox.md); every currency here is a dollar."""


@dataclass(frozen=True)
class Row:
    """A row of a sheet, as its writer knows it."""

    ref: str
    country: str
    currency: str
    pays: Decimal | None
    """The debit; None where what arrives is fixed."""
    receives: Decimal | None = None
    """The amount that is to arrive, where that is fixed."""
    most: Decimal | None = None
    """The most that may be debited then."""
    account: str = ""
    replaces: str = ""


ARRIVES = {"ID": "IDR", "VN": "VND", "PH": "PHP", "DE": "EUR", "TH": "THB", "US": "USD"}
DIRECT = {
    "ID": {"payout_method": "bank_transfer", "bank_code": "1000120"},
    "VN": {"payout_method": "bank_transfer", "bank_code": "1000403"},
    "PH": {"payout_method": "bank_transfer", "bank_code": "1000512"},
}
QUOTED = {
    "DE": {
        "beneficiary_bank_id": "2000800",
        "clear_network": "SWIFT",
        "account_type": "PERSONAL",
        "nationality": "DE",
        "gender": "female",
        "date_of_birth": "1988-04-17",
        "field.swift": "BYLADEM1001",
        "bank_name": "Musterbank",
        "address": "Ring 1/2, 50667 Köln",
        "purpose_code": "22",
    },
    "TH": {
        "beneficiary_bank_id": "1000616",
        "clear_network": "LOCAL_PAYMENT",
        "account_type": "PERSONAL",
        "bank_name": "Bank Tua Yang",
        "address": "99 Rama I Road, Bangkok",
        "purpose_code": "22",
    },
    "US": {
        "beneficiary_bank_id": "2000820",
        "clear_network": "ACH",
        "account_type": "PERSONAL",
        "field.routing_number": "021000021",
        "bank_name": "First Sample Bank",
        "purpose_code": "32",
        "address": "12 Sample Street, Austin TX 78701",
    },
}


OPENING = {"USDC_ERC20": D(20_000), "USDT": D(60_000), "USDT_ERC20": D(20_000), "USDT_TRC20": D(100_000)}
"""Balances at the service on the first morning."""


def payees(country: str, count: int, currency: str, first: str, step: str) -> list[Row]:
    """So many payees of a country, each with an account of its own; each is paid a step more than the one before."""
    pays = [D(first) + D(step) * number for number in range(count)]
    return [Row(f"{country}-{number:02}", country, currency, amount) for number, amount in enumerate(pays, 1)]


def fixed(rows: Sequence[Row], currency: str, usd: str) -> list[Row]:
    """These rows, whose amounts are what has to arrive, paid from `currency`.

    `usd`: what one of what arrives is worth, about; a payment may debit one percent more, and its fee.
    """
    return [
        replace(row, currency=currency, pays=None, receives=row.pays, most=most.quantize(D("0.01")))
        for row in rows
        if row.pays is not None
        for most in [row.pays * D(usd) * D("1.01") + FIAT_FEE]
    ]


def salaries(more: str = "0") -> list[Row]:
    """A row for each of the forty payees; `more`: what each gets more than in the first month."""
    extra = D(more)
    rows = [
        *payees("ID", 8, "USDT_TRC20", "310", "10"),
        *payees("VN", 6, "USDT_TRC20", "205", "5"),
        *payees("PH", 6, "USDT_ERC20", "157.50", "7.50"),
        *payees("US", 6, "USDC_ERC20", "811", "11"),
        *payees("DE", 4, "USDT", "1100", "100"),
    ]
    rows = [replace(row, pays=row.pays + extra) for row in rows if row.pays is not None]
    euros = payees("DE", 8, "EUR", str(510 + extra), "10")[4:]
    bahts = payees("TH", 6, "THB", str(15500 + extra), "500")
    return [*rows, *fixed(euros, "USDT", "1.09"), *fixed(bahts, "USDT", "0.0305")]


def account_of(row: Row) -> str:
    """The account of a payee: it ends as its row is numbered."""
    number = 1000 + int(row.ref.split("-")[1])
    return german_iban(number) if row.country == "DE" else f"77{ord(row.country[0])}555{number}"


def write_sheet(file: Path, rows: Iterable[Row]) -> Path:
    """Write rows as a beneficiaries file."""
    with data.path("beneficiaries.csv").open(encoding="utf-8") as sample:
        columns = [*next(csv.reader(sample)), "max_pay_amount", "replaces"]
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, columns, restval="")
        writer.writeheader()
        writer.writerows(cells_of(row) for row in rows)
    return file


def cells_of(row: Row) -> dict[str, str]:
    """The cells of a row, by column."""
    name = f"Example {row.ref.replace('-', ' ')} Person"
    own = {"row_ref": row.ref, "account_no": row.account or account_of(row), "replaces": row.replaces}
    if row.country in DIRECT:
        own |= {"route": "direct", "amount": str(row.pays), "currency": row.currency, "account_name": name}
        own |= {"settle_currency": ARRIVES[row.country], "country": row.country, "phone": "0812000"}
        return own | {"email": "payee@example.com"} | DIRECT[row.country]
    own |= {"route": "quoted", "pay_currency": row.currency, "receive_currency": ARRIVES[row.country]}
    own |= {"beneficiary_country": row.country, "beneficiary_relationship": "third", "full_name": name}
    if row.receives is None:
        own |= {"quote_mode": "source", "pay_amount": str(row.pays)}
    else:
        own |= {"quote_mode": "dest", "receive_amount": str(row.receives), "max_pay_amount": str(row.most)}
    return own | QUOTED[row.country]


def fee_of(row: Row, debit: Decimal) -> Decimal:
    """The fee inside a debit: 1.25 of a quoted payout, one percent of any other, rounded up at six decimals."""
    if row.country in QUOTED:
        return FIAT_FEE
    return (debit / 100).quantize(D("0.000001"), ROUND_CEILING)


def by_currency(amounts: Iterable[tuple[str, Decimal]]) -> dict[str, Decimal]:
    """Sums by currency."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for currency, amount in amounts:
        sums[currency] += amount
    return dict(sums)


@dataclass(frozen=True)
class Paid:
    """A row that left: what the other side took for it, and what arrives."""

    row: Row
    debit: Decimal
    fee: Decimal
    arrives: Decimal


class Books:
    """The books that somebody keeps by hand. They know nothing of the product, and its figures have to equal theirs."""

    LINES = ("opening_in_flight", "sent", "arrived", "fees", "failed_and_returned", "closing_in_flight")

    def __init__(self) -> None:
        self.night = {currency: dict.fromkeys(self.LINES, D(0)) for currency in OPENING}
        """Sums since the last report."""
        self.month = {currency: dict.fromkeys(("paid", "fees", "returned"), D(0)) for currency in OPENING}
        self.strangers = dict.fromkeys(OPENING, D(0))
        """Sums that others paid in and nobody looked at."""
        self.accepted = dict.fromkeys(OPENING, D(0))
        """Sums that others paid in and a person accepted."""
        self.at_stake: dict[str, list[Decimal]] = {currency: [] for currency in OPENING}
        """Differences of the breaks about payments that stand: how much more left than the books say."""

        self.recorded: dict[str, Decimal] = {}
        """Sums of what is recorded and did not leave."""
        self.there: list[Paid] = []
        """Everything that arrived and did not come back."""

    def leave(self, payments: Iterable[Paid]) -> None:
        """They were sent."""
        for each in payments:
            self.night[each.row.currency]["sent"] += each.debit
            self.night[each.row.currency]["closing_in_flight"] += each.debit

    def arrive(self, payments: Iterable[Paid]) -> None:
        """They reached whom they are for, less their fees."""
        for each in payments:
            night, month = self.night[each.row.currency], self.month[each.row.currency]
            night["arrived"] += each.debit - each.fee
            night["fees"] += each.fee
            night["closing_in_flight"] -= each.debit
            month["paid"] -= each.debit - each.fee
            month["fees"] -= each.fee
            self.there.append(each)

    def fail(self, payments: Iterable[Paid]) -> None:
        """They never arrived, and cost nothing."""
        for each in payments:
            self.night[each.row.currency]["failed_and_returned"] += each.debit
            self.night[each.row.currency]["closing_in_flight"] -= each.debit

    def come_back(self, payments: Iterable[Paid]) -> None:
        """They had arrived, and came back with their fees."""
        for each in payments:
            night = self.night[each.row.currency]
            night["arrived"] -= each.debit - each.fee
            night["fees"] -= each.fee
            night["failed_and_returned"] += each.debit
            self.month[each.row.currency]["returned"] += each.debit - each.fee
            self.month[each.row.currency]["fees"] += each.fee
            self.at_stake[each.row.currency].append(-each.debit)
            self.there.remove(each)

    def accept_strangers(self) -> None:
        """A person accepted what others paid in."""
        for currency, amount in self.strangers.items():
            self.accepted[currency] += amount
        self.strangers = dict.fromkeys(OPENING, D(0))

    def accept_returns(self) -> None:
        """A person accepted what came back."""
        self.at_stake = {currency: [] for currency in OPENING}

    def turn_the_page(self) -> None:
        """A report was made: what is on its way then is what the next one opens with."""
        for currency, night in self.night.items():
            flying = night["closing_in_flight"]
            ends = {"opening_in_flight": flying, "closing_in_flight": flying}
            self.night[currency] = {**dict.fromkeys(self.LINES, D(0)), **ends}

    @property
    def fees(self) -> dict[str, tuple[int, Decimal, Decimal]]:
        """Payments that arrived, by currency: their number, their sum, and the fees in it."""
        sums = by_currency((each.row.currency, each.debit) for each in self.there)
        fees = by_currency((each.row.currency, each.fee) for each in self.there)
        counts = Counter(each.row.currency for each in self.there)
        return {currency: (counts[currency], sums[currency], fees[currency]) for currency in sums}

    def by_account(self) -> dict[tuple[str, str], dict[str, Decimal]]:
        """Sums that arrived at each account of a payee: country and account -> by currency."""
        found: dict[tuple[str, str], list[tuple[str, Decimal]]] = defaultdict(list)
        for each in self.there:
            if each.row.country:
                account = each.row.account or account_of(each.row)
                found[each.row.country, account].append((each.row.currency, each.debit))
        return {whom: by_currency(sums) for whom, sums in found.items()}

    @property
    def entries(self) -> dict[str, Decimal]:
        """Changes that the payments made, by currency."""
        return {currency: sum(month.values(), D(0)) for currency, month in self.month.items()}

    @property
    def balances(self) -> dict[str, Decimal]:
        """Balances that the service has to show, by currency."""
        others = {currency: self.strangers[currency] + self.accepted[currency] for currency in OPENING}
        return {currency: OPENING[currency] + self.entries[currency] + others[currency] for currency in OPENING}

    def statement(self, currency: str) -> dict[str, Decimal]:
        """The line of this currency in the statement of orders."""
        at_stake = [*self.at_stake[currency], -self.strangers[currency]]
        breaks = {"breaks_gross": sum(map(abs, at_stake), D(0)), "breaks_net": sum(at_stake, D(0))}
        return {**self.night[currency], **breaks, "residual": D(0), "fees_beside": D(0)}

    def balance(self, currency: str) -> dict[str, Decimal]:
        """The line of this currency in the balance proof."""
        closing, explained = self.balances[currency], self.entries[currency]
        change = closing - OPENING[currency]
        proof = {"opening": OPENING[currency], "closing": closing, "change": change, "explained_low": explained}
        others = {"unexplained": self.strangers[currency], "adjusted": self.accepted[currency]}
        return {**proof, "explained_high": explained, **others}

    def of_month(self, currency: str) -> dict[str, Decimal]:
        """The line of this currency in the month for the books."""
        line: Mapping[str, Decimal] = {"opening": OPENING[currency], "received": D(0), **self.month[currency]}
        closing = sum(line.values(), self.accepted[currency])
        shown = {"closing": closing, "shown": self.balances[currency], "difference": self.strangers[currency]}
        return {**line, "adjustments": self.accepted[currency], **shown}
