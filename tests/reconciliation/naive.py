"""The judgement of `docs/reconciliation-rules.md`, with the differences of `docs/reconciliation-breaks.md`, from the
pages alone: loops, dicts, and nothing of the program.

It is slow and says each rule once, in the page's order, so that what the program computes has something to agree with.
Missing and None are "not known"; amounts are exact decimal text.
"""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any

Row = dict[str, Any]

CONFIRM_A_QUOTE = ("create_fiat_payout", "conversion_execute")
ABSENCE_SAYS_NOTHING = ("conversion_execute",)
FEE_ON_TOP: tuple[str, ...] = ()
PUBLISHED = (11, 22, 44, 88, 99)
SUCCESS = 99
FINAL = {"settled": 99, "failed": 44, "closed": 88}
TOLERANCE_BPS = 5
DUE_HOURS = {
    "payout": 72,
    "withdraw": 24,
    "submit_scan_to_pay": 24,
    "create_fiat_payout": 120,
    "conversion_execute": 24,
}
HOUR = 3_600_000
EXACT = Context(prec=400, Emax=MAX_EMAX, Emin=MIN_EMIN)


def number(row: Row, field: str) -> Decimal | None:
    """An amount, or None if it is not known."""
    text = row.get(field)
    return None if text is None else Decimal(text)


def both_known_and_differ(one: Any, other: Any) -> bool:
    """Tell whether two values are known and not the same; decimals compare by value."""
    return one is not None and other is not None and one != other


def first_known(*values: Any) -> Any:
    """The first value that is known, or None."""
    return next((value for value in values if value is not None), None)


# What is there.


def absent(row: Row) -> bool:
    """No such order."""
    return bool(row.get("answer") == "absent")


def not_there(row: Row) -> bool:
    """No such order, or a quote that nobody confirmed."""
    if absent(row):
        return True
    return (
        row.get("answer") == "found"
        and row["operation"] in CONFIRM_A_QUOTE
        and row["state"] not in ("accepted", "settled", "failed", "closed")
        and row.get("status") not in (22, 44, 88, 99)
    )


def found(row: Row) -> bool:
    """Found, and a payment: an unconfirmed quote is none."""
    return row.get("answer") == "found" and not not_there(row)


def seen(row: Row, field: str) -> Any:
    """Return what the service shows of a payment that is there."""
    return row.get(field) if found(row) else None


def seen_number(row: Row, field: str) -> Decimal | None:
    """An amount that the service shows of a payment that is there."""
    return number(row, field) if found(row) else None


# The rules, one per line of the page's table.


def query_failed(row: Row, rows: list[Row], as_of: int) -> bool:
    return row.get("answer") not in ("found", "absent")


def other_record(row: Row, rows: list[Row], as_of: int) -> bool:
    return row.get("answer") == "found" and row.get("seen_request_id") is not None


def duplicate_effect(row: Row, rows: list[Row], as_of: int) -> bool:
    if row["operation"] not in CONFIRM_A_QUOTE and both_known_and_differ(
        row.get("known_order_no"), seen(row, "order_no")
    ):
        return True
    if (row.get("line_orders") or 0) > 1:
        return True
    return row["state"] == "superseded" and came_of(row) and any(came_of(other) for other in others_of(row, rows))


def came_of(row: Row) -> bool:
    """Tell whether it is a quote, and found with 22 or 99."""
    return row["operation"] in CONFIRM_A_QUOTE and found(row) and row.get("status") in (22, 99)


def others_of(row: Row, rows: list[Row]) -> list[Row]:
    """The other orders of the same row of the same run."""
    return [
        other
        for other in rows
        if other["request_id"] != row["request_id"]
        and other["run_key"] == row["run_key"]
        and other["row_ref"] == row["row_ref"]
    ]


def orphan_success(row: Row, rows: list[Row], as_of: int) -> bool:
    if row["state"] not in ("prepared", "held", "rejected", "failed", "closed", "superseded"):
        return False
    return seen(row, "status") == SUCCESS or row.get("line_status") == SUCCESS


def missing_at_service(row: Row, rows: list[Row], as_of: int) -> bool:
    return (
        absent(row)
        and row["state"] in ("accepted", "settled", "failed", "closed")
        and row["operation"] not in ABSENCE_SAYS_NOTHING
    )


def currency_mismatch(row: Row, rows: list[Row], as_of: int) -> bool:
    return (
        both_known_and_differ(row.get("currency"), seen(row, "seen_currency"))
        or both_known_and_differ(row.get("receive_currency"), seen(row, "seen_receive_currency"))
        or both_known_and_differ(row.get("currency"), row.get("line_currency"))
    )


def amount_mismatch(row: Row, rows: list[Row], as_of: int) -> bool:
    arrived, amount, fee = (seen_number(row, field) for field in ("arrive_amount", "seen_amount", "seen_fee"))
    if row["operation"] == "conversion_execute" and arrived == number(row, "receive_amount"):
        arrived = None  # it is shown in the currency that is bought
    if seen(row, "status") == SUCCESS and arrived is not None and amount is not None and fee is not None:
        fee_currency = first_known(row.get("seen_fee_currency"), row.get("fee_currency"))
        if fee_currency in (None, first_known(row.get("seen_currency"), row.get("currency"))) and arrived > amount:
            return True
    if arrived is not None and converts_unlike_quote(row):
        return True
    return (
        both_known_and_differ(number(row, "amount"), seen_number(row, "seen_amount"))
        or both_known_and_differ(number(row, "receive_amount"), seen_number(row, "seen_receive_amount"))
        or both_known_and_differ(number(row, "amount"), number(row, "line_amount"))
    )


def converts_unlike_quote(row: Row) -> bool:
    """Return True for a conversion of which neither what was quoted arrived nor what was paid, with or without its
    fee, where the fee is not in the currency that is paid."""
    arrived, amount, fee = (seen_number(row, field) for field in ("arrive_amount", "seen_amount", "seen_fee"))
    if row["operation"] != "conversion_execute" or seen(row, "status") != SUCCESS:
        return False
    if number(row, "receive_amount") in (None, arrived):
        return False
    charged = first_known(row.get("seen_fee_currency"), row.get("fee_currency"))
    pays = first_known(row.get("seen_currency"), row.get("currency"))
    if amount is not None and fee is not None and charged in (None, pays):
        return False  # `partial` compares them
    return amount is None or arrived not in (amount, amount - (fee or 0))


def reversed_after_final(row: Row, rows: list[Row], as_of: int) -> bool:
    return (
        row["state"] in FINAL and seen(row, "status") in FINAL.values() and seen(row, "status") != FINAL[row["state"]]
    )


def status_conflict(row: Row, rows: list[Row], as_of: int) -> bool:
    if not found(row):
        return False
    if row["state"] in ("prepared", "held", "rejected", "superseded"):
        return True
    stated = row.get("line_status")
    if stated in FINAL.values() and row.get("status") in FINAL.values() and stated != row.get("status"):
        return True
    return row["state"] in FINAL and row.get("status") in (11, 22)


def unknown_outcome(row: Row, rows: list[Row], as_of: int) -> bool:
    return not_there(row) and row["state"] in ("sending", "unknown")


def partial(row: Row, rows: list[Row], as_of: int) -> bool:
    arrived, amount, fee = (seen_number(row, field) for field in ("arrive_amount", "seen_amount", "seen_fee"))
    if row["operation"] == "conversion_execute" and arrived == number(row, "receive_amount"):
        arrived = None  # it is shown in the currency that is bought
    if seen(row, "status") != SUCCESS or arrived is None or amount is None or fee is None:
        return False
    fee_currency = first_known(row.get("seen_fee_currency"), row.get("fee_currency"))
    currency = first_known(row.get("seen_currency"), row.get("currency"))
    return fee_currency in (None, currency) and arrived < amount - fee


def above_bound(row: Row, rows: list[Row], as_of: int) -> bool:
    return over_bound(row) > 0


def over_bound(row: Row) -> Decimal:
    """How much more than its bound it debited; 0 where it did not, or where that is not known."""
    debit, fee, bound = seen_number(row, "seen_amount"), seen_number(row, "seen_fee"), number(row, "bound")
    if seen(row, "status") not in (22, SUCCESS) or debit is None or bound is None:
        return Decimal(0)
    fee_currency = first_known(row.get("seen_fee_currency"), row.get("fee_currency"))
    currency = first_known(row.get("seen_currency"), row.get("currency"))
    if fee is not None and row["operation"] in FEE_ON_TOP and fee_currency in (None, currency):
        debit += fee
    return max(debit - bound, Decimal(0))


def missing_in_statement(row: Row, rows: list[Row], as_of: int) -> bool:
    return bool(row.get("line_lacks"))


def changed_in_ledger(row: Row, rows: list[Row], as_of: int) -> bool:
    return row.get("changed") is not None


def statement_variance(row: Row, rows: list[Row], as_of: int) -> bool:
    if row.get("line_is_off"):
        return True
    if both_known_and_differ(row.get("seen_fee_currency"), row.get("line_fee_currency")):
        return False
    return both_known_and_differ(number(row, "seen_fee"), number(row, "line_fee"))


def unclassified_status(row: Row, rows: list[Row], as_of: int) -> bool:
    return found(row) and row.get("status") not in PUBLISHED


def fee_base(row: Row, quoted: Decimal) -> Decimal:
    """Return what the quoted fee is taken from; the fee itself where that is not known."""
    currency = row.get("fee_currency")
    base = None
    if currency is None or currency == row.get("currency"):
        base = number(row, "amount")
    elif currency == row.get("receive_currency"):
        base = number(row, "receive_amount")
    return quoted if base is None else base


def fee_variance(row: Row, rows: list[Row], as_of: int) -> bool:
    fee, quoted = seen_number(row, "seen_fee"), number(row, "fee")
    if fee is None:
        return False
    if row["operation"] == "conversion_execute" and fee == 0 and row.get("seen_fee_currency") is None:
        return False
    if both_known_and_differ(row.get("fee_currency"), row.get("seen_fee_currency")):
        return True
    return quoted is not None and abs(fee - quoted) * 10_000 > TOLERANCE_BPS * fee_base(row, quoted)


def rate_variance(row: Row, rows: list[Row], as_of: int) -> bool:
    rate, quoted = seen_number(row, "seen_rate"), number(row, "rate")
    return rate is not None and quoted is not None and abs(rate - quoted) * 10_000 > TOLERANCE_BPS * quoted


def pending_late(row: Row, rows: list[Row], as_of: int) -> bool:
    since = row.get("sent_at")
    if since is None:
        since = row.get("created_at")
    due = DUE_HOURS[row["operation"]] * HOUR
    return in_progress(row, rows, as_of) and since is not None and as_of - since > due


def unreadable_metadata(row: Row, rows: list[Row], as_of: int) -> bool:
    return bool(seen(row, "unreadable"))


def in_progress(row: Row, rows: list[Row], as_of: int) -> bool:
    if found(row):
        return row.get("status") not in FINAL.values()
    return not_there(row) and row["state"] in ("prepared", "held", "accepted")


def quote_expired_unused(row: Row, rows: list[Row], as_of: int) -> bool:
    return bool(row["state"] == "superseded")


RULES: tuple[Callable[[Row, list[Row], int], bool], ...] = (
    query_failed,
    other_record,
    duplicate_effect,
    orphan_success,
    missing_at_service,
    currency_mismatch,
    amount_mismatch,
    reversed_after_final,
    status_conflict,
    unknown_outcome,
    partial,
    above_bound,
    missing_in_statement,
    changed_in_ledger,
    unclassified_status,
    fee_variance,
    rate_variance,
    statement_variance,
    pending_late,
    unreadable_metadata,
    in_progress,
    quote_expired_unused,
)
"""Named as the classes are, in the order of the page; the first that applies is the class."""


def judge(row: Row, rows: list[Row], as_of: int) -> str:
    """The class of one order of the ledger `rows`."""
    with localcontext(EXACT):
        for rule in RULES:
            if rule(row, rows, as_of):
                return rule.__name__
    return "matched"


def sums(rows: list[Row], as_of: int) -> dict[str, int]:
    """How many orders are in each class that has any."""
    counts: dict[str, int] = {}
    for row in rows:
        name = judge(row, rows, as_of)
        counts[name] = counts.get(name, 0) + 1
    return counts


def difference(row: Row, name: str) -> Decimal:
    """How much more left than our books say; 0 where it is not clear."""
    ours, answered, stated = number(row, "amount"), seen_number(row, "seen_amount"), number(row, "line_amount")
    nothing = Decimal(0)
    with localcontext(EXACT):
        if name == "amount_mismatch":
            theirs = answered if both_known_and_differ(ours, answered) else stated
            return nothing if ours is None or theirs is None else theirs - ours
        if name in ("orphan_success", "duplicate_effect"):
            return Decimal(first_known(answered, stated, ours, nothing))
        if name in ("partial", "above_bound"):
            sent, fee = Decimal(row["seen_amount"]), Decimal(row["seen_fee"] or 0)
            return over_bound(row) if name == "above_bound" else Decimal(row["arrive_amount"]) - (sent - fee)
        if name == "missing_in_statement":
            return nothing if ours is None else -ours
        if name in ("missing_at_service", "reversed_after_final") and row["state"] in ("accepted", "settled"):
            return -Decimal(first_known(ours, answered, nothing))
    return nothing
