"""Each switch of `Behaviour`, both ways, over real HTTP; the books balance whatever it says."""

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from tests.listening import Listening
from tests.sandbox.builders import (
    PRIVATE,
    START,
    client_of,
    convert,
    eventually,
    fiat_quote,
    partner_total,
    pay,
    payout,
    scan,
    settings,
    withdraw,
)
from treasury.errors import InputError, NotTrusted
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import load_private_key, load_public_key, sign, verify
from treasury.sandbox import Behaviour, RunningSandbox, SandboxClock, read_switches, running_sandbox
from treasury.sandbox.answers import java_text
from treasury.sandbox.behaviour import allowed, default_of

KEY = load_private_key(PRIVATE)
Fields = dict[str, Any]


class Teller:
    """Sends bodies as they are, signed by these rules, and keeps to one sandbox."""

    def __init__(self, sandbox: RunningSandbox, rules: ServiceRules = ServiceRules()) -> None:
        self.sandbox = sandbox
        self.rules = rules

    def post(self, path: str, fields: Fields, **common: Any) -> httpx.Response:
        """One request; common parameters may be replaced."""
        body = {
            **fields,
            "partner_id": "900001",
            "sign_type": "RSA",
            "timestamp": str(int(time.time() * 1000)),
            "nonce": uuid.uuid4().hex,
            **common,
        }
        signed = {**body, "sign": sign(body, KEY, self.rules)}
        return httpx.post(self.sandbox.base_url + path, json=signed)

    def ask(self, path: str, fields: Fields, **common: Any) -> Fields:
        """The envelope of an answer, its code as text."""
        answer: Fields = self.post(path, fields, **common).json()
        return answer | {"code": str(answer.get("code"))}

    def data(self, path: str, fields: Fields) -> Fields:
        """The data of an answer that must be a success."""
        answer = self.ask(path, fields)
        assert answer["code"] == "200", answer
        data: Fields = answer["data"]
        return data

    def query(self, request_id: str) -> Fields:
        """Return what the transaction query answers."""
        return self.ask("/v1/order/query", {"request_id": request_id})

    def balance(self, **common: Any) -> str:
        """The code that the query of a balance is answered with."""
        return str(self.ask("/v1/balance/partner", {"currency": "USDT"}, **common)["code"])

    def quote(self, xid: str, **changed: Any) -> Fields:
        """A conversion quote."""
        return self.data("/v1/conversion/quote", {**convert(xid).body(), **changed})

    def convert(self, xid: str, **changed: Any) -> tuple[Fields, str]:
        """A conversion quote that is executed at once, and the order number that the execution answers."""
        quoted = self.quote(xid, **changed)
        done = self.data("/v1/conversion/execute", {"quoteId": quoted["quoteId"]})
        return quoted, str(done["orderNo"])

    def fiat(self, request_id: str, **changed: Any) -> Fields:
        """A fiat quote that is confirmed at once; the quote's data."""
        quoted = self.data("/v1/fiatpayout/payouts/quote", fiat_quote(request_id, **changed).body())
        confirmation = {"order_no": quoted["order_no"], "purpose_code": "30"}
        self.data("/v1/fiatpayout/payouts/create", confirmation)
        return quoted


@contextmanager
def behaving(rules: ServiceRules = ServiceRules(), settle: float = 0, **switches: Any) -> Iterator[Teller]:
    """A sandbox with these switches; when it ends, its books must balance."""
    behaviour = Behaviour(**switches)
    with running_sandbox(settings(settle_seconds=settle, behaviour=behaviour), SandboxClock(start=START)) as sandbox:
        yield Teller(sandbox, rules)
        sandbox.advance(1000)
        assert set(sandbox.books()["sums"].values()) == {Decimal(0)}


def spent(teller: Teller, currency: str) -> Decimal:
    """Return what the partner has less of than at the start, once everything has settled."""
    teller.sandbox.advance(100)
    opening: Decimal = settings().balances[currency]
    return opening - partner_total(teller.sandbox)[currency]


def arrived(teller: Teller, account: str, currency: str) -> Decimal:
    """Return what stands on another's account."""
    balance: Decimal = teller.sandbox.books()["balances"][account].get(currency, Decimal(0))
    return balance


# The gate


def test_the_hash_is_what_requests_must_be_and_notifications_are_signed_with() -> None:
    bodies: list[bytes] = []

    def keep(_: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        bodies.append(body)
        return 200, b"", {}

    receiver = Listening(keep)
    for hashed, other in (("SHA256", "SHA1"), ("SHA1", "SHA256")):
        with behaving(ServiceRules(hash=hashed), hash=hashed) as teller:
            assert teller.balance() == "200"
            assert Teller(teller.sandbox, ServiceRules(hash=other)).balance() == "406"
            fields = withdraw("w", notify_url=f"{receiver.base_url}/hook").body()
            teller.data("/v1/order/withdraw", fields)
            teller.sandbox.advance(1)
            eventually(lambda: bool(bodies))
            notice, key = json.loads(bodies.pop()), load_public_key(teller.sandbox.platform_key)
            verify(notice, key, ServiceRules(hash=hashed))
            with pytest.raises(NotTrusted):
                verify(notice, key, ServiceRules(hash=other))
    receiver.close()


@pytest.mark.parametrize(
    ("unit", "seconds", "milliseconds"), [("any", "200", "200"), ("s", "200", "412"), ("ms", "412", "200")]
)
def test_a_timestamp_in_the_other_unit_is_412(unit: str, seconds: str, milliseconds: str) -> None:
    with behaving(timestamp_unit=unit) as teller:
        assert teller.balance(timestamp=str(int(time.time()))) == seconds
        assert teller.balance(timestamp=str(int(time.time() * 1000))) == milliseconds


def test_the_sign_type_is_the_one_that_is_set() -> None:
    for own, other in (("RSA", "RSA2"), ("RSA2", "RSA")):
        with behaving(sign_type=own) as teller:
            assert (teller.balance(sign_type=own), teller.balance(sign_type=other)) == ("200", "406")


@pytest.mark.parametrize(
    ("reads", "dropped", "signed"), [(None, "200", "200"), (True, "200", "406"), (False, "406", "200")]
)
def test_the_text_null_is_dropped_or_signed(reads: bool | None, dropped: str, signed: str) -> None:
    with behaving(null_text_is_blank=reads) as teller:
        fields = {"currency": "USDT", "tag": "null"}
        for blank, code in ((True, dropped), (False, signed)):
            client = Teller(teller.sandbox, ServiceRules(null_text_is_blank=blank))
            assert client.ask("/v1/balance/partner", fields)["code"] == code


def test_nonce_and_time_need_not_be_looked_at() -> None:
    for checked, code in ((True, "412"), (False, "200")):
        with behaving(nonce_and_time_checked=checked) as teller:
            assert teller.balance(nonce="n-1") == "200"
            assert {teller.balance(nonce="n-1"), teller.balance(nonce="n-2", timestamp="12")} == {code}
            assert teller.balance(nonce="n-3", partner_id="1") == "401"


# What may be refused beyond the document


@pytest.mark.parametrize(("case", "upper", "lower"), [("any", 200, 200), ("upper", 200, 400), ("lower", 400, 200)])
def test_the_other_letter_case_of_a_side_is_400(case: str, upper: int, lower: int) -> None:
    with behaving(side_case=case) as teller:
        for side, status in (("BUY", upper), ("buy", lower)):
            answer = teller.post("/v1/conversion/rate", {"symbol": "ETH-USDT", "side": side})
            assert (answer.status_code, "side: " in answer.text) == (status, status == 400)
            quoted = teller.post("/v1/conversion/quote", {**convert(f"x-{side}").body(), "side": side})
            assert quoted.status_code == status


def test_both_amounts_of_a_quote_may_be_refused() -> None:
    path, both = "/v1/fiatpayout/payouts/quote", {"receive_amount": "9"}
    for taken in (True, False):
        with behaving(both_quote_amounts=taken) as teller:
            answer = teller.post(path, {**fiat_quote("q-1").body(), **both})
            assert (answer.status_code, "receive_amount: " in answer.text) == ((200, False) if taken else (400, True))
            dest = fiat_quote("q-2", quote_mode="dest", pay_amount=None, receive_amount="50").body()
            answer = teller.post(path, dest | {"pay_amount": "9"})
            assert (answer.status_code, "pay_amount: " in answer.text) == ((200, False) if taken else (400, True))
            assert teller.post(path, fiat_quote("q-3").body()).status_code == 200


# How answers are written


def test_a_documented_code_may_be_another() -> None:
    too_much = withdraw("w-1", amount="1000000").body()
    for codes, code in (({}, "202203"), ({"202203": "301001"}, "301001"), ({202203: "NO_FUNDS"}, "NO_FUNDS")):
        with behaving(refusal_codes=codes) as teller:
            assert teller.ask("/v1/order/withdraw", too_much)["code"] == code
            assert teller.query("nobody")["code"] == "7000"
            assert not teller.sandbox.orders()


def test_statuses_are_shown_as_others_and_kept_as_they_are() -> None:
    bodies: list[Fields] = []

    def keep(_: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        bodies.append(json.loads(body))
        return 200, b"", {}

    receiver = Listening(keep)
    for statuses, shown in (({}, [22, 44, 44]), ({44: 45, 22: 23}, [23, 45, 45])):
        bodies.clear()
        with behaving(settle=3, statuses=statuses) as teller:
            fields = withdraw("w-1", address="TXYZ0044", notify_url=f"{receiver.base_url}/hook").body()
            seen = [teller.data("/v1/order/withdraw", fields)["status"]]
            teller.sandbox.advance(3)
            seen.append(teller.query("w-1")["data"]["status"])
            eventually(lambda: bool(bodies))
            assert [*seen, bodies[0]["status"]] == shown
            assert [order["status"] for order in teller.sandbox.orders()] == [44]
    receiver.close()


def test_a_plain_usdt_may_be_deposited_where_the_service_takes_it() -> None:
    for taken in (False, True):
        with behaving(usdt_deposits=taken) as teller:
            asked = teller.ask("/v1/order/deposit_address", {"currency": "USDT", "customer_ref_id": "c"})
            assert asked["code"] == ("200" if taken else "7002")
            if taken:
                address = asked["data"]["address"]
                verified = teller.data("/v1/order/verifyDepositAddress", {"currency": "USDT", "address": address})
                teller.sandbox.charge("USDT", "20", address=address)
                assert (address[0], verified["result"], spent(teller, "USDT")) == ("T", True, Decimal("-19.8"))


def test_amounts_may_be_written_as_java_prints_them() -> None:
    for written, zero, amount in (("plain", "0", "2.2"), ("java", "0E-18", "2.200000000000000000")):
        with behaving(amounts_as=written) as teller:
            balance = teller.data("/v1/balance/partner", {"currency": "BTC"})
            assert balance["pendingSettleBalance"] == zero
            assert teller.data("/v1/order/withdraw", withdraw("w", amount="2.2").body())["order_amount"] == amount
            quoted = teller.quote("x", symbol="BTC-USDT", amount="1")
            assert ("E-" in quoted["feeAmt"]) == (written == "java")
            assert Decimal(quoted["feeAmt"]) > 0


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "0E-18"),
        ("0.00000001", "1.0000000000E-8"),
        ("0.000000000000000001", "1E-18"),
        ("12.5", "12.500000000000000000"),
        ("0.000001", "0.000001000000000000"),
        ("1E+3", "1000.000000000000000000"),
        ("-7", "-7.000000000000000000"),
    ],
)
def test_a_java_big_decimal_of_scale_18(amount: str, text: str) -> None:
    assert java_text(Decimal(amount)) == text
    assert Decimal(text) == Decimal(amount)


def test_an_operation_may_answer_success_false_and_not_act() -> None:
    acting: list[tuple[str, str, Fields]] = [
        ("withdraw", "/v1/order/withdraw", withdraw("w").body()),
        ("conversion_quote", "/v1/conversion/quote", convert("x").body()),
        ("change_card_user_email", "/v1/carduser/change-email", {"user_id": "1", "email": "a@example.com"}),
    ]
    with behaving(success_false=[name for name, _, _ in acting]) as teller:
        for name, path, fields in acting:
            answer = teller.post(path, fields).json()
            bare = name == "change_card_user_email"
            assert answer == {"success": False} if bare else answer["data"] == {"success": False}
            assert bare or str(answer["code"]) == "200"
        assert teller.post("/v1/order/withdraw", {}).status_code == 400
        assert not teller.sandbox.orders()
        assert spent(teller, "USDT_TRC20") == 0
        assert teller.data("/v1/order/pay", pay("p").body())["status"] == 11
    with behaving() as teller:
        assert teller.data("/v1/order/withdraw", withdraw("w").body())["status"] == 22


# What queries find and show

ABSENCES: list[tuple[str, int, Any]] = [
    ("7000", 200, "7000"),
    ("ORDER_NOT_FOUND", 200, "ORDER_NOT_FOUND"),
    ("empty", 200, None),
    ("empty_record", 200, {}),
]


def said(answer: httpx.Response) -> Any:
    """The data of a success, or the code of a refusal."""
    content = answer.json()
    return content["data"] if str(content["code"]) == "200" else str(content["code"])


@pytest.mark.parametrize(("how", "status", "says"), ABSENCES)
def test_an_unknown_order_or_user_is_answered_as_it_is_set(how: str, status: int, says: Any) -> None:
    with behaving(no_such_order=how, no_such_user=how) as teller:
        for path, fields in (
            ("/v1/order/query", {"request_id": "nobody"}),
            ("/v1/fiatpayout/payouts/query", {"request_id": "nobody"}),
            ("/v1/carduser/query", {"user_xid": "nobody"}),
        ):
            answer = teller.post(path, fields)
            assert (answer.status_code, said(answer)) == (status, says)
        teller.data("/v1/order/withdraw", withdraw("w").body())
        assert said(teller.post("/v1/order/query", {"request_id": "w", "order_no": "9"})) == says
        assert teller.query("w")["data"]["status"] == 99


def test_an_unknown_order_or_user_may_be_http_404() -> None:
    with behaving(no_such_order="http-404", no_such_user="http-404") as teller:
        for path, name in (
            ("/v1/order/query", "request_id"),
            ("/v1/fiatpayout/payouts/query", "request_id"),
            ("/v1/carduser/query", "user_xid"),
        ):
            answer = teller.post(path, {name: "nobody"})
            assert (answer.status_code, answer.text) == (404, "Not Found")
            assert answer.headers["content-type"].startswith("text/plain")


def test_by_default_an_unknown_user_is_404_in_the_envelope() -> None:
    with behaving() as teller:
        answer = teller.post("/v1/carduser/query", {"user_xid": "nobody"})
        assert (answer.status_code, said(answer)) == (200, "404")


def test_an_unconfirmed_quote_shows_the_status_that_is_set_or_is_not_found() -> None:
    path = "/v1/fiatpayout/payouts/query"
    for switches, says in (({}, 11), ({"unconfirmed_status": 12}, 12), ({"unconfirmed_found": False}, "7000")):
        with behaving(**switches) as teller:
            teller.data("/v1/fiatpayout/payouts/quote", fiat_quote("open").body())
            answer = said(teller.post(path, {"request_id": "open"}))
            assert (answer["status"] if isinstance(answer, dict) else answer) == says
            teller.fiat("paid")
            teller.sandbox.advance(1)
            assert said(teller.post(path, {"request_id": "paid"}))["status"] == 99


@pytest.mark.parametrize("found_by", ["xid", "quote_id", "order_no", "nothing"])
def test_a_conversion_is_found_by_what_is_set(found_by: str) -> None:
    with behaving(conversion_found_by=found_by) as teller:
        quoted, order_no = teller.convert("x-1")
        assert (order_no != quoted["quoteId"]) == (found_by == "order_no")
        names = {"xid": "x-1", "quote_id": quoted["quoteId"], "order_no": order_no}
        found = {name for name, value in names.items() if teller.query(value)["code"] == "200"}
        if order_no == quoted["quoteId"] and found_by != "nothing":
            found -= {"order_no"} if found_by == "quote_id" else set()
        assert found == ({found_by} - {"nothing"})
        assert teller.ask("/v1/conversion/execute", {"quoteId": quoted["quoteId"]})["code"] == "202224"
        teller.data("/v1/order/withdraw", withdraw("w").body())
        assert teller.query("w")["code"] == "200"


def test_a_conversion_found_by_its_order_number_is_so_after_a_restart(tmp_path: Path) -> None:
    behaviour = Behaviour(conversion_found_by="order_no")
    kept = settings(state=tmp_path / "state.db", behaviour=behaviour)
    with running_sandbox(kept, SandboxClock(start=START)) as sandbox:
        quoted, order_no = Teller(sandbox).convert("x-1")
    with running_sandbox(kept, SandboxClock(start=START)) as sandbox:
        teller = Teller(sandbox)
        assert (teller.query("x-1")["code"], teller.query(order_no)["code"]) == ("7000", "200")
        assert teller.ask("/v1/conversion/execute", {"quoteId": quoted["quoteId"]})["code"] == "202224"


def test_a_conversion_is_shown_in_what_is_paid_or_received() -> None:
    for shown_in, pays in (("paid", True), ("received", False), ("gross", False)):
        with behaving(conversion_shown_in=shown_in) as teller:
            quoted, _ = teller.convert("x-1")
            record = teller.query("x-1")["data"]
            currency, amount = ("payCurrency", "payAmt") if pays else ("settleCurrency", "settleAmt")
            with_fee = Decimal(quoted["feeAmt"]) if shown_in == "gross" else 0
            assert record["currency"] == quoted[currency]
            assert Decimal(record["order_amount"]) == Decimal(quoted[amount]) + with_fee
            assert record["arrive_amount"] == ("" if pays else quoted["settleAmt"])


def test_a_direct_payout_is_shown_in_what_is_paid_or_received() -> None:
    for shown_in in ("paid", "received"):
        with behaving(payout_shown_in=shown_in) as teller:
            teller.data("/v1/order/payout", payout("p-1", amount="100").body())
            record, order = teller.query("p-1")["data"], teller.sandbox.orders()[0]
            told = [record[name] for name in ("currency", "order_amount", "arrive_amount", "fee_amount")]
            credit = format(order["credit"], "f")
            assert told == (["USDT", "100", "99", "1"] if shown_in == "paid" else ["IDR", credit, credit, "0"])
            teller.fiat("f-1")
            assert teller.query("f-1")["data"]["currency"] == "USDT"


# Trades and fees


def test_buy_buys_the_base_or_the_quote_currency() -> None:
    rates: dict[tuple[str, str], Decimal] = {}
    for buy, spends, refuses in (("base", "USDT", "ETH"), ("quote", "ETH", "USDT")):
        with behaving(buy=buy) as teller:
            for side in ("BUY", "SELL"):
                rate = teller.data("/v1/conversion/rate", {"symbol": "ETH-USDT", "side": side})["rate"]
                rates[buy, side] = Decimal(rate)
            wrong = {**convert("wrong").body(), "currency": refuses, "amount": "2"}
            assert teller.ask("/v1/conversion/quote", wrong)["code"] == "400"
            quoted, _ = teller.convert("x-1", currency=spends, amount="2")
            assert Decimal(quoted["rate"]) == rates[buy, "BUY"]
            assert (quoted["payCurrency"], quoted["settleCurrency"]) == (spends, refuses)
            assert spent(teller, spends) == 2
            assert spent(teller, refuses) == -Decimal(quoted["settleAmt"])
    assert rates["base", "BUY"] == rates["quote", "SELL"] > rates["base", "SELL"] == rates["quote", "BUY"]


def test_a_conversions_fee_is_in_what_is_received_or_paid() -> None:
    for fee_in, currency in (("received", "ETH"), ("paid", "USDT")):
        with behaving(conversion_fee_in=fee_in) as teller:
            quoted, _ = teller.convert("x-1")
            rate, fee, settled = (Decimal(quoted[name]) for name in ("rate", "feeAmt", "settleAmt"))
            assert (quoted["feeCurrency"], quoted["payAmt"]) == (currency, "100")
            if fee_in == "paid":
                assert fee == Decimal("0.1")
                assert abs((100 - fee) / rate - settled) <= Decimal("1e-10")
            assert (spent(teller, "USDT"), spent(teller, "ETH")) == (100, -settled)
            assert arrived(teller, "fees", currency) == fee


@pytest.mark.parametrize("on_top", [False, True])
def test_a_fee_is_taken_inside_the_amount_or_on_top(on_top: bool) -> None:
    names = ("withdraw", "payout", "create_fiat_payout", "submit_scan_to_pay")
    with behaving(fee_on_top=names if on_top else ()) as teller:
        record = teller.data("/v1/order/withdraw", withdraw("w", amount="100").body())
        told = [record[name] for name in ("order_amount", "arrive_amount", "fee")]
        assert told == ["100", "100" if on_top else "99", "1"]
        assert spent(teller, "USDT_TRC20") == (101 if on_top else 100)
        assert arrived(teller, "world", "USDT_TRC20") == (100 if on_top else 99)

        teller.data("/v1/order/payout", payout("p", amount="100").body())
        told = [teller.query("p")["data"][name] for name in ("order_amount", "arrive_amount", "fee_amount")]
        assert told == ["100", "100" if on_top else "99", "1"]
        before = spent(teller, "USDT")
        assert before == (101 if on_top else 100)

        quoted = teller.fiat("f-source")
        rate = Decimal(quoted["exchange_rate"])
        exact = (100 if on_top else Decimal("98.75")) * rate
        assert 0 <= exact - Decimal(quoted["receive_amount"]) < Decimal("0.01")
        record = teller.query("f-source")["data"]
        amounts = [Decimal(record[name]) for name in ("order_amount", "arrive_amount", "fee_amount")]
        assert amounts == [100, 100 if on_top else Decimal("98.75"), Decimal("1.25")]
        after = spent(teller, "USDT")
        assert after - before == (Decimal("101.25") if on_top else 100)
        assert arrived(teller, "beneficiaries", "EUR") == Decimal(quoted["receive_amount"])

        quoted = teller.fiat("f-dest", quote_mode="dest", pay_amount=None, receive_amount="50")
        assert quoted["receive_amount"] == "50"
        left = Decimal(quoted["pay_amount"]) - (0 if on_top else Decimal("1.25"))
        assert 0 <= left * Decimal(quoted["exchange_rate"]) - 50 < Decimal("0.0001")
        before, after = after, spent(teller, "USDT")
        assert after - before == Decimal(quoted["pay_amount"]) + (Decimal("1.25") if on_top else 0)

        teller.data("/v1/scanPay/submit", scan("s").body())
        record = teller.query("s")["data"]
        assert (record["arrive_amount"], record["fee_amount"]) == (record["order_amount"], "1")
        assert spent(teller, "USDT") - after == Decimal(record["order_amount"]) + 1


def test_what_costs_more_than_its_estimate() -> None:
    with behaving(fee_on_top=["withdraw"], fee_times=30) as teller:
        assert teller.data("/v1/order/withdraw", withdraw("w", amount="100").body())["fee"] == "30"
        assert spent(teller, "USDT_TRC20") == 130
        teller.data("/v1/order/payout", payout("p", amount="100").body())
        assert teller.query("p")["data"]["arrive_amount"] == "70"


def test_one_operation_alone_may_have_its_fee_on_top() -> None:
    with behaving(fee_on_top=["withdraw"]) as teller:
        assert teller.data("/v1/order/withdraw", withdraw("w").body())["arrive_amount"] == "100"
        teller.data("/v1/order/payout", payout("p", amount="100").body())
        assert teller.query("p")["data"]["arrive_amount"] == "99"


def test_what_fails_gives_the_fee_on_top_back() -> None:
    with behaving(fee_on_top=["withdraw", "payout", "create_fiat_payout"]) as teller:
        teller.data("/v1/order/withdraw", withdraw("w", address="T0044").body())
        teller.data("/v1/order/payout", payout("p", account_no="120088").body())
        teller.fiat("f", account_no="DE0044")
        assert (spent(teller, "USDT_TRC20"), spent(teller, "USDT")) == (0, 0)
        assert not any(teller.sandbox.books()["balances"]["hold"].values())


def test_a_fee_on_top_must_be_there_too() -> None:
    for on_top, code in (((), "200"), (["withdraw"], "202203")):
        with behaving(fee_on_top=on_top) as teller:
            assert teller.ask("/v1/order/withdraw", withdraw("w", amount="500000").body())["code"] == code


# The words of the command line


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], Behaviour()),
        (["hash=SHA256", "timestamp_unit=s"], Behaviour(hash="SHA256", timestamp_unit="s")),
        (["null_text_is_blank=none"], Behaviour()),
        (
            ["null_text_is_blank=false", "unconfirmed_found=no"],
            Behaviour(null_text_is_blank=False, unconfirmed_found=False),
        ),
        (["refusal_codes=202203:301001, 7000:404"], Behaviour(refusal_codes={"202203": "301001", "7000": "404"})),
        (["statuses=44:45", "statuses=88:89"], Behaviour(statuses={44: 45, 88: 89})),
        (["fee_on_top=withdraw,payout"], Behaviour(fee_on_top=frozenset({"withdraw", "payout"}))),
        (["success_false="], Behaviour()),
        (["unconfirmed_status=12", "no_such_order=empty"], Behaviour(unconfirmed_status=12, no_such_order="empty")),
    ],
)
def test_switches_are_read_from_words(texts: list[str], expected: Behaviour) -> None:
    assert read_switches(texts) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("colour=red", "hash, timestamp_unit"),
        ("hash", "NAME=VALUE"),
        ("hash=MD5", "SHA1 or SHA256"),
        ("no_such_order=emtpy", "empty, empty_record or http-404"),
        ("no_such_order=200", "empty, empty_record or http-404"),
        ("refusal_codes=202203", "202203:301001"),
        ("refusal_codes=31:32", "202203:301001"),
        ("refusal_codes=7000:200", "202203:301001"),
        ("statuses=45:44", "listed are 11, 22, 44, 88, 99"),
        ("statuses=44:x", "44:45"),
        ("fee_on_top=pay", "withdraw, payout"),
        ("success_false=nothing", "deposit_address"),
        ("unconfirmed_found=perhaps", "true or false"),
        ("side_case=any,upper", "any, upper or lower"),
    ],
)
def test_a_wrong_word_is_refused_with_what_is_allowed(text: str, names: str) -> None:
    with pytest.raises(InputError, match=re.escape(names)):
        read_switches([text])


def test_a_behaviour_is_frozen_and_knows_no_other_names() -> None:
    with pytest.raises(ValidationError):
        Behaviour(colour="red")  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Behaviour().hash = "SHA256"  # type: ignore[misc]


def test_every_switch_is_documented_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sandbox-behaviour.md").read_text()
    for name in allowed():
        [row] = re.findall(rf"^\| `{name}` \|(.*)\|$", page, re.MULTILINE)
        default = default_of(name)
        told = ", ".join(sorted(default)) if isinstance(default, frozenset | dict) else str(default).lower()
        assert f"**{told or 'nothing'}**" in row.lower(), name


def test_the_command_takes_switches() -> None:
    from flows.commands.sandbox import sandbox as command

    with pytest.raises(InputError, match="SHA1 or SHA256"):
        command(behave=["hash=MD5"])


def test_the_client_reads_what_java_prints() -> None:
    with behaving(amounts_as="java") as teller, client_of(teller.sandbox) as client:
        assert client.send(withdraw("w")).order_amount == 100
