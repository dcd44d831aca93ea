"""Countries and methods of payouts, as far as that is known without asking the service (public facts 2.5, 5.3-5.6, 7.1,
7.2).

For templates and hints alone: nothing is refused because it is not listed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reach:
    """How `payout` reaches a country: what arrives, and the codes of its banks and wallets."""

    currency: str
    banks: tuple[str, ...] = ()
    wallets: tuple[str, ...] = ()
    account_types: tuple[str, ...] = ()
    """The kind of number that a wallet is known by there."""
    document_type: str | None = None
    """The one kind of identification that is asked for, if any."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The payout methods."""
        return (*(["bank_transfer"] if self.banks else []), *(["wallet_transfer"] if self.wallets else []))


def _codes(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(code) for code in range(first, last + 1))


_INDONESIAN = ("120", "153", "164", "175", "197", "208", "219", "230", "241", "252", "263")

DIRECT: Mapping[str, Reach] = {
    "BR": Reach("BRL", (), ("pix",), ("CPF", "CNPJ", "EMAIL", "PHONE"), "CPF"),
    "ID": Reach(
        "IDR",
        (*(f"1000{code}" for code in _INDONESIAN), *_codes(1000274, 1000368)),
        ("ovo", "dana", "linkaja", "shopeepay", "gopay"),
        ("PHONE", "EMAIL"),
    ),
    "IN": Reach("INR", ("bank_card",), document_type="IFSC"),
    "PH": Reach("PHP", _codes(1000506, 1000587), _codes(2000500, 2000506), ("PHONE", "EMAIL")),
    "PK": Reach("PKR", ("1001113",)),
    "VN": Reach("VND", _codes(1000400, 1000432)),
}
"""Country -> how `payout` reaches it (public fact 7.2). Every other country takes the quoted route."""

DEBITED = ("USDT_TRC20", "USDT_ERC20", "USDT_BSC", "USDT_ARB")
"""Accounts that `payout` debits, besides one in the currency that arrives (public facts 7.1, 7.2)."""


@dataclass(frozen=True)
class Shown:
    """A route of fiat payouts that the public facts show: what arrives, a bank, a clearing network."""

    currency: str
    bank: str
    network: str


QUOTED: Mapping[str, Shown] = {
    "DE": Shown("EUR", "2000800", "SWIFT"),
    "TH": Shown("THB", "1000616", "LOCAL_PAYMENT"),
    "TW": Shown("TWD", "2000802", "LOCAL_PAYMENT"),
    "US": Shown("USD", "2000820", "ACH"),
}
"""Country -> one route of fiat payouts; which there are is asked of the service (public facts 5.3-5.5, 7.2)."""

NETWORKS = ("SWIFT", "ACH", "LOCAL_PAYMENT")
"""Clearing networks that were seen (public fact 5.5)."""

BANK_FIELDS: Mapping[str, str] = {
    "swift": "SWIFT / BIC code of the bank, where clear_network is SWIFT.",
    "routing_number": "ABA routing number of the bank, where clear_network is ACH.",
}
"""Fields of banks that were seen (public fact 5.6); letter case counts."""

PURPOSES: Mapping[str, str] = {
    f"{number:02d}": text
    for number, text in enumerate(
        (
            "own account",
            "family support",
            "education",
            "medical",
            "hotel",
            "travel",
            "utilities",
            "loan repayment",
            "tax",
            "home purchase",
            "rent",
            "insurance prepayment",
            "product insurance",
            "insurance premium",
            "mutual fund",
            "equity investment",
            "donation",
            "information services",
            "advertising",
            "loyalty, trademark, patent, copyright",
            "transaction, guarantee, factoring fees",
            "consulting, technical, expert services",
            "representative office",
            "construction",
            "goods transfer fees",
            "exported goods",
            "goods logistics",
            "general offline goods trade",
            "other services trade",
            "salary, commission",
            "regular maintenance",
            "computer services",
            "small-value remittance",
            "liberalized remittance",
            "bonus",
            "influencer fees",
        ),
        start=1,
    )
}
"""Remittance purpose -> what it means (public fact 2.5)."""
