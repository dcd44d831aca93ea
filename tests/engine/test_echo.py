"""A service that says all it knows about a payee, wherever it may say something: none of it stays with us."""

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from openpyxl.utils import get_column_letter
from sqlalchemy import create_engine

from tests.engine.answers import CREATE, FIAT_QUERY, QUOTE, ok
from tests.engine.hostile import answer
from tests.engine.planned import PlannedService
from tests.engine.runs import night, pay
from tests.moved_clock import clock_of
from treasury.call import calls
from treasury.cards import provisioning
from treasury.errors import Refused
from treasury.ledger import schema
from treasury.ledger.replacements import KEPT_DAYS, forget_old_contents
from treasury.ledger.seen_card_users import saw_card_user
from treasury.masking import normalise
from treasury.payments.desk import Desk
from treasury.provider.card_users import CardUserRecord
from treasury.provider.catalogue import CATALOGUE
from treasury.reports.results import COLUMNS

OpenDesk = Callable[..., Desk]
PAYOUT, QUERY = "/v1/order/payout", "/v1/order/query"

DIRECT = {
    "account_no": "12345670001998",
    "account_name": "Wilhelmina Featherstonehaugh",
    "phone": "+62 812 7777 4711",
    "email": "w.featherstonehaugh@mailbox.example",
}
QUOTED = {
    "account_no": "DE02 1203 0000 0000 2020 51",
    "address": "Kastanienallee 77, Entenhausen",
    "full_name": "Bartholomäus Quietschbach",
}
CARD_USER = {"email": "zebulon@cards.example", "user_name": "Zebulon Quibblethorpe"}

SECRETS = (
    "12345670001998",
    "wilhelmina",
    "featherstonehaugh",
    "628127777471",
    "mailbox",
    "de02120300000000202051",
    "02120300000000",
    "kastanienallee",
    "entenhausen",
    "bartholomaus",
    "quietschbach",
    "zebulon",
    "quibblethorpe",
)
"""Parts of the values that must not be found anywhere, in letters and digits alone."""


def said(values: Iterable[str]) -> str:
    """Each value in a form of its own."""
    first, *others = values
    forms = [f"account {first} of", *(f"{value.upper()};" for value in others), "-".join(first), " ".join(first[::1])]
    return " ".join(forms)


DIRECT_SAID, QUOTED_SAID, USER_SAID = said(DIRECT.values()), said(QUOTED.values()), said(CARD_USER.values())


def sheet(folder: Path) -> Path:
    header = "row_ref,route,amount,currency,settle_currency,payout_method,country,bank_code," + ",".join(DIRECT)
    lines = [
        f"d{number},direct,10.00,USDT_TRC20,IDR,bank_transfer,ID,1000120," + ",".join(DIRECT.values())
        for number in range(6)
    ]
    lines = [line.replace(",10.00,", f",1{number}.00,") for number, line in enumerate(lines)]
    file = folder / "direct.csv"
    file.write_text("\n".join([header, *lines]) + "\n")
    return file


def quoted_sheet(folder: Path) -> Path:
    values = {
        "row_ref": "q1",
        "route": "quoted",
        "quote_mode": "source",
        "pay_currency": "USDT",
        "pay_amount": "10.00",
        "receive_currency": "EUR",
        "beneficiary_country": "DE",
        "beneficiary_bank_id": "2000800",
        "account_type": "PERSONAL",
        "beneficiary_relationship": "third",
        "clear_network": "SWIFT",
        "bank_name": "Musterbank",
        "purpose_code": "22",
        **QUOTED,
    }
    file = folder / "quoted.csv"
    file.write_text(",".join(values) + "\n" + ",".join(f'"{value}"' for value in values.values()) + "\n")
    return file


def direct_answers() -> Callable[[Mapping[str, Any]], Any]:
    """Six rows, each answered in another way that has room for words."""

    def submitted(body: Mapping[str, Any]) -> Any:
        place = int(str(body["amount"])[1])
        shown = {"order_amount": body["amount"], "currency": body["currency"]}
        return (
            answer(body, **shown, status=11),
            (400, {"code": 202206, "message": DIRECT_SAID}),
            (200, {"code": 909090, "message": DIRECT_SAID}),
            (200, {"code": DIRECT["account_no"], "message": DIRECT_SAID}),
            answer(body, **shown, status=44, reason=DIRECT_SAID),
            (200, {"code": 200, "message": DIRECT_SAID, "data": {"order_amount": DIRECT_SAID}}),
        )[place]

    return submitted


def direct_question(body: Mapping[str, Any]) -> Any:
    if body.get("order_no") == "again":
        return 200, {"code": 909090, "message": DIRECT_SAID}
    details = {"txnHash": DIRECT["account_no"], "networkFee": DIRECT_SAID, "beneficiary": DIRECT}
    more = {"payee": DIRECT_SAID, DIRECT["account_no"]: DIRECT["account_name"], "order_type": DIRECT["account_name"]}
    return answer(
        body,
        order_amount=None,
        status=44,
        reason=DIRECT_SAID,
        metadata=details,
        finish_time=DIRECT["account_no"],
        **more,
    )


def quoted_answers(service: PlannedService) -> None:
    expired = {"pay_amount": "10.00", "pay_currency": "USDT", "receive_amount": "9.00", "receive_currency": "EUR"}
    service.plan(
        QUOTE,
        (500, {"code": 909090, "message": QUOTED_SAID}),
        ok(order_no="Q-1", **expired, expire_time=1, transaction_time=2),
        ok(order_no="Q-2", **expired),
    )
    service.plan(CREATE, (500, {"code": 909090, "message": QUOTED_SAID}))
    service.plan(FIAT_QUERY, quoted_question(service))


def quoted_question(service: PlannedService) -> Callable[[Mapping[str, Any]], Any]:
    """A quote until one was confirmed, then a payment that failed; both in many words."""

    def shown(body: Mapping[str, Any]) -> Any:
        status = 44 if service.sent_to(CREATE) else 11
        return ok(
            order_no="Q-2", request_id=body["request_id"], status=status, failure_reason=QUOTED_SAID, payee=QUOTED_SAID
        )

    return shown


def without_payees(results: str) -> str:
    """Results without the column of whom a row pays, which is the sheet's own word and not the service's."""
    rows = csv.DictReader(results.splitlines())
    return "\n".join(",".join(value for name, value in row.items() if name != "payee_name") for row in rows)


def without_payee_cells(part: str) -> str:
    """Return the same of a part of their workbook."""
    column = get_column_letter(COLUMNS.index("payee_name") + 1)
    return re.sub(rf'<c r="{column}[0-9]+".*?</c>', "", part)


OUR_SHEETS = ("direct.csv", "quoted.csv", "users.csv", "ledger.key", "remaining.csv", "remaining.xlsx")
"""Files that hold personal values by design: the sheets, what remains of them, and the key."""


def forget_contents(desk: Desk) -> None:
    """Forget what payments that ended unpaid held, as a night does 35 days later."""
    clock_of(desk).move((KEPT_DAYS + 1) * 86_400)
    forget_old_contents(desk.ledger)


CLEANED: Mapping[str, Callable[[str], str]] = {
    "results.xlsx": without_payee_cells,
    "card_users.xlsx": lambda text: text.replace(f"<t>{CARD_USER['email']}</t>", ""),
}


def everything(folder: Path, ledger_url: str) -> dict[str, str]:
    """Everything that was kept: files, each part of the workbook, SQLite with its log, every table of the ledger."""
    kept = {}
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in OUR_SHEETS:
            kept[file.name] = file.read_bytes().decode("utf-8", "replace")
        if file.name == "results.csv":
            kept[file.name] = without_payees(kept[file.name])
        if file.name == "card_users.csv":  # it says whom each row is about by the sheet's own e-mail
            kept[file.name] = kept[file.name].replace(f",{CARD_USER['email']},", ",,")
        if file.suffix == ".xlsx" and file.name not in OUR_SHEETS:
            with zipfile.ZipFile(file) as parts:
                cleaned = CLEANED.get(file.name, str)
                kept |= {
                    f"{file.name}/{name}": cleaned(parts.read(name).decode("utf-8", "replace"))
                    for name in parts.namelist()
                }
    engine = create_engine(ledger_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        for table in schema.metadata.sorted_tables:
            kept[f"table {table.name}"] = "\n".join(str(tuple(row)) for row in connection.execute(table.select()))
    engine.dispose()
    return kept


def test_nothing_personal_that_the_service_says_is_kept_or_shown(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path, ledger_url: str
) -> None:
    desk = open_desk(service.base_url)
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, direct_answers())
    service.plan(QUERY, (200, {"code": 909090, "message": DIRECT_SAID}))
    quoted_answers(service)
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        pay(desk, sheet(tmp_path), tmp_path / "out", run_key="direct", seconds=0)
        pay(desk, quoted_sheet(tmp_path), tmp_path / "out-quoted", run_key="quoted", seconds=0)
        night(desk, tmp_path / "night-1", files=True)
        service.plan(QUERY, direct_question)
        night(desk, tmp_path / "night-2", files=True)
        assert all(order.state.is_final for order in desk.ledger.orders(run_key="quoted"))
        forget_contents(desk)
        assert any(order.payload is None for order in desk.ledger.orders(run_key="direct"))
        night(desk, tmp_path / "night-3", files=True)
        service.plan(QUERY, (403, {"code": 909090, "message": DIRECT_SAID}))
        service.plan(FIAT_QUERY, (403, {"code": 909090, "message": QUOTED_SAID}))
        night(desk, tmp_path / "night-4", files=True)
        provision(desk, service, tmp_path)
        call(desk, service, printed)
    desk.close()
    kept = everything(tmp_path, ledger_url) | {"the terminal": printed.getvalue()}
    assert len(kept) > 20
    for name, text in kept.items():
        flat = normalise(text) if not name.startswith("ledger.db") else text.casefold()
        assert [secret for secret in SECRETS if secret in flat] == [], name
    assert "***" in kept["results.csv"]


def provision(desk: Desk, service: PlannedService, folder: Path) -> None:
    """A card user whose creation is refused in many words."""
    file = folder / "users.csv"
    file.write_text(f"user_xid,email,user_name\nu-1,{CARD_USER['email']},{CARD_USER['user_name']}\n")
    service.plan("/v1/carduser/query", (404, {"code": 404, "message": "no"}))
    service.plan("/v1/carduser/create-with-kyc-link", (400, {"code": 909090, "message": USER_SAID}))
    provisioning.write_users(desk, provisioning.provision_users(desk, file), folder / "users")
    service.plan("/v1/carduser/query", (200, {"code": 200, "data": {"user_xid": "u-1"}}))
    service.plan("/v1/carduser/kyc-link", (400, {"code": 909090, "message": USER_SAID}))
    provisioning.write_users(desk, provisioning.provision_users(desk, file), folder / "users-2")
    saw_card_user(desk.ledger, "u-1", CardUserRecord())
    service.plan("/v1/carduser/query", (400, {"code": 909090, "message": USER_SAID}))
    night(desk, folder / "night-5", files=True)


def call(desk: Desk, service: PlannedService, printed: io.StringIO) -> None:
    """One payout and one look-up by hand; their errors are printed."""
    fields = {**DIRECT, "payout_method": "bank_transfer", "country": "ID", "bank_code": "1", "settle_currency": "IDR"}
    operation = CATALOGUE["payout"](**fields, request_id="by-hand", amount="5", currency="USDT_TRC20")
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, (400, {"code": 400, "message": DIRECT_SAID}))
    order = calls.submit_operation(desk, operation)
    print(order, order.reason, file=printed)
    service.plan("/v1/order/verifyDepositAddress", (400, {"code": 909090, "message": f"{DIRECT['account_no']} wrong"}))
    with pytest.raises(Refused) as caught:
        calls.send_operation(desk, CATALOGUE["verify_deposit_address"](currency="USDT", address=DIRECT["account_no"]))
    print(caught.value, file=printed)
