"""Pure: what the service offers for the routes of a sheet, and rows that it would refuse."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from treasury.errors import RowProblem
from treasury.money import EXACT
from treasury.orders.rows import BENEFICIARY_OBJECTS, PayoutRow, Route
from treasury.provider.fields import country_codes, country_meant, fiat_codes


class Place(NamedTuple):
    """The place where a payment arrives."""

    country: str
    """ISO 3166-1 alpha-2."""
    currency: str
    """ISO 4217, of what arrives."""


@dataclass(frozen=True)
class Offers:
    """The service's offers, as far as it was asked and answered; a place that is not in a member is not known."""

    banks: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    """Codes of banks that a direct payout reaches (public fact 5.10)."""
    wallets: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    countries: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Country -> currencies that a quoted payout reaches (public fact 5.3)."""
    quoted_banks: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    """Codes of banks and wallets that a quoted payout reaches (public fact 5.4)."""
    networks: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    """Clearing networks (public fact 5.5)."""
    fields: Mapping[tuple[Place, str, str], frozenset[str]] = field(default_factory=dict)
    """Place, bank and network -> members of `beneficiaryFields` that are required (public fact 5.6)."""
    purposes: frozenset[str] = frozenset()
    """Remittance purpose codes (public fact 5.7)."""
    names: Mapping[tuple[Place, str], str] = field(default_factory=dict)
    """Place and code -> the name of a bank or wallet, where the service says one (public facts 5.4, 5.10)."""
    least: Mapping[str, Decimal] = field(default_factory=dict)
    """Asset -> the least that may be withdrawn (public fact 5.10)."""
    decimals: Mapping[str, int] = field(default_factory=dict)
    """Asset -> the fraction digits of a withdrawal (public fact 5.10)."""


def place_of(row: PayoutRow) -> Place:
    """Return where a row's payment arrives."""
    return Place(row.country or "", row.receive_currency)


def judge_offered(rows: Iterable[PayoutRow], offers: Offers) -> list[RowProblem]:
    """Rows that the service would refuse, by what it offers today. What is not known is no reason."""
    return [
        RowProblem(row.line, row.row_ref, column, rule, repr(value) if value else None, code="not_offered")
        for row in rows
        for column, rule, value in _refused(row, offers)
    ]


def _refused(row: PayoutRow, offers: Offers) -> "_Found":
    country, column = row.country, row.way.country
    if column is not None and country is not None and country not in country_codes():
        meant = country_meant(country)
        said = "" if meant is None else f": write {meant}"
        yield column, f"is no country code of two capital letters (ISO 3166-1){said}", country
        return
    yield from _too_fine(row, offers)
    match row.route:
        case Route.DIRECT:
            yield from _direct(row, offers)
        case Route.QUOTED:
            yield from _quoted(row, offers)
        case Route.WITHDRAWAL:
            yield from _withdrawal(row, offers)


def _too_fine(row: PayoutRow, offers: Offers) -> "_Found":
    paid = (row.way.amount, row.amount, row.currency)
    received = (row.way.receive_amount, row.receive_amount, row.receive_currency)
    for column, amount, currency in (paid, received):
        if amount is None or column is None:
            continue
        allowed = offers.decimals.get(currency, decimals_of(currency))
        if allowed is not None and -int(amount.normalize(EXACT).as_tuple().exponent) > allowed:
            yield column, f"has more decimals than {currency} has ({allowed})", f"{amount:f}"


_WHOLE = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THOUSANDTHS = "BHD IQD JOD KWD LYD OMR TND"

OTHER_DECIMALS: Mapping[str, int] = {
    **dict.fromkeys(_WHOLE.split(" "), 0),
    **dict.fromkeys(_THOUSANDTHS.split(" "), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}
"""Currencies of ISO 4217 whose minor unit is not a hundredth."""

DECIMALS: Mapping[str, int] = {
    **dict.fromkeys(("USDT", "USDC", "USDT_TRC20", "USDT_ERC20", "USDT_ARB", "USDC_ERC20", "USDC_ARB"), 6),
    **dict.fromkeys(("BTC", "DOGE", "LTC", "BCH"), 8),
    **dict.fromkeys(("USDT_BSC", "ETH", "TRX", "BNB", "BNB_BSC"), 18),
}
"""Fraction digits of assets (public fact 7.1); of others they are not known."""


def decimals_of(currency: str) -> int | None:
    """Fraction digits of an asset or a currency; None where they are not known."""
    return OTHER_DECIMALS.get(currency, 2) if currency in fiat_codes() else DECIMALS.get(currency)


@dataclass(frozen=True)
class Funding:
    """The funding of a plan's debits in one currency."""

    currency: str
    debit: Decimal
    """The most that the plan debits, as far as that is known beforehand."""
    estimated: Decimal
    """Debits, by the rate of now, of rows of which only their quotes will tell."""
    not_known: int
    """Rows of which not even that is known."""
    balance: Decimal | None
    """The balance that is available now; None when the service does not say."""
    in_flight: Decimal
    """Amounts that other runs have recorded and the service has not debited for certain."""

    @property
    def remains(self) -> Decimal | None:
        """Return what remains afterwards; negative: the gap."""
        return None if self.balance is None else self.balance - self.in_flight - self.debit - self.estimated


_Found = Iterator[tuple[str, str, str | None]]
"""Column, rule, and the value if it is not personal."""


def _withdrawal(row: PayoutRow, offers: Offers) -> _Found:
    least = offers.least.get(row.currency)
    if least is not None and row.amount is not None and row.amount < least:
        rule = f"is less than the least that may be withdrawn, {least:f} {row.currency}"
        yield "amount", rule, f"{row.amount:f}"


def _direct(row: PayoutRow, offers: Offers) -> _Found:
    place = place_of(row)
    for column, known in (("bank_code", offers.banks), ("wallet_code", offers.wallets)):
        value = row.fields.get(column)
        if value is not None and (offered := known.get(place)) and value not in offered:
            yield column, f"is not a code that the service lists for {place.currency} in {place.country}", value


def _quoted(row: PayoutRow, offers: Offers) -> _Found:
    place = place_of(row)
    if offers.countries and place.country not in offers.countries:
        yield "beneficiary_country", "is not a country that the service lists for quoted payouts", place.country
        return
    if (currencies := offers.countries.get(place.country)) and place.currency not in currencies:
        yield "receive_currency", f"is not a currency that the service lists for {place.country}", place.currency
        return
    bank, network = str(row.fields["beneficiary_bank_id"]), str(row.fields["clear_network"])
    for column, value, known in (
        ("beneficiary_bank_id", bank, offers.quoted_banks),
        ("clear_network", network, offers.networks),
    ):
        if (offered := known.get(place)) and value not in offered:
            yield column, f"is not one that the service lists for {place.currency} in {place.country}", value
    given = row.fields.get("beneficiaryFields") or {}
    for name in sorted(offers.fields.get((place, bank, network), frozenset()) - set(given) - set(_party(row))):
        yield f"field.{name}", f"is required for bank {bank} over {network}", None
    if row.purpose_code is not None and offers.purposes and row.purpose_code not in offers.purposes:
        yield "purpose_code", "is not a purpose that the service lists", row.purpose_code


def _party(row: PayoutRow) -> Mapping[str, object]:
    return next((row.fields[name] for name in BENEFICIARY_OBJECTS.values() if name in row.fields), {})
