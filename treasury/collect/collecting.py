"""Invoices: pay-ins asked for once each, written with their links, addresses and QR codes, and followed until paid."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from treasury.collect.expected_receipts import expecting, receipt_of
from treasury.collect.invoice_answers import PAID_BY, Deposits, how_to_pay, is_as_asked, outcome_of, paid_of
from treasury.concurrency.crash_points import crash_point
from treasury.errors import InputError, InvalidSheet, NotConnected, OutcomeUnknown, Refused
from treasury.files import copy_file, write_bytes, write_json
from treasury.ledger.in_force import as_time
from treasury.ledger.known_payees import DAY_MS
from treasury.ledger.snapshots import REJECTED, claim_for_invoices, expect_receipt, expected_receipts
from treasury.ledger.sweeps import RECEIPT
from treasury.masking import known, mask_text
from treasury.money import canonical, parse_amount
from treasury.orders.records import derive_request_id
from treasury.payments.desk import Desk
from treasury.payments.execution import check_run_key
from treasury.payments.governing import governing
from treasury.policy.model import Policy
from treasury.provider.operation import SeenOrder
from treasury.provider.orders import Pay, PayinRecord
from treasury.provider.pacing import FOLLOW
from treasury.provider.refusals import WRONG_SIGNATURE, RefusalKind
from treasury.provider.status import OrderStatus
from treasury.reports.refused import write_refused
from treasury.reports.spreadsheets import PlainBook
from treasury.reports.starts import end_start, is_changed, start_folder
from treasury.sheets.headers import PROBLEM, STATUS, read_mappings
from treasury.sheets.invoices import LAYOUT, InvoiceRow, read_invoices
from treasury.sheets.reading import Sheet
from treasury.sheets.writing import write_csv, write_plain_csv
from treasury.texts import cut_text

KIND = "collect"

COLUMNS = (
    "row_ref",
    "outcome",
    "request_id",
    "order_no",
    "currency",
    "amount",
    "paid",
    "fee",
    "credited",
    "link",
    "address",
    "account_name",
    "account_number",
    "qr",
    "expires_at",
    "reason",
    "next_action",
)
"""Of `results.csv` and its workbook; `qr`: the file of what is scanned to pay, beside them."""

WIDTHS = {"row_ref": 18, "request_id": 32, "order_no": 30, "link": 48, "address": 48, "reason": 48, "next_action": 60}

NO_LINK = "the service has it, and its link was never answered"
WITHOUT_LINK = (
    "take its link from the service's portal, or ask its support for it, or to close it; once it is closed, or expired "
    "(after a day), the same command writes its row into remaining.csv, for another run key"
)
"""The advice about an invoice that the service has and whose link nobody here knows: no question shows a link."""

UNPAID = ("expired", "failed", "rejected")
"""Outcomes of invoices that brought nothing and never will: `remaining.csv` has their rows."""

NEXT = {
    "paid": "none",
    "waiting": "give the customer the link, address or QR code; run the same command again to see what was paid",
    "underpaid": "ask the customer for the rest with an invoice of its own, or give back what came",
    "overpaid": "give back what was paid too much, or agree with the customer",
    "expired": "look into the morning report for a deposit that looks like it; else make a new one from remaining.csv",
    "failed": "make a new invoice from remaining.csv, under another run key",
    "rejected": "mend the row in remaining.csv, and make its invoice under another run key",
    "held": "put the row back as it was made, or cancel that invoice with the service and use another run key",
    "not_sent": "run the same command again: it is made then",
    "unknown": "run the same command again in a quarter of an hour: the service is asked about it first",
}


def invoices_of(desk: Desk, file: Path, sheet: str | None = None) -> Sheet[InvoiceRow]:
    """The rows of a file, by what people confirmed of its headers. Raises `InvalidSheet`."""
    settings = desk.settings
    return read_invoices(file, sheet=sheet, mappings=read_mappings(settings.home), notify_url=settings.notify_url)


def collect_and_write(
    desk: Desk, file: Path, run_key: str, out: Path | None, sheet: str | None = None, follow_seconds: float = 0
) -> Mapping[str, Any]:
    """Make the invoices of a file, follow all of its run key, and write what became of each; returns the summary.

    Raises `InvalidSheet`, with the sheet corrected in `out`; `InputError` where an invoice of this run key was made
    with other content; `RunHeld`.
    """
    check_run_key(run_key)
    out = out or desk.settings.run_folder(run_key)
    if not 0 <= follow_seconds < float("inf"):
        raise InputError(f"following takes a number of seconds, zero or more (got {follow_seconds})")
    try:
        rows = list(invoices_of(desk, file, sheet))
    except InvalidSheet as error:
        write_refused(out, file, error, LAYOUT, sheet)
        raise
    policy = governing(desk).policy or Policy()  # what is wrong with it is said before anything is made
    with desk.hold(run_key):
        made = _make(desk, run_key, rows)
        _follow(desk, made, follow_seconds)
    return _write(made, run_key, out, policy.reconciliation.invoice_days)


def look_at_invoices(desk: Desk, run_key: str, rows: Sequence[InvoiceRow]) -> dict[str, tuple[str, bool]]:
    """Return row -> what its invoice asks for, in words, and whether it was made before; nothing is sent or recorded.

    Raises `InputError` as `collect_and_write` does.
    """
    made, _ = _meant(desk, check_run_key(run_key), rows)
    found = {}
    for each in made:
        method = "" if each.payin is None else f" by {each.payin.payment_method}"
        found[each.row_ref] = (f"{canonical(each.amount)} {each.currency}{method}", bool(each.told))
    return found


@dataclass
class _Invoice:
    """One invoice while it is made and followed."""

    row_ref: str
    request_id: str
    currency: str
    amount: Decimal
    told: Mapping[str, Any]
    """Its receipt, as the ledger keeps it; empty for one that was not asked for yet."""
    meaning: str = ""
    """Keyed hash of its content."""
    cells: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Its row of the sheet, by column; empty for one of an earlier start that this sheet does not have. Personal."""
    payin: Pay | None = field(default=None, repr=False)
    outcome: str = ""
    reason: str = ""
    seen: SeenOrder | None = None
    came: SeenOrder | None = None
    """The deposit to its address that paid it."""


def _make(desk: Desk, run_key: str, rows: Sequence[InvoiceRow]) -> list[_Invoice]:
    """Ask for the invoices that were not asked for yet; returns all of this run key.

    Raises `InputError` before anything is sent.
    """
    made, kept = _meant(desk, run_key, rows)
    claim_for_invoices(desk.ledger, run_key)
    desk.run_concurrently(lambda each: _see_to(desk, run_key, each), made)
    earlier = sorted(kept.items(), key=lambda one: str(one[1]["row_ref"]))
    made += [
        _Invoice(told["row_ref"], name, told["currency"], parse_amount(told["amount"]), told) for name, told in earlier
    ]
    for each in made:
        if REJECTED in each.told:
            each.outcome, each.reason = "rejected", each.told[REJECTED]
    return made


def _meant(desk: Desk, run_key: str, rows: Sequence[InvoiceRow]) -> tuple[list[_Invoice], dict[str, Mapping[str, Any]]]:
    """Return the invoices that rows mean, with what is kept of those that were made, and what is kept of others.

    Raises `InputError` where the run key is taken, or a row is not what was made of it.
    """
    if desk.ledger.run(run_key) is not None:
        raise InputError(f"run key {run_key} belongs to a run of payments; nothing was sent: choose another")
    every = expected_receipts(desk.ledger)
    kept: dict[str, Mapping[str, Any]] = {
        name: receipt for name, receipt in every.items() if receipt.get("run_key") == run_key
    }
    made = []
    for row in rows:
        name = derive_request_id(desk.account.identity, run_key, row.row_ref, RECEIPT, 1)
        payin = Pay(request_id=name, **row.fields)
        told, meaning = kept.pop(name, {}), _meaning(desk, payin)
        made.append(_Invoice(row.row_ref, name, payin.currency, payin.amount, told, meaning, row.cells, payin))
    changed = [each.row_ref for each in made if each.told and each.told["meaning"] not in (OTHER, each.meaning)]
    if changed:
        raise InputError(
            f"run {run_key}: rows {', '.join(changed[:10])} differ from the invoices that were made under this run "
            "key; nothing was sent: put them into a file of their own, under another run key"
        )
    return made, kept


def _meaning(desk: Desk, payin: Pay) -> str:
    return desk.ledger.key.keyed_hash({name: value for name, value in payin.body().items() if name not in UNBOUND})


UNBOUND = ("request_id", "notify_url")
"""Fields that a row may have otherwise at another start."""


def _see_to(desk: Desk, run_key: str, invoice: _Invoice) -> None:
    """Ask for a new invoice, once the service says that it knows none: an older ledger may have forgotten it. One whose
    answer was lost is asked for again, once the service has not shown it for `resend_after_seconds`."""
    if not invoice.told:
        _ask(desk, invoice)
        if invoice.seen is not None:
            _adopt(desk, run_key, invoice)
        elif invoice.outcome:
            invoice.outcome = "not_sent"
        else:
            _send(desk, run_key, invoice)
    elif "order_no" not in invoice.told and REJECTED not in invoice.told:
        _ask(desk, invoice)
        if invoice.seen is not None and invoice.told["meaning"] == OTHER:
            _adopt(desk, run_key, invoice)
        if invoice.seen is not None or invoice.outcome:
            return
        if _age_ms(desk, invoice) >= desk.settings.resend_after_seconds * 1000:
            _send(desk, run_key, invoice)
        else:
            invoice.outcome, invoice.reason = "unknown", "its answer was lost, and the service does not show it yet"


OTHER = ""
"""In the place of the meaning of an invoice that the service has with other content than its row."""


def _adopt(desk: Desk, run_key: str, invoice: _Invoice) -> None:
    """Expect an invoice that the service has and this ledger did not make, as the service has it; one that its row
    does not mean is held. At its end, and in the customer's currency, what is shown may be what was paid."""
    seen, asked, bound = invoice.seen, invoice.payin, _bound(desk, run_key, invoice)
    assert seen is not None
    assert asked is not None
    is_at_its_end = seen.status is None or seen.status.is_final
    if not (is_at_its_end or is_as_asked(asked, seen)):
        bound |= _held(invoice, seen)
        invoice.reason += ": it was made before this ledger was lost or put back, or the service took it otherwise"
    _expect(desk, invoice, bound)


def _send(desk: Desk, run_key: str, invoice: _Invoice) -> None:
    """Ask for one invoice, and keep how its customer pays."""
    assert invoice.payin is not None
    bound = _bound(desk, run_key, invoice)
    more: dict[str, str] = {}
    try:
        with expecting(desk, invoice.payin, **bound):
            reply: PayinRecord = desk.client.send(invoice.payin)
        crash_point("receipt.answered")
        more = _told(invoice, reply)
    except NotConnected as error:
        invoice.outcome, invoice.reason = "not_sent", str(error)
    except Refused as refusal:
        is_final = desk.account.rules.kind_of(refusal) is RefusalKind.FINAL
        invoice.outcome, invoice.reason = "rejected" if is_final else "unknown", str(refusal)
        if is_final and str(refusal.code) == WRONG_SIGNATURE:  # once the key is right, the same invoice is made
            invoice.outcome = "not_sent"
        elif is_final:
            more = {REJECTED: _reason(invoice)}
    except OutcomeUnknown as error:
        invoice.outcome, invoice.reason = "unknown", str(error)
    if more:
        _expect(desk, invoice, bound | more)
        crash_point("receipt.recorded")


def _told(invoice: _Invoice, reply: PayinRecord) -> dict[str, str]:
    """Fields to keep of an answer: how the customer pays, where it answers this invoice as it was asked for."""
    asked, seen = invoice.payin, reply.as_order()
    assert asked is not None
    told = how_to_pay(reply)
    if seen.request_id in (None, asked.request_id) and not is_as_asked(asked, seen):
        return _held(invoice, seen)
    if seen.request_id not in (None, asked.request_id) or not told.keys() & PAID_BY:
        invoice.outcome, invoice.reason = "unknown", NO_LINK
        return {}
    return {"order_no": ""} | told


def _held(invoice: _Invoice, seen: SeenOrder) -> dict[str, str]:
    """Hold an invoice that the service has with another amount or currency than its row; returns what is kept."""
    shown = {"currency": str(seen.currency), "amount": canonical(seen.amount or Decimal(0))}
    said = f"the service has it over {shown['amount']} {shown['currency']}, and this row says "
    said += f"{canonical(invoice.amount)} {invoice.currency}"
    invoice.outcome, invoice.reason = "held", said
    return {"meaning": OTHER, **shown}


def _bound(desk: Desk, run_key: str, invoice: _Invoice) -> dict[str, str]:
    said = {"run_key": run_key, "row_ref": invoice.row_ref, "meaning": invoice.meaning}
    return {**said, "sent_at": str(desk.ledger.now())}


def _expect(desk: Desk, invoice: _Invoice, said: Mapping[str, str]) -> None:
    """Expect an invoice that the service has, or has refused for good; `said`: what is kept of it."""
    assert invoice.payin is not None
    expect_receipt(desk.ledger, invoice.request_id, receipt_of(invoice.payin, **said))
    invoice.told = expected_receipts(desk.ledger, [invoice.request_id])[invoice.request_id]


def _follow(desk: Desk, made: Sequence[_Invoice], seconds: float) -> None:
    """Ask about the invoices until none waits or the time is up; each is asked at least once."""
    deadline, pause, deposits = desk.clock.monotonic() + seconds, FOLLOW.first_pause, Deposits(desk)
    waiting = [each for each in made if each.outcome in ("", "unknown")]
    while waiting:
        desk.run_concurrently(lambda each: _ask(desk, each), waiting)
        unpaid = {each.request_id: each for each in waiting if each.outcome in ("waiting", "expired", "failed")}
        for name, (deposit, came) in deposits.paying(unpaid).items():
            unpaid[name].came = came
            unpaid[name].outcome, unpaid[name].reason = "paid", f"by deposit {deposit} to its address"
        waiting = [each for each in waiting if each.outcome == "waiting"]
        left = deadline - desk.clock.monotonic()
        if left <= 0:
            break
        desk.clock.sleep(min(pause, left))
        pause = min(pause * 1.5, FOLLOW.max_pause)


def _ask(desk: Desk, invoice: _Invoice) -> None:
    """Ask the service what became of an invoice."""
    try:
        seen = desk.submission.query_reference(RECEIPT, invoice.request_id)
    except (NotConnected, Refused, OutcomeUnknown) as error:
        if invoice.outcome == "":
            invoice.outcome, invoice.reason = "unknown", f"could not be asked: {error}"
        return
    invoice.seen = seen
    if seen is not None:
        invoice.outcome, invoice.reason = outcome_of(invoice.currency, invoice.amount, seen)
        if invoice.outcome == "waiting" and "order_no" not in invoice.told:
            invoice.outcome, invoice.reason = "unknown", NO_LINK
    elif "order_no" in invoice.told:
        is_new = _age_ms(desk, invoice) < desk.settings.resend_after_seconds * 1000
        new, old = ("waiting", "the service does not show it yet"), ("unknown", "the service knows no such order")
        invoice.outcome, invoice.reason = new if is_new else old


def _age_ms(desk: Desk, invoice: _Invoice) -> int:
    return desk.ledger.now() - int(invoice.told["sent_at"])


def _write(made: Sequence[_Invoice], run_key: str, out: Path, valid_days: int) -> Mapping[str, Any]:
    """Write `results.csv`, its workbook, the QR codes, `remaining.csv` and `run.json`, each for this start and as the
    newest; returns the summary. A `remaining.csv` that somebody went on with is not replaced."""
    own = start_folder(out)
    results = [_result(each, own, valid_days) for each in made]
    counts = dict(sorted(Counter(str(result["outcome"]) for result in results).items()))
    names = ["results.csv", "results.xlsx", "remaining.csv", "run.json"]
    if (out / "remaining.csv").exists() and is_changed(out / "remaining.csv"):
        names.remove("remaining.csv")
    files = [str(out / name) for name in names]
    summary = {"kind": KIND, "run_key": run_key, "rows": len(made), "counts": counts, "files": files}
    book = PlainBook(own / "results.xlsx")
    write_csv(own / "results.csv", COLUMNS, book.over("Invoices", COLUMNS, results, WIDTHS))
    book.finish()
    write_plain_csv(own / "remaining.csv", list(_remaining_columns(made)), _remaining(made))
    write_json(own / "run.json", summary)
    for name in [*names, *(str(result["qr"]) for result in results if result["qr"])]:
        copy_file(own / name, out / name)
    end_start()
    return summary


def _remaining_columns(made: Sequence[_Invoice]) -> Iterator[str]:
    used = {name for each in made for name in each.cells}
    yield from ("row_ref", STATUS, PROBLEM)
    yield from (name for name in LAYOUT.known if name in used and name != "row_ref")


def _remaining(made: Sequence[_Invoice]) -> Iterator[dict[str, str]]:
    for each in made:
        if each.outcome in UNPAID and each.cells:
            cells = {name: value for name, value in each.cells.items() if name in LAYOUT.known}
            yield {**cells, "row_ref": each.row_ref, STATUS: each.outcome, PROBLEM: _reason(each)}


def _result(invoice: _Invoice, folder: Path, valid_days: int) -> dict[str, object]:
    told, seen = invoice.told, invoice.seen
    link = told.get("checkout_url") or told.get("wallet_url")
    scanned = told.get("receive_address") or told.get("qrcode_string") or link
    came = seen if seen is not None and seen.status == OrderStatus.SUCCESS else invoice.came
    paid = None if came is None else paid_of(invoice.currency, invoice.amount, came)
    return {
        "row_ref": invoice.row_ref,
        "outcome": invoice.outcome,
        "request_id": invoice.request_id,
        "order_no": told.get("order_no") or (seen.order_no if seen else None),
        "currency": invoice.currency,
        "amount": invoice.amount,
        "paid": _plain(paid),
        "fee": None if came is None or paid is None else _plain(came.fee),
        "credited": None if came is None or paid is None else _plain(came.arrive_amount),
        "link": link,
        "address": told.get("receive_address"),
        "account_name": told.get("account_name"),
        "account_number": told.get("account_number"),
        "qr": _picture(invoice, scanned, folder) if invoice.outcome == "waiting" else None,
        "expires_at": _expiry(told, valid_days) if invoice.outcome == "waiting" else None,
        "reason": _reason(invoice),
        "next_action": WITHOUT_LINK if invoice.reason == NO_LINK else NEXT[invoice.outcome],
    }


def _picture(invoice: _Invoice, scanned: str | None, folder: Path) -> str | None:
    """Draw what is scanned to pay; the name of its file, None where there is nothing, or too much for a QR code."""
    import segno  # slow to import, and needed here alone

    name = f"qr-{invoice.request_id}.svg"
    try:
        drawn = segno.make(scanned, micro=False).svg_inline(scale=6, border=4) if scanned else None
    except ValueError:
        return None
    if drawn is None:
        return None
    write_bytes(folder / name, drawn.encode())
    return name


def _plain(amount: Decimal | None) -> str | None:
    return None if amount is None else canonical(amount)


def _expiry(told: Mapping[str, Any], valid_days: int) -> str | None:
    """When the checkout ends, UTC, as the morning report judges it."""
    at = told.get("created_at")
    return None if at is None else as_time(at + valid_days * DAY_MS)


def _reason(invoice: _Invoice) -> str:
    personal = [value for name, value in invoice.cells.items() if name.startswith("customer_")]
    return mask_text(cut_text(invoice.reason), known(personal), (invoice.row_ref,))
