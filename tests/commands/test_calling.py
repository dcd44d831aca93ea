"""`treasury call`: one operation at a time, money through the ledger."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

import data
from tests.commands.office import Ended, Office, one_line_error
from tests.proofs import tries
from treasury.ledger.snapshots import expect_receipt
from treasury.orders.states import State
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Client
from treasury.proving.access import ProofVerdict
from treasury.proving.proving import prove_service
from treasury.sandbox import RunningSandbox, build_promptpay

ADDRESS = "TNgLbFpL4HfQPufZeAFZqRw5ykH6LJqveH"
QUOTE = {
    "quote_mode": "source",
    "pay_currency": "USDT",
    "pay_amount": "100.00",
    "receive_currency": "EUR",
    "beneficiary_country": "DE",
    "beneficiary_bank_id": "2000800",
    "account_type": "PERSONAL",
    "beneficiary_relationship": "third",
    "clear_network": "LOCAL_PAYMENT",
    "individual_beneficiary": {
        "account_no": "DE02120300000000202051",
        "bank_name": "Musterbank",
        "address": "Ring 1",
        "full_name": "Zoe Muster",
    },
}


@pytest.fixture(scope="module")
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home that needs no Prefect."""
    return open_office(sandbox.base_url, prefect=False, PREFECT_API_URL="http://127.0.0.1:9/api")


def call(office: Office, operation: str, fields: dict[str, Any], *more: str) -> Ended:
    return office.run("call", operation, "--json", json.dumps(fields), *more)


def withdrawal(request_id: str, amount: str = "25") -> dict[str, str]:
    return {
        "request_id": request_id,
        "currency": "USDT_TRC20",
        "amount": amount,
        "customer_ref_id": "c-1",
        "address": ADDRESS,
    }


def effects(sandbox: RunningSandbox) -> dict[str, int]:
    return {order["request_id"]: order["effects"] for order in sandbox.orders()}


def test_what_reads_prints_the_whole_answer(office: Office) -> None:
    ended = call(office, "partner_balance", {"currency": "USDT"})
    assert (ended.code, ended.err) == (0, "")
    answer = json.loads(ended.out)
    assert str(answer["code"]) == "200"
    assert Decimal(answer["data"]["availableBalance"]) > 0


@pytest.mark.costly("processes at once")
def test_the_exit_code_survives_an_end_right_after_an_answer(office: Office) -> None:
    """The engine's thread may be in Python as the last line is printed; several at once make it slow to leave."""

    def ask(_: int) -> tuple[int, str]:
        ended = office.process("call", "partner_balance", "--json", '{"currency": "USDT"}')
        return ended.code, ended.err

    at_once = tries("ENDS", 3, 12)
    with ThreadPoolExecutor(at_once) as pool:
        assert set(pool.map(ask, range(at_once))) == {(0, "")}


def test_an_operation_is_found_by_its_path_and_fields_by_a_file(office: Office) -> None:
    file = office.file("fields.json", json.dumps({"currency": "USDT"}))
    ended = office.run("call", "/v1/balance/partner", "--json", f"@{file}")
    assert json.loads(ended.out)["data"]["currency"] == "USDT"


def test_what_creates_is_sent_without_asking(office: Office) -> None:
    fields = {"currency": "USDT_TRC20", "customer_ref_id": "c-1"}
    first, second = (json.loads(call(office, "deposit_address", fields).out)["data"] for _ in range(2))
    assert first["address"]
    assert first == second


def test_what_moves_money_waits_for_a_yes_and_acts_once(office: Office, sandbox: RunningSandbox) -> None:
    waiting = call(office, "withdraw", withdrawal("w-1"))
    assert waiting.code == 3
    assert "waiting for a yes" in waiting.last
    assert ADDRESS not in waiting.out
    assert "w-1" not in effects(sandbox)
    sent = call(office, "withdraw", withdrawal("w-1"), "--yes")
    assert (sent.code, sent.last) == (0, "in_progress: w-1")
    assert effects(sandbox)["w-1"] == 1
    books = sandbox.books()
    again = call(office, "withdraw", withdrawal("w-1"), "--yes")
    assert again.code == 0
    assert effects(sandbox)["w-1"] == 1
    assert sum(books["sums"].values()) == 0
    other = call(office, "withdraw", withdrawal("w-1", "26"), "--yes")
    assert other.code == 2
    assert "w-1" in one_line_error(other)
    assert effects(sandbox)["w-1"] == 1


@pytest.mark.parametrize(
    ("currency", "address", "said"),
    [
        ("USDT_TRC20", ADDRESS[:-1] + "J", "address: does not pass its checksum"),
        ("ETH", ADDRESS, "address: is no address of an Ethereum-like chain"),
        ("XRP", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", "tag: is required: without its destination tag"),
        ("USDT_TRC20", ADDRESS, None),
        ("ETH", "0xde709f2102306220921060314715629080e2fb77", None),
        ("USDT", "anything", None),
        ("TON_TEST", "anything", None),
    ],
)
def test_a_call_says_what_a_sheet_would_refuse_of_its_address(
    office: Office, currency: str, address: str, said: str | None
) -> None:
    ended = call(office, "withdraw", {**withdrawal("w-warned"), "currency": currency, "address": address})
    warnings = [line for line in ended.out.splitlines() if line.startswith("warning: ")]
    assert (ended.code, len(warnings)) == (3, said is not None), ended.out + ended.err
    assert said is None or said in warnings[0]


def test_the_service_decides_about_an_address_that_a_sheet_would_refuse(
    office: Office, sandbox: RunningSandbox
) -> None:
    sent = call(office, "withdraw", {**withdrawal("w-doubted", "27"), "address": ADDRESS[:-1] + "J"}, "--yes")
    assert (sent.code, sent.last, "warning: address: " in sent.out) == (0, "in_progress: w-doubted", True), sent.out
    assert effects(sandbox)["w-doubted"] == 1


def test_a_name_that_is_there_twice_is_refused(office: Office, sandbox: RunningSandbox) -> None:
    fields = json.dumps(withdrawal("w-twice", "27"))
    twice = fields[:-1] + ', "amount": "72"}'
    ended = office.run("call", "withdraw", "--json", twice, "--yes")
    assert (ended.code, "--json names amount more than once" in ended.err) == (2, True), ended.out + ended.err
    assert "w-twice" not in effects(sandbox)


@pytest.mark.parametrize("name", ["r\n", "r\u200b1", "r\x00", "r" * 201, " r", "r "], ids=repr)
def test_a_reference_that_no_answer_could_be_read_by_is_refused(
    office: Office, sandbox: RunningSandbox, name: str
) -> None:
    """It was sent, and stayed unknown for ever."""
    before = len(sandbox.orders())
    for operation, field, fields in (
        ("withdraw", "request_id", withdrawal(name, "27")),
        (
            "conversion_quote",
            "xid",
            {"symbol": "ETH-USDT", "amount": "5", "currency": "USDT", "side": "BUY", "xid": name},
        ),
    ):
        ended = office.run("call", operation, "--json", json.dumps(fields), "--yes")
        assert (ended.code, f"{operation}: {field}: must be" in one_line_error(ended)) == (2, True)
    assert len(sandbox.orders()) == before


def test_what_is_nested_too_deep_is_one_line_and_no_traceback(office: Office) -> None:
    deep = "[" * 100_000
    invoice = {"request_id": "p-deep", "payment_method": "on_line", "amount": "5", "currency": "USDT", "customer": deep}
    (office.home / "deep.json").write_text(deep)
    policy = office.file("deep.toml", f"a = {deep}")
    for line in (
        ("call", "payout", "--json", "@deep.json"),
        ("call", "pay", "--json", json.dumps({**invoice, "product_name": "x", "customer_ref_id": "c"})),
        ("rebalance", "--explain", "deep.json"),
        ("policy", "check", policy),
    ):
        ended = office.run(*line)
        assert (ended.code, one_line_error(ended).count("\n")) == (2, 1)


def test_an_id_names_one_thing_and_every_night_goes_on(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """A pay-in under the id of an order ended every reconciliation from then on."""
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url)
    payin = {"payment_method": "on_line", "amount": "5", "currency": "USDT", "product_name": "p"}
    payin |= {"customer_ref_id": "c"}
    assert call(office, "withdraw", withdrawal("w-1", "27"), "--yes").code == 0
    taken = call(office, "pay", {**payin, "request_id": "w-1"})
    assert (taken.code, "w-1 already stands for something else here" in taken.err) == (2, True), taken.out + taken.err
    assert call(office, "pay", {**payin, "request_id": "i-1"}).code == 0
    for more in ((), ("--yes",)):
        taken = call(office, "withdraw", withdrawal("i-1", "28"), *more)
        assert (taken.code, "i-1 already stands for something else here" in taken.err) == (2, True), taken.err
    assert call(office, "pay", {**payin, "request_id": "i-1"}).code == 4  # which the service says
    desk = office.desk()
    try:
        expect_receipt(desk.ledger, "w-1", {"currency": "USDT", "amount": "5"})  # as a ledger of before may hold it
    finally:
        desk.close()
    night = office.run("reconcile")
    assert (night.code, night.err) == (0, ""), night.out + night.err
    assert sorted(effects(sandbox)) == ["i-1", "w-1"]


def test_a_call_says_what_a_sheet_would_refuse_of_its_code(office: Office) -> None:
    code = build_promptpay("0812345678", Decimal(120))
    said = {}
    for number, (text, amount) in enumerate([(code, "120"), (code[:-1] + "?", "120"), (code, "121")]):
        fields = {"request_id": f"q-{number}", "qrcode": text, "amount": amount, "user_xid": "u-1"}
        ended = call(office, "submit_scan_to_pay", {**fields, "notify_url": "https://a.example.com"})
        said[number] = [line for line in ended.out.splitlines() if line.startswith("warning: ")]
    assert said[0] == []
    assert ["the checksum of the QR code is wrong" in line for line in said[1]] == [True]
    assert ["must be the amount of the code, 120 THB" in line for line in said[2]] == [True]


def test_a_refused_call_ends_with_4_and_says_the_code(office: Office, sandbox: RunningSandbox) -> None:
    ended = call(office, "withdraw", withdrawal("w-much", "99999999"), "--yes")
    assert (ended.code, ended.last) == (4, "unknown: w-much")  # rejected after two looks, a resend window apart
    assert '"code": "202203"' in ended.out
    assert "w-much" not in effects(sandbox)
    unknown = call(office, "query_card_user", {"user_xid": "nobody"})
    assert unknown.code == 4
    assert "404" in one_line_error(unknown)


def test_a_fiat_quote_is_confirmed_once_by_its_number(
    office: Office, sandbox: RunningSandbox, key_pair: tuple[str, str]
) -> None:
    number = json.loads(call(office, "fiat_payout_quote", {**QUOTE, "request_id": "q-1"}).out)["data"]["order_no"]
    assert "q-1" not in effects(sandbox)
    fields = {"order_no": number, "purpose_code": "01"}
    assert call(office, "create_fiat_payout", fields).code == 3
    sent = call(office, "create_fiat_payout", fields, "--yes")
    assert sent.code == 0, sent.out + sent.err
    assert effects(sandbox)["q-1"] == 1
    before = sandbox.books()["sums"]
    again = call(office, "create_fiat_payout", fields, "--yes")
    assert again.code == 0, again.out + again.err
    assert effects(sandbox)["q-1"] == 1
    assert sandbox.books()["sums"] == before
    with Client(office.account()) as client:
        shown = client.send(CATALOGUE["query_fiat_payout"](request_id="q-1")).as_order()
    assert shown.amount == Decimal(100)


def test_a_conversion_is_executed_once_by_its_quote(office: Office, sandbox: RunningSandbox) -> None:
    fields = {"symbol": "ETH-USDT", "amount": "100", "currency": "USDT", "side": "BUY", "xid": "x-1"}
    quote = json.loads(call(office, "conversion_quote", fields).out)["data"]["quoteId"]
    for _ in range(2):
        ended = call(office, "conversion_execute", {"quoteId": quote}, "--yes")
        assert ended.code == 0, ended.out + ended.err
        assert effects(sandbox)["x-1"] == 1


def test_a_conversion_by_call_has_the_fee_and_rate_of_its_quote(office: Office) -> None:
    fields = {"symbol": "ETH-USDT", "amount": "100", "currency": "USDT", "side": "BUY", "xid": "x-2"}
    quoted = json.loads(call(office, "conversion_quote", fields).out)["data"]
    assert call(office, "conversion_execute", {"quoteId": quoted["quoteId"]}, "--yes").code == 0
    desk = office.desk()
    try:
        [order] = desk.ledger.orders(reference="x-2")
    finally:
        desk.close()
    fee = (Decimal(quoted["feeAmt"]), quoted["feeCurrency"])
    assert (order.fee, order.fee_currency) == (order.told_fee, order.told_fee_currency) == fee
    assert order.rate == Decimal(quoted["rate"])


def test_a_conversion_by_call_is_asked_about_by_the_xid_of_its_quote(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox(settle_seconds=3600)
    office = open_office(sandbox.base_url, prefect=False, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert trade(office, "x-20", "ETH-USDT", "100").code == 0
    sandbox.advance(7200)
    desk = office.desk()
    try:
        [order] = desk.ledger.orders()
        assert desk.submission.ask(order).state is State.SETTLED
        proofs = {proof.name: proof for proof in prove_service(desk).proofs}
    finally:
        desk.close()
    found = proofs["conversion_found_by"]
    assert (found.verdict, found.proposed) == (ProofVerdict.PROVEN, None)


@pytest.fixture
def limited(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home under the sample policy."""
    office = open_office(sandbox.base_url, prefect=False, PREFECT_API_URL="http://127.0.0.1:9/api")
    adopted = office.run("policy", "adopt", data.path("treasury_policy.toml"), "--by", "Owner")
    assert adopted.code == 0, adopted.err
    return office


def trade(office: Office, xid: str, symbol: str, amount: str) -> Ended:
    """Ask for the quote of a purchase, and execute it."""
    fields = {"symbol": symbol, "amount": amount, "currency": "USDT", "side": "BUY", "xid": xid}
    quote = json.loads(call(office, "conversion_quote", fields).out)["data"]["quoteId"]
    return call(office, "conversion_execute", {"quoteId": quote}, "--yes")


def test_a_conversion_by_call_is_sent_inside_the_limits_of_the_sample_policy(
    limited: Office, sandbox: RunningSandbox
) -> None:
    made = trade(limited, "x-10", "ETH-USDT", "100")
    assert made.code == 0, made.out + made.err
    assert effects(sandbox)["x-10"] == 1
    over = trade(limited, "x-11", "ETH-USDT", "100001")
    assert (over.code, "over the policy's limit of 100000" in over.err) == (2, True)
    assert [trade(limited, f"x-1{each}", "ETH-USDT", f"9994{each}").code for each in (2, 3)] == [0, 0]
    turned = trade(limited, "x-14", "ETH-USDT", "99900")
    assert (turned.code, "max_turnover, 250000" in turned.err) == (2, True)
    pair = trade(limited, "x-15", "TRX-USDT", "10")
    assert (pair.code, "TRX-USDT is not a pair that the policy allows" in pair.err) == (2, True)
    assert not {"x-11", "x-14", "x-15"} & effects(sandbox).keys()
    unknown = call(limited, "conversion_execute", {"quoteId": "elsewhere"}, "--yes")
    assert (unknown.code, "max_per_payout" in unknown.err) == (2, False)
    assert "ask for its quote with treasury call conversion_quote" in unknown.err


def test_a_fiat_payout_by_call_is_sent_inside_the_limits_of_the_sample_policy(
    limited: Office, sandbox: RunningSandbox
) -> None:
    def confirmed(request_id: str, amount: str) -> Ended:
        asked = call(limited, "fiat_payout_quote", {**QUOTE, "request_id": request_id, "pay_amount": amount})
        number = json.loads(asked.out)["data"]["order_no"]
        return call(limited, "create_fiat_payout", {"order_no": number, "purpose_code": "01"}, "--yes")

    made = confirmed("q-10", "101")
    assert made.code == 0, made.out + made.err
    assert effects(sandbox)["q-10"] == 1
    over = confirmed("q-11", "5001")
    assert (over.code, "over the policy's limit of 5000" in over.err) == (2, True)
    assert "q-11" not in effects(sandbox)
    unknown = call(limited, "create_fiat_payout", {"order_no": "elsewhere", "purpose_code": "01"}, "--yes")
    assert (unknown.code, "treasury call fiat_payout_quote" in unknown.err) == (2, True)


def test_a_payout_by_call_acts_once(office: Office, sandbox: RunningSandbox) -> None:
    fields = {
        "request_id": "p-1",
        "payout_method": "bank_transfer",
        "account_no": "12345670001",
        "account_name": "Siti Rahma",
        "country": "ID",
        "bank_code": "1000120",
        "settle_currency": "IDR",
        "amount": 50,
        "currency": "USDT",
        "phone": "6281234567",
        "email": "siti@example.com",
    }
    ended = call(office, "payout", fields, "--yes")
    assert ended.code == 0, ended.out + ended.err
    assert effects(sandbox)["p-1"] == 1
    assert "siti@example.com" not in ended.out


def test_a_service_that_is_away_is_one_line_and_no_traceback(open_office: Callable[..., Office]) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    sent = call(office, "withdraw", withdrawal("w-1"), "--yes")
    assert (sent.code, sent.last) == (4, "not_sent: w-1")
    read = call(office, "partner_balance", {"currency": "USDT"})
    assert read.code != 0
    assert "no connection" in one_line_error(read)


def test_what_is_said_of_a_call_is_about_a_call(open_office: Callable[..., Office], sandbox: RunningSandbox) -> None:
    """It has no sheet with a `duplicate_ok`, and no run that anybody could start."""
    office = open_office(sandbox.base_url, prefect=False, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert call(office, "withdraw", withdrawal("once", "26"), "--yes").code == 0
    held = call(office, "withdraw", withdrawal("twice", "26"), "--yes").out
    assert '"outcome": "held"' in held, held
    assert "and send the same call again" in held, held
    office.run("stop", "--by", "Ada Example", "--why", "a test")
    stopped = call(office, "withdraw", withdrawal("later", "27"), "--yes").out
    assert "send the same call again: it is sent then" in stopped, stopped
    assert [word for word in ("duplicate_ok", "run again") if word in held + stopped] == []
