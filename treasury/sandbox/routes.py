"""Ways of paying out: channels of `payout`, routes of fiat payouts, purposes (public facts 2.5, 5, 7.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True)
class Channel:
    """How `payout` reaches a country: codes of banks and wallets, with their names."""

    currency: str
    banks: Mapping[str, str] = field(default_factory=dict)
    wallets: Mapping[str, str] = field(default_factory=dict)


def _numbered(first: int, last: int, names: Mapping[str, str]) -> dict[str, str]:
    return {str(code): names.get(str(code), f"Bank {code}") for code in range(first, last + 1)}


_INDONESIAN = {
    "1000120": "Bank Central Asia",
    "1000153": "Bank Rakyat Indonesia",
    "1000164": "Bank Mandiri",
    "1000175": "Bank 1000175",
    "1000197": "Bank Negara Indonesia",
    "1000208": "Bank 1000208",
    "1000219": "Bank 1000219",
    "1000230": "Bank 1000230",
    "1000241": "Bank 1000241",
    "1000252": "CIMB Niaga",
    "1000263": "Bank 1000263",
    **_numbered(1000274, 1000368, {}),
}
_FILIPINO = _numbered(
    1000506,
    1000587,
    {"1000507": "Asia United Bank", "1000512": "Bank of the Philippine Islands", "1000551": "Metrobank"},
)
_FILIPINO_WALLETS = {
    "2000500": "CIS Bayad",
    "2000501": "GrabPay",
    "2000502": "PayMaya",
    "2000503": "ShopeePay",
    "2000504": "StarPay",
    "2000505": "Alipay",
    "2000506": "GCash",
}
_INDONESIAN_WALLETS = {code: code.upper() for code in ("ovo", "dana", "linkaja", "shopeepay", "gopay")}
_VIETNAMESE = _numbered(1000400, 1000432, {"1000403": "Vietcombank", "1000432": "MoMo"})

CHANNELS: Mapping[str, Channel] = {
    "ID": Channel("IDR", _INDONESIAN, _INDONESIAN_WALLETS),
    "BR": Channel("BRL", wallets={"pix": "Pix"}),
    "VN": Channel("VND", _VIETNAMESE),
    "IN": Channel("INR", {"bank_card": "Bank account by IFSC"}),
    "PH": Channel("PHP", _FILIPINO, _FILIPINO_WALLETS),
    "PK": Channel("PKR", {"1001113": "Bank 1001113"}),
}
"""Country -> how `/v1/order/payout` reaches it (public fact 7.2)."""

LOCAL, SWIFT, ACH = "LOCAL_PAYMENT", "SWIFT", "ACH"


@dataclass(frozen=True)
class Route:
    """How a fiat payout reaches a country in one currency; `limit` is the most that may arrive, in that currency."""

    country: str
    currency: str
    networks: tuple[str, ...]
    banks: Mapping[str, str]
    limit: Decimal
    wallets: Mapping[str, str] = field(default_factory=dict)

    def reaches(self, bank: str, network: str) -> bool:
        """Tell whether this bank or wallet is paid over this network."""
        return (bank in self.banks or bank in self.wallets) and network in self.networks


ROUTES: tuple[Route, ...] = (
    Route("BR", "BRL", (LOCAL,), {}, Decimal(5_000_000), {"pix": "Pix"}),
    Route("DE", "EUR", (SWIFT, LOCAL), {"2000800": "Deutsche Bank", "2000801": "Commerzbank"}, Decimal(1_000_000)),
    Route("ES", "EUR", (SWIFT, LOCAL), {"2000810": "Banco Santander"}, Decimal(1_000_000)),
    Route("FR", "EUR", (SWIFT, LOCAL), {"2000811": "BNP Paribas"}, Decimal(1_000_000)),
    Route("GB", "GBP", (LOCAL, SWIFT), {"2000812": "Barclays"}, Decimal(1_000_000)),
    Route("HK", "HKD", (LOCAL, SWIFT), {"2000813": "HSBC Hong Kong"}, Decimal(8_000_000)),
    Route("ID", "IDR", (LOCAL,), _INDONESIAN, Decimal(15_000_000_000), _INDONESIAN_WALLETS),
    Route("IN", "INR", (LOCAL,), {"bank_card": "Bank account by IFSC"}, Decimal(80_000_000)),
    Route("JP", "JPY", (LOCAL, SWIFT), {"2000814": "MUFG Bank"}, Decimal(150_000_000)),
    Route("KR", "KRW", (LOCAL, SWIFT), {"2000815": "KB Kookmin Bank"}, Decimal(1_300_000_000)),
    Route("PH", "PHP", (LOCAL,), _FILIPINO, Decimal(50_000_000), _FILIPINO_WALLETS),
    Route("PK", "PKR", (LOCAL,), {"1001113": "Bank 1001113"}, Decimal(250_000_000)),
    Route("SG", "SGD", (LOCAL, SWIFT), {"2000816": "DBS Bank"}, Decimal(1_000_000)),
    Route("TH", "THB", (LOCAL,), {"1000616": "Bangkok Bank"}, Decimal(30_000_000)),
    Route("TW", "TWD", (LOCAL,), {"2000802": "Bank of Taiwan"}, Decimal(30_000_000)),
    Route("US", "USD", (LOCAL, ACH), {"2000820": "Chase", "2000821": "Bank of America"}, Decimal(1_000_000)),
    Route("VN", "VND", (LOCAL,), _VIETNAMESE, Decimal(25_000_000_000)),
)
"""Routes of fiat payouts. Codes the public facts show (2000800, 1000616, 2000802) are theirs, the rest made up."""

BANK_FIELDS: Mapping[str, Mapping[str, str]] = {
    SWIFT: {"swift": "SWIFT / BIC code"},
    ACH: {"routing_number": "ABA routing number"},
}
"""Network -> required members of `beneficiaryFields`, with their labels (public fact 5.6)."""

SWIFT_PERSONAL = ("nationality", "gender", "date_of_birth")
"""Fields that a person paid over SWIFT must give besides (public fact 6, row 18)."""


def find_route(country: str, currency: str) -> Route | None:
    """The route to this country in this currency."""
    return next((route for route in ROUTES if (route.country, route.currency) == (country, currency)), None)


PURPOSES: Mapping[str, str] = {
    f"{number:02d}": text
    for number, text in enumerate(
        (
            "Transfer to own account",
            "Family support",
            "Education costs",
            "Medical costs",
            "Hotel",
            "Travel",
            "Utilities",
            "Loan repayment",
            "Tax",
            "Home purchase",
            "Rent",
            "Insurance prepayment",
            "Product insurance",
            "Insurance premium",
            "Mutual fund",
            "Equity investment",
            "Donation",
            "Information services",
            "Advertising and public relations",
            "Loyalty, trademark, patent and copyright fees",
            "Transaction, guarantee and factoring fees",
            "Consulting, technical, academic and expert services",
            "Representative office",
            "Construction",
            "Transport fees of goods",
            "Exported goods",
            "Logistics of goods",
            "General offline trade in goods",
            "Other trade in services",
            "Salary and commission",
            "Regular maintenance",
            "Computer services",
            "Small-value remittance",
            "Liberalized remittance",
            "Bonus",
            "Influencer fees",
        ),
        start=1,
    )
}
"""Remittance purpose codes and what they mean (public fact 2.5)."""
