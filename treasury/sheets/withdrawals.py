"""The withdrawals sheet: one row a withdrawal of a crypto asset to an address."""

from collections.abc import Collection
from pathlib import Path

from treasury.addresses import is_checked, problems_of_destination
from treasury.errors import InvalidFields, Problem, RowProblem
from treasury.orders.rows import PayoutRow, Route
from treasury.provider.orders import Withdraw
from treasury.sheets.cell_texts import judge_ascii
from treasury.sheets.headers import Mappings
from treasury.sheets.reading import Layout, Row, Sheet, body_of, read_sheet

SENT = ("currency", "address", "tag", "amount", "customer_ref_id", "notify_url", "description")
"""Columns that are named as the fields of `Withdraw`."""

LAYOUT = Layout(
    key="row_ref",
    required=("currency", "address", "amount", "customer_ref_id"),
    optional=("tag", "description", "notify_url", "duplicate_ok", "replaces"),
    amounts=frozenset(("amount",)),
    identifiers=frozenset(("address", "tag", "customer_ref_id")),
    synonyms={
        **dict.fromkeys(("reference", "ref", "payment_reference"), "row_ref"),
        **dict.fromkeys(("wallet_address", "destination", "destination_address"), "address"),
        **dict.fromkeys(("memo", "destination_tag"), "tag"),
        **dict.fromkeys(("asset", "coin"), "currency"),
    },
)


def read_withdrawals(
    path: Path,
    *,
    sheet: str | None = None,
    leaving: Collection[RowProblem] = (),
    mappings: Mappings = Mappings(),
    notify_url: str | None = None,
) -> Sheet[PayoutRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name, without rows with these problems.

    `notify_url`: where the service reports, for rows that name none. Raises `InvalidSheet` with every problem of every
    row. Assets for whose addresses no rule is known are in `notes`.
    """
    unchecked: dict[str, None] = {}
    rows = read_sheet(path, LAYOUT, lambda row: _withdrawal(row, notify_url, unchecked), sheet, leaving, mappings)
    if unchecked:
        rows.notes += (f"addresses not checked, for no rule is known: {', '.join(sorted(unchecked))}",)
    return rows


def _withdrawal(row: Row, notify_url: str | None, unchecked: dict[str, None]) -> PayoutRow:
    given = {"notify_url": notify_url} if notify_url else {}
    given |= {name: row.values[name] for name in SENT if name in row.values}
    problems: list[Problem] = []
    fields = body_of(Withdraw, given, problems)
    currency, address = given.get("currency", ""), given.get("address")
    if address is not None and (fault := judge_ascii(address)) is not None:
        problems.append(Problem("address", fault[0], code=fault[1]))
        address = None
    elif address is not None and not is_checked(currency):
        unchecked[currency] = None
    problems += problems_of_destination(currency, address, given.get("tag"))
    if problems:
        raise InvalidFields("row", problems)
    return PayoutRow(
        line=row.line,
        row_ref=row.ref,
        route=Route.WITHDRAWAL,
        fields=fields,
        duplicate_ok=row.values.get("duplicate_ok"),
        replaces=row.values.get("replaces"),
    )
