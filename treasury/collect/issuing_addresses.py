"""Deposit addresses: asked for once for each customer and asset, verified, and written with their QR codes."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from treasury.concurrency.crash_points import crash_point
from treasury.errors import InvalidSheet, NotConnected, OutcomeUnknown, Refused
from treasury.files import write_bytes, write_json
from treasury.ledger.snapshots import ISSUED, keep_snapshot, snapshot_of
from treasury.masking import known, mask_text
from treasury.payments.desk import Desk
from treasury.provider.answers import names_the_same
from treasury.provider.orders import DepositAddress, VerifyDepositAddress
from treasury.provider.refusals import RefusalKind
from treasury.reports.refused import write_refused
from treasury.reports.spreadsheets import PlainBook
from treasury.sheets.deposit_addresses_sheet import LAYOUT, AddressRow, read_deposit_addresses
from treasury.sheets.headers import read_mappings
from treasury.sheets.reading import Sheet
from treasury.sheets.writing import write_csv
from treasury.texts import cut_text

KIND = "deposit-addresses"

COLUMNS = ("row_ref", "outcome", "currency", "customer_ref_id", "address", "tag", "qr", "reason")
"""Of `addresses.csv` and its workbook; `qr`: the file of the address as a QR code, beside them."""

WIDTHS = {"row_ref": 18, "customer_ref_id": 24, "address": 64, "qr": 24, "reason": 60}

BAD_OUTCOMES = ("rejected", "unknown")


def addresses_of(desk: Desk, file: Path, sheet: str | None = None) -> Sheet[AddressRow]:
    """The rows of a file, by what people confirmed of its headers. Raises `InvalidSheet`."""
    return read_deposit_addresses(file, sheet=sheet, mappings=read_mappings(desk.settings.home))


def issue_and_write(desk: Desk, file: Path, out: Path | None, sheet: str | None = None) -> Mapping[str, Any]:
    """Issue the addresses of a file and write them; returns the summary.

    Raises `InvalidSheet`; the sheet then comes back corrected in `out`.
    """
    out = out or desk.settings.run_folder(KIND)
    try:
        rows = addresses_of(desk, file, sheet)
    except InvalidSheet as error:
        write_refused(out, file, error, LAYOUT, sheet)
        raise
    return write_addresses(issue_addresses(desk, rows), out)


def look_at_addresses(desk: Desk, rows: Iterable[AddressRow]) -> list[tuple[AddressRow, bool]]:
    """Return each row, and whether its address was issued before; nothing is sent."""
    return [(row, snapshot_of(desk.ledger, _name(desk, row)) is not None) for row in rows]


def _name(desk: Desk, row: AddressRow) -> str:
    return f"{ISSUED}{desk.ledger.key.keyed_hash([row.currency, row.customer_ref_id])}"


def issue_addresses(desk: Desk, rows: Iterable[AddressRow]) -> list[dict[str, Any]]:
    """Ask for the address of each row, unless it was issued before; one result a row, in the file's order.

    `issued` and `known` addresses are the service's own, by its verdict; one that it disowns is `rejected`.
    """
    return desk.run_concurrently(lambda row: _issue(desk, row), rows)


def _issue(desk: Desk, row: AddressRow) -> dict[str, Any]:
    name = _name(desk, row)
    kept = snapshot_of(desk.ledger, name)
    try:
        if kept is None:
            asked = DepositAddress(
                currency=row.currency, customer_ref_id=row.customer_ref_id, description=row.description
            )
            reply = desk.client.send(asked)
            if reply.currency is not None and not names_the_same(row.currency, reply.currency):
                return _trouble(row, "rejected", f"the service said an address of {reply.currency}: ask its support")
            address, tag = reply.address, reply.tag or ""
        else:
            address, tag = kept["address"], kept["tag"]
        if not address:
            return _trouble(row, "unknown", "the service said no address: run it again")
        verdict = desk.client.read(VerifyDepositAddress(currency=row.currency, address=address, tag=tag or None))
    except (Refused, NotConnected, OutcomeUnknown) as error:
        if isinstance(error, Refused) and desk.account.rules.kind_of(error) is not RefusalKind.UNDECIDED:
            return _trouble(row, "rejected", str(error))
        return _trouble(row, "unknown", f"{error}; run it again: the same customer gets the same address")
    if not verdict.result:
        said = "the service does not say that this address is its own: do not give it to anybody; ask its support"
        return _trouble(row, "rejected", said) | {"address": address, "tag": tag}
    if kept is None:
        crash_point("address.verified")
        keep_snapshot(desk.ledger, name, None, {"plan_sha256": None, "address": address, "tag": tag})
        crash_point("address.recorded")
    found = {"row_ref": row.row_ref, "outcome": "issued" if kept is None else "known", "currency": row.currency}
    return {**dict.fromkeys(COLUMNS), **found, "customer_ref_id": row.customer_ref_id, "address": address, "tag": tag}


def _trouble(row: AddressRow, outcome: str, why: str) -> dict[str, Any]:
    said = mask_text(cut_text(why), known([row.description or ""]), (row.row_ref,))
    found = {"row_ref": row.row_ref, "outcome": outcome, "currency": row.currency, "reason": said}
    return {**dict.fromkeys(COLUMNS), **found, "customer_ref_id": row.customer_ref_id}


def write_addresses(results: Sequence[Mapping[str, Any]], out: Path) -> Mapping[str, Any]:
    """Write `addresses.csv`, its workbook, a QR code of each good address, and `run.json`; returns the summary.

    A code is named by its address, so that another start in this folder puts none of its own in its place.
    """
    import segno  # slow to import, and needed here alone

    rows = []
    for result in results:
        picture = None
        if result["outcome"] not in BAD_OUTCOMES:
            picture = f"qr-{hashlib.sha256(str(result['address']).encode()).hexdigest()[:16]}.svg"
            drawn = segno.make(str(result["address"]), micro=False).svg_inline(scale=6, border=4)
            write_bytes(out / picture, drawn.encode())
        rows.append({**result, "qr": picture})
    files = [str(out / name) for name in ("addresses.csv", "addresses.xlsx", "run.json")]
    counts = dict(sorted(Counter(result["outcome"] for result in results).items()))
    summary = {"kind": KIND, "addresses": len(results), "counts": counts, "files": files}
    book = PlainBook(out / "addresses.xlsx")
    write_csv(out / "addresses.csv", COLUMNS, book.over("Addresses", COLUMNS, rows, WIDTHS))
    book.finish()
    write_json(out / "run.json", summary)
    return summary
