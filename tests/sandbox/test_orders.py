"""Orders that move money: what they cost, how they end, what the books say."""

from decimal import Decimal
from typing import Any

import pytest

from tests.sandbox.builders import (
    convert,
    fiat_quote,
    partner_total,
    pay,
    payout,
    query,
    refused,
    scan,
    withdraw,
)
from treasury.addresses import why_no_address
from treasury.provider.client import Client
from treasury.provider.conversion import ConversionExecute
from treasury.provider.fiat_payouts import CreateFiatPayout, QueryFiatPayout
from treasury.provider.funds import EstimateFee, PartnerBalance
from treasury.provider.operation import Operation
from treasury.provider.orders import DepositAddress, QueryTransaction, VerifyDepositAddress
from treasury.provider.status import OrderStatus
from treasury.sandbox import RunningSandbox, build_promptpay
from treasury.sandbox.currencies import CURRENCIES


def available(sandbox: RunningSandbox, currency: str) -> Decimal:
    """Return what the partner may spend."""
    balance: Decimal = sandbox.books()["balances"]["available"][currency]
    return balance


def create(client: Client, request_id: str, **changed: Any) -> CreateFiatPayout:
    """The confirmation of a new fiat quote."""
    quoted = client.send(fiat_quote(request_id, **changed))
    return CreateFiatPayout(order_no=quoted.order_no, purpose_code="30")


def execute(client: Client, xid: str, **changed: Any) -> ConversionExecute:
    """The execution of a new conversion quote."""
    return ConversionExecute(quote_id=client.send(convert(xid, **changed)).quote_id)


def test_books_sum_to_zero_after_every_kind_of_order(sandbox: RunningSandbox, teller: Client) -> None:
    teller.send(withdraw("w-1"))
    teller.send(payout("p-1"))
    teller.send(scan("s-1"))
    teller.send(execute(teller, "x-1"))
    teller.send(create(teller, "f-1", account_no="123"))
    for seconds in (0.0, 1.0, 2.0, 10.0):
        sandbox.advance(seconds)
        books = sandbox.books()
        assert set(books["sums"].values()) == {Decimal(0)}
    assert not any(books["balances"]["hold"].values())
    assert {order["status"] for order in sandbox.orders()} == {99}
    assert {order["effects"] for order in sandbox.orders()} == {1}


def test_a_withdrawal_is_held_then_leaves_with_its_fee_taken_out(sandbox: RunningSandbox, teller: Client) -> None:
    record = teller.send(withdraw("w-1", amount="2.2"))
    assert (record.order_amount, record.arrive_amount, record.fee) == (
        Decimal("2.2"),
        Decimal("2.178"),
        Decimal("0.022"),
    )
    assert record.status == OrderStatus.PROCESSING
    balance = teller.send(PartnerBalance(currency="USDT_TRC20"))
    assert (balance.balance, balance.frozen) == (Decimal(500_000), Decimal("2.2"))
    sandbox.advance(3)
    balances = sandbox.books()["balances"]
    assert balances["available"]["USDT_TRC20"] == Decimal("499997.8")
    assert balances["world"]["USDT_TRC20"] == Decimal("2.178")
    assert balances["fees"]["USDT_TRC20"] == Decimal("0.022")
    assert query(teller, "w-1").finish_time == str(1_790_000_003)


def test_a_payout_passes_11_22_99_with_the_clock(sandbox: RunningSandbox, teller: Client) -> None:
    seen = [teller.send(payout("p-1")).status]
    for seconds in (0.9, 0.1, 1.9, 0.1):
        sandbox.advance(seconds)
        seen.append(query(teller, "p-1").status)
    assert seen == [11, 11, 22, 22, 99]


def test_a_payout_arrives_in_the_settle_currency_less_one_percent(shared: RunningSandbox, client: Client) -> None:
    client.send(payout("p-fee", amount="100"))
    record = query(client, "p-fee")
    assert (record.order_amount, record.arrive_amount, record.fee_amount) == (100, 99, 1)
    order = next(order for order in shared.orders() if order["request_id"] == "p-fee")
    rate = Decimal(order["metadata"]["exchangeRate"])
    assert 0 <= 99 * rate - order["credit"] < Decimal("0.01")


@pytest.mark.parametrize(("ending", "status"), [("0044", 44), ("0088", 88), ("0022", 22), ("0012", 12), ("1234", 99)])
def test_the_last_digits_choose_the_ending(shared: RunningSandbox, client: Client, ending: str, status: int) -> None:
    before = available(shared, "USDT")
    names = [f"{kind}-{ending}" for kind in "wpsfe"]
    client.send(withdraw(names[0], address=f"TXYZ{ending}"))
    client.send(payout(names[1], account_no=f"12345{ending}"))
    client.send(scan(names[2], qrcode=build_promptpay(f"081234{ending}")))
    client.send(create(client, names[3], account_no=f"77{ending}"))
    company = {"account_no": f"88{ending}", "bank_name": "Deutsche Bank", "address": "Ring 1", "company_name": "GmbH"}
    enterprise = {"account_type": "ENTERPRISE", "individual_beneficiary": None, "enterprise_beneficiary": company}
    client.send(create(client, names[4], **enterprise))
    shared.advance(100)
    records = [query(client, name) for name in names]
    assert {int(record.status) for record in records if record.status is not None} == {status}
    assert all(bool(record.reason) == (status in (44, 88)) for record in records)
    assert (available(shared, "USDT") == before) == (status in (44, 88))
    assert client.send(QueryFiatPayout(request_id=names[3])).failure_reason == (records[3].reason or None)


def test_conversion_buy_pays_the_quote_currency(sandbox: RunningSandbox, teller: Client) -> None:
    quoted = teller.send(convert("x-buy"))
    assert (quoted.pay_currency, quoted.settle_currency, quoted.fee_currency) == ("USDT", "ETH", "ETH")
    assert quoted.rate is not None
    assert quoted.fee_amount is not None
    assert quoted.settle_amount is not None
    assert abs(100 / quoted.rate * Decimal("0.001") - quoted.fee_amount) < Decimal("1e-8")
    assert abs(100 / quoted.rate - quoted.fee_amount - quoted.settle_amount) <= Decimal("1e-10")
    done = teller.send(ConversionExecute(quote_id=quoted.quote_id))
    assert (done.order_no, done.status) == (quoted.quote_id, 22)
    sandbox.advance(3)
    total = partner_total(sandbox)
    assert (total["USDT"], total["ETH"]) == (999_900, 10 + quoted.settle_amount)
    assert query(teller, "x-buy").status == 99


def test_conversion_sell_pays_the_base_currency(sandbox: RunningSandbox, teller: Client) -> None:
    quoted = teller.send(convert("x-sell", side="sell", currency="ETH", amount="2"))
    assert (quoted.pay_currency, quoted.settle_currency) == ("ETH", "USDT")
    teller.send(ConversionExecute(quote_id=quoted.quote_id))
    sandbox.advance(3)
    assert partner_total(sandbox)["ETH"] == 8


def test_scan_to_pay_charges_the_order_amount_and_the_fee_on_top(sandbox: RunningSandbox, teller: Client) -> None:
    teller.send(scan("s-1"))
    record = query(teller, "s-1")
    assert record.order_amount is not None
    assert (record.order_type, record.fee_amount) == ("proxy_pay", 1)
    sandbox.advance(3)
    assert partner_total(sandbox)["USDT"] == 1_000_000 - record.order_amount - 1
    assert sandbox.books()["balances"]["beneficiaries"]["THB"] == 320


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (DepositAddress(currency="DOESNOT", customer_ref_id="c"), "7002"),
        (DepositAddress(currency="USDT", customer_ref_id="c"), "7002"),
        (withdraw("r-1", currency="XRP"), "7002"),
        (pay("r-2", currency="XRP"), "7002"),
        (pay("r-3", payment_method="on_chain"), "7002"),
        (PartnerBalance(currency="XRP"), "7002"),
        (payout("r-4", currency="XRP"), "202211"),
        (payout("r-5", currency="ETH"), "202211"),
        (fiat_quote("r-6", pay_currency="XRP"), "202211"),
        (fiat_quote("r-7", receive_currency="CHF"), "202211"),
        (convert("r-8", symbol="XRP-USDT"), "202211"),
        (convert("r-9", symbol="ETH-BTC", currency="BTC"), "202211"),
        (withdraw("r-10", amount="1000000"), "202203"),
        (payout("r-11", amount="2000000"), "202203"),
        (scan("r-12", amount="99999999"), "202203"),
        (withdraw("r-13", amount="0.5"), "202206"),
        (payout("r-14", amount="0.5"), "202206"),
        (fiat_quote("r-15", pay_amount="1.30"), "202206"),
        (pay("r-16", amount="0.5"), "202206"),
        (fiat_quote("r-17", pay_amount="1.25"), "202212"),
        (payout("r-18", country="XX"), "206003"),
        (payout("r-19", bank_code="9"), "206003"),
        (payout("r-20", payout_method="wallet_transfer", account_type="PHONE", wallet_code="9"), "206003"),
        (payout("r-21", country="BR", settle_currency="BRL"), "206003"),
        (fiat_quote("r-22", beneficiary_country="AQ"), "206003"),
        (fiat_quote("r-23", beneficiary_bank_id="9"), "206003"),
        (fiat_quote("r-24", clear_network="ACH"), "206003"),
        (fiat_quote("r-25", pay_amount="9000000"), "206003"),
        (withdraw("r-26", amount="1.0000001"), "400"),
        (fiat_quote("r-27", quote_mode="dest", pay_amount=None, receive_amount="1.001"), "400"),
        (convert("r-28", currency="ETH"), "400"),
        (QueryTransaction(request_id="nobody"), "7000"),
        (QueryFiatPayout(request_id="nobody"), "7000"),
        (CreateFiatPayout(order_no="nobody", purpose_code="30"), "7000"),
        (ConversionExecute(quote_id="nobody"), "7000"),
    ],
)
def test_a_refusal_has_its_code_and_does_not_act(
    shared: RunningSandbox, client: Client, operation: Operation[Any], code: str
) -> None:
    before = shared.books(), len(shared.orders())
    assert refused(client, operation).code == code
    assert (shared.books(), len(shared.orders())) == before


@pytest.mark.parametrize("build", [withdraw, payout, scan, pay, convert])
def test_a_repeated_reference_is_refused_with_202224(client: Client, build: Any) -> None:
    name = f"twice-{build.__name__}"
    client.send(build(name))
    assert refused(client, build(name)).code == "202224"
    assert refused(client, withdraw(name)).code == "202224"


def test_a_confirmed_quote_is_refused_with_202224(client: Client) -> None:
    confirmations: tuple[Operation[Any], ...] = (execute(client, "once-x"), create(client, "once-f"))
    for confirmation in confirmations:
        client.send(confirmation)
        assert refused(client, confirmation).code == "202224"


def test_a_withdrawal_costs_what_the_estimate_said(client: Client) -> None:
    estimate = client.send(EstimateFee(currency="ETH", amount="0.5"))
    assert (estimate.min_threshold, estimate.decimals) == (Decimal("0.001"), 18)
    assert client.send(withdraw("est", currency="ETH", amount="0.5")).fee == estimate.fee_amount


@pytest.mark.parametrize("code", [each.code for each in CURRENCIES.values() if each.chain is not None])
def test_an_address_is_one_of_its_chain(client: Client, code: str) -> None:
    found = client.send(DepositAddress(currency=code, customer_ref_id="c-1"))
    assert found.address is not None
    assert why_no_address(code, found.address) is None


def test_a_customer_always_has_the_same_address_and_it_is_ours(client: Client) -> None:
    first, again = (client.send(DepositAddress(currency="USDT_TRC20", customer_ref_id="c-9")) for _ in range(2))
    assert first.address == again.address
    assert first.address is not None
    assert first.address.startswith("T")
    assert len(first.address) == 34
    for address, ours in ((first.address, True), ("TXYZ", False)):
        assert client.send(VerifyDepositAddress(currency="TRX", address=address)).result is ours


def test_an_order_number_has_28_digits_and_starts_with_the_date(client: Client) -> None:
    number = client.send(withdraw("number")).order_no
    assert number is not None
    assert number.isdigit()
    assert len(number) == 28
    assert number.startswith("20260921")
