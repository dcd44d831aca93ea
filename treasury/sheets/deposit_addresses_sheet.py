"""The deposit addresses sheet: one row an address that a customer deposits one asset to."""

from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

from treasury.errors import InvalidFields, Problem
from treasury.provider.orders import DepositAddress
from treasury.sheets.headers import Mappings
from treasury.sheets.reading import Layout, Row, Sheet, read_sheet

LAYOUT = Layout(
    key="row_ref",
    required=("currency", "customer_ref_id"),
    optional=("description",),
    identifiers=frozenset(("customer_ref_id",)),
    synonyms={
        **dict.fromkeys(("reference", "ref"), "row_ref"),
        **dict.fromkeys(("asset", "coin"), "currency"),
        **dict.fromkeys(("customer", "customer_id"), "customer_ref_id"),
    },
)

SENT = ("currency", "customer_ref_id", "description")
"""Columns that are named as the fields of `DepositAddress`."""


@dataclass(frozen=True)
class AddressRow:
    """One address as the sheet asks for it."""

    line: int
    row_ref: str
    currency: str
    customer_ref_id: str
    description: str | None = None


def read_deposit_addresses(
    path: Path, *, sheet: str | None = None, mappings: Mappings = Mappings()
) -> Sheet[AddressRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name.

    Raises `InvalidSheet` with every problem of every row; a customer's asset is there once.
    """
    seen: dict[tuple[str, str], str] = {}

    def make(row: Row) -> AddressRow:
        given = {name: row.values[name] for name in SENT if name in row.values}
        DepositAddress(**given)
        asked = (given["currency"], normalize("NFC", given["customer_ref_id"]))  # programs store é in one or two parts
        if (first := seen.setdefault(asked, row.ref)) != row.ref:
            said = f"has this asset in row {first} already: one address serves all deposits of it"
            raise InvalidFields("row", [Problem("customer_ref_id", said, code="asked_twice")])
        return AddressRow(row.line, row.ref, *asked, given.get("description"))

    return read_sheet(path, LAYOUT, make, sheet, mappings=mappings)
