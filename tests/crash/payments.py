"""Kinds of payments, each as the engine is given it by a real run: what the crash and matrix tests send."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.engine import paying
from tests.ibans import german_iban
from treasury.call import calls
from treasury.orders.states import State
from treasury.payments.desk import Desk
from treasury.payments.execution import follow_orders, open_orders, send_orders
from treasury.payments.governing import governing
from treasury.planning.trades import Side, Trade, TradePlan
from treasury.provider.client import Client
from treasury.provider.fiat_payouts import CreateFiatPayout, FiatPayoutQuote
from treasury.provider.operation import Operation
from treasury.provider.orders import Withdraw
from treasury.provider.pacing import Pace, Retry
from treasury.provider.scan_to_pay import SubmitScanToPay
from treasury.rebalance import rebalancing, trade_orders
from treasury.rebalance.consent import say_yes
from treasury.sandbox import build_promptpay

PARTNER_ID = "900001"
ROWS = 3
PASSES = 6
"""How often one start asks about what is open."""

DIRECT = {"route": "direct", "currency": "USDT_TRC20", "settle_currency": "IDR", "payout_method": "bank_transfer"}
DIRECT |= {"account_name": "Example Person", "country": "ID", "bank_code": "1000120"}
DIRECT |= {"phone": "0812000", "email": "p@example.com"}
QUOTED = {"route": "quoted", "quote_mode": "source", "pay_currency": "USDT", "receive_currency": "EUR"}
QUOTED |= {"beneficiary_country": "DE", "beneficiary_bank_id": "2000800", "account_type": "PERSONAL"}
QUOTED |= {"beneficiary_relationship": "third", "clear_network": "LOCAL_PAYMENT", "bank_name": "Deutsche Bank"}
QUOTED |= {"address": "Ring 1", "full_name": "Eva Muster", "purpose_code": "30"}


@dataclass(frozen=True)
class Kind:
    """One kind of payment: its operation, its rows as the ledger must hold them, and one start of its run."""

    name: str
    operation: str
    rows: Mapping[tuple[str, str], tuple[str | None, Decimal | None]]
    """(run key, row reference) -> currency and amount as we ask them; None where only the service tells."""
    start: Callable[[Desk, Path], None]


def hurry(desk: Desk) -> None:
    """Pauses after a 429 are short, so that a test does not take minutes."""
    pace = Pace(desk.client._connections, desk.clock, retry=Retry(8, 0.01, 0.05), min_rate=50)
    desk.client.pace = pace


def finish(desk: Desk, run_key: str, ids: list[int]) -> None:
    """Send, ask, and send what was proven absent, a few times; as one start, which holds its run throughout."""
    with desk.hold(run_key):
        send_orders(desk, run_key, ids)
        for _ in range(PASSES):
            if follow_orders(desk, run_key, ids, 0.001) == 0:
                break
            desk.clock.sleep(desk.settings.resend_after_seconds)
        send_orders(desk, run_key, ids)  # what was refused for a reason that passed


def sheet_file(file: Path, rows: list[dict[str, str]]) -> Path:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows(rows)
    return file


def _pay_sheet(run_key: str, rows: list[dict[str, str]]) -> Callable[[Desk, Path], None]:
    def start(desk: Desk, folder: Path) -> None:
        file = sheet_file(folder / f"{run_key}.csv", rows)
        ids = [order for chunk in paying.commit(desk, file, run_key) for order in chunk]
        finish(desk, run_key, ids)

    return start


def _call_each(operations: Sequence[Operation[Any]]) -> Callable[[Desk, Path], None]:
    def start(desk: Desk, _: Path) -> None:
        for operation in operations:
            calls.submit_operation(desk, operation)
            run_key = calls.run_key_of_call(operation)
            with desk.hold(run_key):
                finish(desk, run_key, open_orders(desk, run_key))

    return start


def _trade_each(run_key: str, plan: TradePlan) -> Callable[[Desk, Path], None]:
    def start(desk: Desk, _: Path) -> None:
        say_yes(desk, governing(desk).version)  # as whoever starts it at a terminal
        rebalancing.keep_plan(desk, run_key, plan)
        finish(desk, run_key, trade_orders.commit_trades(desk, run_key, plan))

    return start


def payout(rows: int = ROWS) -> Kind:
    amounts = {f"row-{n}": Decimal(10 + n) for n in range(rows)}
    sheet = [
        {"row_ref": ref, **DIRECT, "amount": str(amount), "account_no": f"1234567{n:04}"}
        for n, (ref, amount) in enumerate(amounts.items(), 100)
    ]
    expected = {("pay", ref): ("USDT_TRC20", amount) for ref, amount in amounts.items()}
    return Kind("payout", "payout", expected, _pay_sheet("pay", sheet))


def fiat_payout(rows: int = ROWS) -> Kind:
    amounts = {f"row-{n}": Decimal(100 + n) for n in range(rows)}
    sheet = [
        {"row_ref": ref, **QUOTED, "pay_amount": str(amount), "account_no": german_iban(n)}
        for n, (ref, amount) in enumerate(amounts.items(), 100)
    ]
    expected = {("fiat", ref): ("USDT", amount) for ref, amount in amounts.items()}
    return Kind("fiat_payout", "create_fiat_payout", expected, _pay_sheet("fiat", sheet))


def withdraw(rows: int = ROWS) -> Kind:
    fields = {"currency": "USDT_TRC20", "address": "TXYZ1111", "customer_ref_id": "c-1"}
    asked = [Withdraw(request_id=f"w-{n}", amount=str(20 + n), **fields) for n in range(rows)]
    expected = {(f"call-w-{n}", f"w-{n}"): ("USDT_TRC20", Decimal(20 + n)) for n in range(rows)}
    return Kind("withdraw", "withdraw", expected, _call_each(asked))


def scan_to_pay(rows: int = ROWS) -> Kind:
    fields = {"user_xid": "u-1", "qrcode": build_promptpay("0812345678"), "notify_url": "http://127.0.0.1:1/"}
    asked = [SubmitScanToPay(request_id=f"s-{n}", amount=str(300 + n), **fields) for n in range(rows)]
    expected: dict[tuple[str, str], tuple[str | None, Decimal | None]] = {
        (f"call-s-{n}", f"s-{n}"): (None, None) for n in range(rows)
    }
    return Kind("scan_to_pay", "submit_scan_to_pay", expected, _call_each(asked))


def conversion(rows: int = ROWS) -> Kind:
    spent = {"ETH": "0.5", "BTC": "0.01", "TRX": "500"}
    trades = [
        Trade(
            asset=asset,
            side=Side.SELL,
            symbol=f"{asset}-USDT",
            currency=asset,
            amount=Decimal(amount),
            receive_currency="USDT",
            expected_receive=Decimal(1),
            min_receive=Decimal("0.00000001"),
            max_fee=Decimal(10_000),
            rate=Decimal(1),
            min_rate=None,
            max_rate=None,
        )
        for asset, amount in list(spent.items())[:rows]
    ]
    plan = TradePlan("test", tuple(trades), ())
    expected = {("trade", f"sell-{trade.asset}"): (trade.currency, trade.amount) for trade in trades}
    return Kind("conversion", "conversion_execute", expected, _trade_each("trade", plan))


def ask_quotes(client: Client, rows: int = ROWS) -> list[str]:
    """Ask for quotes as another program would; their order numbers."""
    party = {"account_no": "DE89370400", "bank_name": "Deutsche Bank", "address": "Ring 1", "full_name": "Eva Muster"}
    left_out = ("route", *party, "purpose_code")
    fields: dict[str, Any] = {name: value for name, value in QUOTED.items() if name not in left_out}
    fields |= {"individual_beneficiary": party}
    asked = [FiatPayoutQuote(request_id=f"q-{n}", pay_amount=str(50 + n), **fields) for n in range(rows)]
    return [str(client.send(quote).order_no) for quote in asked]


def confirm_each(numbers: Sequence[str]) -> Kind:
    """Quotes that were asked elsewhere, confirmed one by one as `treasury call` does."""
    asked = [CreateFiatPayout(order_no=number, purpose_code="30") for number in numbers]
    expected: dict[tuple[str, str], tuple[str | None, Decimal | None]] = {
        (f"call-{number}", number): (None, None) for number in numbers
    }
    return Kind("confirmation", "create_fiat_payout", expected, _call_each(asked))


KINDS: Mapping[str, Callable[..., Kind]] = {
    "payout": payout,
    "fiat_payout": fiat_payout,
    "withdraw": withdraw,
    "scan_to_pay": scan_to_pay,
    "conversion": conversion,
}
"""Kinds that stand for themselves; `confirm_each` needs quotes first."""


def added(rows: int = ROWS) -> Kind:
    """A run to which its last row is added, once the others were sent: one start does both, as a person would."""
    amounts = {f"row-{n}": Decimal(40 + n) for n in range(rows)}
    sheet = [
        {"row_ref": ref, **DIRECT, "amount": str(amount), "account_no": f"1234567{n:04}"}
        for n, (ref, amount) in enumerate(amounts.items(), 200)
    ]

    def start(desk: Desk, folder: Path) -> None:
        known = {order.row_ref for order in desk.ledger.orders(run_key="add")}
        begun = sheet_file(folder / "begun.csv", [row for row in sheet if row["row_ref"] in known] or sheet[:-1])
        whole = sheet_file(folder / "whole.csv", sheet)
        with desk.hold("add"):
            for ids in paying.commit(desk, begun, "add"):
                send_orders(desk, "add", ids)
            ids = [order for chunk in paying.commit(desk, whole, "add", add=True) for order in chunk]
            finish(desk, "add", ids)

    expected = {("add", ref): ("USDT_TRC20", amount) for ref, amount in amounts.items()}
    return Kind("added", "payout", expected, start)


def replaced(rows: int = ROWS) -> Kind:
    """A run whose rows all fail, and one that pays them instead, to other accounts."""
    amounts = {f"row-{n}": Decimal(70 + n) for n in range(rows)}

    def sheet_of(account: str, replaces: Mapping[str, str]) -> list[dict[str, str]]:
        return [
            {"row_ref": ref, **DIRECT, "amount": str(amount), "account_no": f"1234{n}{account}"}
            | {"replaces": replaces.get(ref, "")}
            for n, (ref, amount) in enumerate(amounts.items(), 300)
        ]

    def start(desk: Desk, folder: Path) -> None:
        _pay_sheet("fails", sheet_of("0044", {}))(desk, folder)
        failed = {
            order.row_ref: order.request_id
            for order in desk.ledger.orders(run_key="fails")
            if order.state is State.FAILED
        }
        if failed.keys() == amounts.keys():
            _pay_sheet("again", sheet_of("0001", failed))(desk, folder)

    expected = {(run, ref): ("USDT_TRC20", amount) for run in ("fails", "again") for ref, amount in amounts.items()}
    return Kind("replaced", "payout", expected, start)


LATER: Mapping[str, Callable[..., Kind]] = {"added": added, "replaced": replaced}
"""Rows paid after a run began, or failed: those that are added, and replacements."""


def make_kind(name: str, numbers: Sequence[str] = (), rows: int = ROWS) -> Kind:
    """A kind by its name."""
    return confirm_each(numbers) if name == "confirmation" else {**KINDS, **LATER}[name](rows)
