"""Sheets beside that of payouts, as a start of their command works through them: withdrawals, QR codes, invoices,
deposit addresses and card users; and what their results have to say when everything is over."""

import csv
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.crash.payments import ROWS, Kind, finish, sheet_file
from tests.engine import paying
from treasury.cards.provisioning import provision_users, write_users
from treasury.collect.collecting import collect_and_write
from treasury.collect.issuing_addresses import issue_and_write
from treasury.payments.desk import Desk
from treasury.sandbox import RunningSandbox, build_promptpay
from treasury.sheets.payments import QR_CODES, WITHDRAWALS

TRON = "TDBaAMzsQ3d7xqqgw8CWCzbAZGPdARHsMa"
INVOICED = (Decimal(600), Decimal(650), Decimal(700))
"""The first invoice is paid, of the second 5 less, and the third is not."""
UNDERPAID = Decimal(645)
LOST = "link was never answered"
"""In the reason of an invoice that the service has, and whose answer died with the process that waited for it."""
GOOD = {"addresses": ("issued", "known"), "users": ("created", "existing")}
"""Outcomes of what a start after that in which it was made knows."""
FILES = {"addresses": "addresses.csv", "users": "card_users.csv"}

Rows = dict[str, dict[str, str]]


def _pay(run_key: str, kind: str, rows: list[dict[str, str]]) -> Callable[[Desk, Path], None]:
    def start(desk: Desk, folder: Path) -> None:
        file = sheet_file(folder / f"{run_key}.csv", rows)
        ids = [order for chunk in paying.commit(desk, file, run_key, kind=kind) for order in chunk]
        finish(desk, run_key, ids)
        paying.write(desk, run_key, folder / "out" / run_key)

    return start


def withdrawals(rows: int = ROWS) -> Kind:
    amounts = {f"row-{n}": Decimal(20 + n) for n in range(rows)}
    fixed = {"currency": "USDT_TRC20", "address": TRON, "customer_ref_id": "treasury"}
    sheet = [{"row_ref": ref, "amount": str(amount), **fixed} for ref, amount in amounts.items()]
    expected = {("withdrawals", ref): ("USDT_TRC20", amount) for ref, amount in amounts.items()}
    return Kind("withdrawals", "withdraw", expected, _pay("withdrawals", WITHDRAWALS.way.kind, sheet))


def codes(rows: int = ROWS) -> Kind:
    fixed = {"user_xid": "u-1", "notify_url": "http://127.0.0.1:1/"}
    sheet = [
        {"row_ref": f"row-{n}", "qrcode": build_promptpay("0812345678"), "amount": str(300 + n), **fixed}
        for n in range(rows)
    ]
    expected: dict[tuple[str, str], tuple[str | None, Decimal | None]] = {
        ("codes", f"row-{n}"): (None, None) for n in range(rows)
    }
    return Kind("codes", "submit_scan_to_pay", expected, _pay("codes", QR_CODES.way.kind, sheet))


def invoices(rows: int = ROWS) -> Kind:
    """No orders of the ledger stand behind them: `judge_results` has the last word."""
    fixed = {"currency": "USDT_TRC20", "product_name": "Consulting", "customer_ref_id": "ann"}
    sheet = [
        {"row_ref": f"row-{n}", "amount": str(amount), "payment_method": "on_chain" if n else "on_line", **fixed}
        for n, amount in enumerate(INVOICED[:rows])
    ]

    def start(desk: Desk, folder: Path) -> None:
        collect_and_write(desk, sheet_file(folder / "invoices.csv", sheet), "invoices", folder / "out" / "invoices")

    return Kind("invoices", "pay", {}, start)


def addresses(rows: int = ROWS) -> Kind:
    """An address holds nothing: `judge_results` compares them with what the service issues to the same customer."""
    assets = ("USDT_TRC20", "ETH", "BTC")
    sheet = [{"row_ref": f"row-{n}", "currency": assets[n], "customer_ref_id": "ann"} for n in range(rows)]

    def start(desk: Desk, folder: Path) -> None:
        issue_and_write(desk, sheet_file(folder / "addresses.csv", sheet), folder / "out" / "addresses")

    return Kind("addresses", "deposit_address", {}, start)


def users(rows: int = ROWS) -> Kind:
    """A card user is made once in any case: `judge_results` looks whether everybody has a link."""
    sheet = [{"user_xid": f"row-{n}", "email": f"user-{n}@example.com"} for n in range(rows)]

    def start(desk: Desk, folder: Path) -> None:
        results = provision_users(desk, sheet_file(folder / "users.csv", sheet))
        write_users(desk, results, folder / "out" / "users")

    return Kind("users", "create_card_user_with_kyc_link", {}, start)


SHEETS: Mapping[str, Callable[..., Kind]] = {
    "invoices": invoices,
    "withdrawals": withdrawals,
    "codes": codes,
    "addresses": addresses,
    "users": users,
}


def customers_pay(sandbox: RunningSandbox) -> None:
    """Customers pay the invoices that wait: one what it asks for, one less; the third never."""
    for order in sandbox.orders():
        if order["order_type"] == "pay" and order["status"] == 11 and order["amount"] in INVOICED[:2]:
            sandbox.pay_invoice(order["request_id"], None if order["amount"] == INVOICED[0] else UNDERPAID)


def judge_results(names: Sequence[str], home: Path, shown: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """Return the faults in the results of these kinds, and how many rows are not at their end yet."""
    faults: list[str] = []
    waiting = 0
    for name in names:
        if name not in SHEETS:
            continue
        file = home / "out" / name / FILES.get(name, "results.csv")
        rows: Rows = {}
        if file.exists():
            with file.open(newline="", encoding="utf-8") as opened:
                rows = {row["user_xid" if name == "users" else "row_ref"]: row for row in csv.DictReader(opened)}
        waiting += ROWS - len(rows)
        if sorted(rows) != [f"row-{n}" for n in range(ROWS)]:
            faults.append(f"{name}: the results have rows {sorted(rows)}")
        if name in GOOD:
            more, open_rows = _of_made(rows, GOOD[name], "address" if name == "addresses" else "link")
        elif name == "invoices":
            more, open_rows = _of_invoices(rows, [order for order in shown if order["order_type"] == "pay"])
        else:
            more, open_rows = _of_orders(rows, shown)
        faults += [f"{name}: {fault}" for fault in more]
        waiting += open_rows
    return faults, waiting


def _of_orders(rows: Rows, shown: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """Compare payments with the orders of the service: each result names one of them."""
    by_number = {order["order_no"]: order for order in shown}
    settled = [row for row in rows.values() if row["outcome"] == "settled"]
    lost = [row["row_ref"] for row in settled if by_number.get(row["order_no"], {}).get("status") != 99]
    faults = [f"rows {lost} are called settled, and are not"] if lost else []
    if len({row["order_no"] for row in settled}) != len(settled):
        faults.append("two rows name one order")
    return faults, len(rows) - len(settled)


def _of_invoices(rows: Rows, shown: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    by_request, waiting, faults = {order["request_id"]: order for order in shown}, 0, []
    if len(shown) != len(rows):
        faults.append(f"{len(shown)} invoices were made of {len(rows)} rows")
    for number, (ref, row) in enumerate(sorted(rows.items())):
        order = by_request.get(row["request_id"])
        paid = number < 2
        if order is None:
            faults.append(f"{ref}: the service has no such invoice")
        elif order["effects"] != paid:
            faults.append(f"{ref}: {order['effects']} effects")
        elif order["amount"] != INVOICED[number] or Decimal(row["amount"]) != INVOICED[number]:
            faults.append(f"{ref}: asked {INVOICED[number]}, shown {row['amount']}, made {order['amount']}")
        right = ("paid", "underpaid", "waiting")[number]
        if row["outcome"] != right and not (right == "waiting" and LOST in row["reason"]):
            faults.append(f"{ref}: {row['outcome']} instead of {right}: {row['reason']}")
            waiting += 1
        elif right == "waiting" and row["outcome"] == right and not (row["link"] or row["address"]):
            faults.append(f"{ref}: it says nowhere how it is paid")
    return faults, waiting


def _of_made(rows: Rows, good: Sequence[str], column: str) -> tuple[list[str], int]:
    bad = {ref: row for ref, row in rows.items() if row["outcome"] not in good}
    faults = [f"{ref}: {row['outcome']}: {row['reason']}" for ref, row in bad.items()]
    if len({row[column] for row in rows.values() if row[column]}) != len(rows):
        faults.append(f"rows have no {column} of their own")
    return faults, len(bad)
