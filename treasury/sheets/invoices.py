"""The invoices sheet: one row an amount that a customer is to pay in."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treasury.errors import InvalidFields, Problem
from treasury.provider.orders import Customer, Pay
from treasury.sheets.headers import Mappings
from treasury.sheets.reading import Layout, Row, Sheet, body_of, read_sheet
from treasury.texts import canonical_json

SENT = (
    "payment_method",
    "amount",
    "currency",
    "product_name",
    "customer_ref_id",
    "remark",
    "return_url",
    "notify_url",
    "payment_channel",
    "payment_type",
    "pay_currency",
)
"""Columns that are named as the fields of `Pay`."""

CUSTOMER = {f"customer_{name}": name for name in ("email", "phone", "name", "country", "document_id", "document_type")}
"""Column -> the field of `Customer` that it fills."""

LAYOUT = Layout(
    key="row_ref",
    required=SENT[:5],
    optional=(*SENT[5:], *CUSTOMER),
    amounts=frozenset(("amount",)),
    identifiers=frozenset(("customer_ref_id", "payment_channel", "customer_phone", "customer_document_id")),
    synonyms={
        **dict.fromkeys(("reference", "ref", "invoice", "invoice_no", "invoice_number"), "row_ref"),
        **dict.fromkeys(("method",), "payment_method"),
        **dict.fromkeys(("customer", "customer_id"), "customer_ref_id"),
        **dict.fromkeys(("product", "subject"), "product_name"),
    },
)


@dataclass(frozen=True)
class InvoiceRow:
    """One invoice as the sheet asks for it."""

    line: int
    row_ref: str
    fields: dict[str, Any] = field(repr=False)
    """Wire body of `Pay` without its reference. Personal."""
    cells: dict[str, str] = field(repr=False)
    """The row as it was read, by column. Personal."""


def read_invoices(
    path: Path, *, sheet: str | None = None, mappings: Mappings = Mappings(), notify_url: str | None = None
) -> Sheet[InvoiceRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name.

    `notify_url`: where the service reports, for rows that name none. Raises `InvalidSheet` with every problem.
    """
    return read_sheet(path, LAYOUT, lambda row: _invoice(row, notify_url), sheet, mappings=mappings)


def _invoice(row: Row, notify_url: str | None) -> InvoiceRow:
    given: dict[str, Any] = {"notify_url": notify_url} if notify_url else {}
    given |= {name: row.values[name] for name in SENT if name in row.values}
    customer = {name: row.values[column] for column, name in CUSTOMER.items() if column in row.values}
    if customer:
        given["customer"] = canonical_json(Customer(**customer).model_dump(by_alias=True, exclude_none=True))
    problems: list[Problem] = []
    fields = body_of(Pay, given, problems)
    if not problems and Pay(request_id="0", **fields).amount <= 0:
        problems.append(Problem("amount", "must be greater than zero", row.values.get("amount")))
    if problems:
        raise InvalidFields("row", problems)
    return InvoiceRow(row.line, row.ref, fields, dict(row.values))
