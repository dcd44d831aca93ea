"""The words and signs that a number format shows beside an amount: none but the currency of its row."""

from collections.abc import Mapping

from treasury.money import family_of
from treasury.sheets.characters import Fault
from treasury.texts import cut_text

_SIGNS: Mapping[str, tuple[str, ...]] = {
    "$": ("USD",), "US$": ("USD",), "€": ("EUR",), "£": ("GBP",), "¥": ("CNY", "JPY"), "R$": ("BRL",), "RP": ("IDR",),
    "₹": ("INR",), "₫": ("VND",), "₱": ("PHP",), "฿": ("THB",),
}  # fmt: skip
"""Signs that spreadsheet programs show for currencies."""


def unit_fault(column: str, beside: str, values: Mapping[str, str]) -> Fault | None:
    """Why an amount is not what its number format makes of it; None where that shows the currency of its row."""
    currency = values.get(_currency_of(column), "").upper()
    said = beside.upper()
    if currency and (said in (currency, family_of(currency)) or currency in _SIGNS.get(said.rstrip("."), ())):
        return None
    row = f"the row says {cut_text(currency, 20)}" if currency else "the row names no currency for it"
    shown = "the currency of the computer that opens it" if beside == "¤" else repr(cut_text(beside, 20))
    rule = (
        f"is shown with {shown}, and {row}: take that out of the number format of the cell, and write "
        "the amount that is meant"
    )
    return rule, "shown_differs"


def _currency_of(column: str) -> str:
    """The column with the currency of an amount."""
    named = column.removeprefix("max_").replace("amount", "currency")
    return {"fee": "fee_currency", "order_amount": "currency"}.get(column, named if named != column else "currency")
