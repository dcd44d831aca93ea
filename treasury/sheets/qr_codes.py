"""The QR codes sheet: one row a PromptPay code that is paid from the USDT balance."""

from collections.abc import Collection
from decimal import Decimal
from pathlib import Path

from treasury.errors import InputError, InvalidFields, Problem, RowProblem
from treasury.money import format_amount, parse_amount
from treasury.orders.rows import PayoutRow, Route
from treasury.promptpay import read_promptpay
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.sheets.beneficiaries import CEILING
from treasury.sheets.headers import Mappings
from treasury.sheets.reading import Layout, Row, Sheet, body_of, read_sheet

SENT = ("qrcode", "amount", "user_xid", "notify_url")
"""Columns that are named as the fields of `SubmitScanToPay`."""

LAYOUT = Layout(
    key="row_ref",
    required=("qrcode", "user_xid"),
    optional=("amount", CEILING, "notify_url", "duplicate_ok", "replaces"),
    amounts=frozenset(("amount", CEILING)),
    identifiers=frozenset(("qrcode", "user_xid")),
    synonyms={
        **dict.fromkeys(("reference", "ref", "payment_reference"), "row_ref"),
        **dict.fromkeys(("qr", "qr_code", "code"), "qrcode"),
        **dict.fromkeys(("xid", "user"), "user_xid"),
    },
)


def read_qr_codes(
    path: Path,
    *,
    sheet: str | None = None,
    leaving: Collection[RowProblem] = (),
    mappings: Mappings = Mappings(),
    notify_url: str | None = None,
) -> Sheet[PayoutRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name, without rows with these problems.

    A row whose code says its amount may leave it out. `notify_url`: where the service reports, for rows that name none.
    Raises `InvalidSheet` with every problem of every row, a code that is none among them.
    """
    return read_sheet(path, LAYOUT, lambda row: _code(row, notify_url), sheet, leaving, mappings)


def _code(row: Row, notify_url: str | None) -> PayoutRow:
    given = {"notify_url": notify_url} if notify_url else {}
    given |= {name: row.values[name] for name in SENT if name in row.values}
    problems: list[Problem] = []
    if "qrcode" in given:
        given |= _with_amount(given, problems)
    fields = body_of(SubmitScanToPay, given, [] if problems else problems)
    if "notify_url" not in given:
        how = "is required: write where the service reports, or set TREASURY_NOTIFY_URL"
        problems = [*(each for each in problems if each.field != "notify_url"), Problem("notify_url", how)]
    ceiling = _ceiling(row.values.get(CEILING), problems)
    if problems:
        raise InvalidFields("row", problems)
    return PayoutRow(
        line=row.line,
        row_ref=row.ref,
        route=Route.QR_CODE,
        fields=fields,
        duplicate_ok=row.values.get("duplicate_ok"),
        max_pay_amount=ceiling,
        replaces=row.values.get("replaces"),
    )


def _with_amount(given: dict[str, str], problems: list[Problem]) -> dict[str, str]:
    """The amount of a row: its own, or that of its code, which another must not differ from."""
    try:
        code = read_promptpay(given["qrcode"])
    except InputError as error:
        problems.append(Problem("qrcode", f"cannot be paid: {error}", code="no_code"))
        return {}
    if code.amount is None:
        if "amount" not in given:
            problems.append(Problem("amount", "is required: the code says none"))
        return {}
    if "amount" in given:
        try:
            differs = parse_amount(given["amount"]) != code.amount
        except ValueError:
            return {}  # which its operation says
        if differs:
            said = f"must be the amount of the code, {format_amount(code.amount)} THB, or blank"
            problems.append(Problem("amount", said, given["amount"], code="another_amount"))
    return {"amount": format_amount(code.amount)}


def _ceiling(given: str | None, problems: list[Problem]) -> Decimal | None:
    if given is None:
        return None
    try:
        amount = parse_amount(given)
        if amount > 0:
            return amount
        problems.append(Problem(CEILING, "must be greater than zero", given))
    except ValueError as error:
        problems.append(Problem(CEILING, str(error), given))
    return None
