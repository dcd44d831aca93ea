"""Quotes and rates: idempotence, expiry, single use, arithmetic."""

from decimal import ROUND_DOWN, Decimal

import pytest

from tests.sandbox.builders import START, client_of, convert, fiat_quote, query, refused, settings
from treasury.provider.client import Client
from treasury.provider.conversion import ConversionExecute, ConversionRate
from treasury.provider.fiat_payouts import (
    CreateFiatPayout,
    FiatPayoutQuoteRecord,
    QueryFiatPayout,
    RemittancePurposes,
    SupportedBanks,
    SupportedCountries,
    SupportedFields,
    SupportedNetworks,
)
from treasury.provider.funds import PayoutChannels, TradeRate
from treasury.sandbox import RunningSandbox, SandboxClock, running_sandbox


def confirmation(quoted: FiatPayoutQuoteRecord) -> CreateFiatPayout:
    """The confirmation of a quote."""
    return CreateFiatPayout(order_no=quoted.order_no, purpose_code="30")


def test_an_identical_repeat_answers_the_first_quote(sandbox: RunningSandbox, teller: Client) -> None:
    first = teller.send(fiat_quote("q"))
    sandbox.advance(30)
    assert teller.send(fiat_quote("q")).model_dump() == first.model_dump()
    assert "request_id" in refused(teller, fiat_quote("q", pay_amount="101")).message


def test_a_quote_expires_after_its_time(sandbox: RunningSandbox, teller: Client) -> None:
    in_time, late = teller.send(fiat_quote("in-time")), teller.send(fiat_quote("late"))
    assert late.transaction_time is not None
    assert late.expire_time == late.transaction_time + 60_000
    sandbox.advance(59.9)
    teller.send(confirmation(in_time))
    sandbox.advance(0.1)
    before = sandbox.books()
    refusal = refused(teller, confirmation(late))
    assert (refusal.code, "expired" in refusal.message) == ("400", True)
    assert sandbox.books()["balances"]["available"]["USDT"] == before["balances"]["available"]["USDT"]


def test_a_clock_that_was_put_forward_lets_no_quote_seem_to_live_longer(
    sandbox: RunningSandbox, teller: Client
) -> None:
    before = teller.send(fiat_quote("q-1")), teller.send(convert("x-1"))
    sandbox.advance(86_400)
    after = teller.send(fiat_quote("q-2")), teller.send(convert("x-2"))
    assert (before[0].expire_time, before[1].expires_ms) == (after[0].expire_time, after[1].expires_ms)


def test_the_validity_of_fiat_quotes_can_be_set() -> None:
    with (
        running_sandbox(settings(quote_seconds=900), SandboxClock(start=START)) as sandbox,
        client_of(sandbox) as client,
    ):
        quoted = client.send(fiat_quote("q"))
        assert quoted.transaction_time is not None
        assert quoted.expire_time == quoted.transaction_time + 900_000


def test_a_conversion_quote_expires_after_ten_minutes(sandbox: RunningSandbox, teller: Client) -> None:
    quoted = teller.send(convert("x"))
    assert quoted.time_ms is not None
    assert quoted.expires_ms == quoted.time_ms + 600_000
    sandbox.advance(600)
    refusal = refused(teller, ConversionExecute(quote_id=quoted.quote_id))
    assert (refusal.code, "quoteId" in refusal.message) == ("400", True)


def test_an_unconfirmed_quote_shows_status_11_and_is_no_order(client: Client) -> None:
    quoted = client.send(fiat_quote("unconfirmed"))
    assert client.send(QueryFiatPayout(request_id="unconfirmed")).status == 11
    assert client.send(QueryFiatPayout(order_no=quoted.order_no)).request_id == "unconfirmed"
    assert refused(client, QueryFiatPayout(request_id="unconfirmed", order_no="other")).code == "7000"
    with pytest.raises(Exception, match="7000"):
        query(client, "unconfirmed")


def test_a_confirmed_payout_keeps_the_quotes_number_and_request_id(sandbox: RunningSandbox, teller: Client) -> None:
    quoted = teller.send(fiat_quote("q"))
    created = teller.send(confirmation(quoted))
    assert (created.order_no, created.request_id, created.status) == (quoted.order_no, "q", 11)
    sandbox.advance(3)
    done = teller.send(QueryFiatPayout(request_id="q"))
    assert (done.status, done.finish_time) == (99, int((START + 3) * 1000))
    assert sandbox.books()["balances"]["beneficiaries"]["EUR"] == quoted.receive_amount
    assert sandbox.books()["balances"]["available"]["USDT"] == 999_900


def test_source_quotes_take_the_fee_out_of_the_pay_amount(client: Client) -> None:
    quoted = client.send(fiat_quote("source"))
    assert (quoted.pay_amount, quoted.fee_amount, quoted.fee_currency) == (100, Decimal("1.25"), "USDT")
    assert quoted.exchange_rate is not None
    exact = (100 - Decimal("1.25")) * quoted.exchange_rate
    assert quoted.receive_amount == exact.quantize(Decimal("0.01"), rounding=ROUND_DOWN)


@pytest.mark.parametrize(
    ("country", "currency", "bank", "receive"),
    [("DE", "EUR", "2000800", "93.21"), ("JP", "JPY", "2000814", "15001"), ("VN", "VND", "1000403", "2500000")],
)
def test_dest_quotes_solve_the_pay_amount_upward(
    client: Client, country: str, currency: str, bank: str, receive: str
) -> None:
    quoted = client.send(
        fiat_quote(
            f"dest-{country}",
            quote_mode="dest",
            pay_amount=None,
            receive_amount=receive,
            receive_currency=currency,
            beneficiary_country=country,
            beneficiary_bank_id=bank,
        )
    )
    assert quoted.receive_amount == Decimal(receive)
    assert quoted.pay_amount is not None
    assert quoted.fee_amount is not None
    assert quoted.exchange_rate is not None
    enough = (quoted.pay_amount - quoted.fee_amount) * quoted.exchange_rate
    short = (quoted.pay_amount - quoted.fee_amount - Decimal("0.000001")) * quoted.exchange_rate
    assert short < Decimal(receive) <= enough


@pytest.mark.parametrize(("country", "currency", "bank"), [("JP", "JPY", "2000814"), ("KR", "KRW", "2000815")])
def test_currencies_without_cents_have_none(client: Client, country: str, currency: str, bank: str) -> None:
    route = {"receive_currency": currency, "beneficiary_country": country, "beneficiary_bank_id": bank}
    amount = client.send(fiat_quote(f"no-cents-{country}", **route)).receive_amount
    assert amount is not None
    assert amount == int(amount)
    fractional = fiat_quote(f"cents-{country}", quote_mode="dest", pay_amount=None, receive_amount="5000.5", **route)
    assert refused(client, fractional).code == "400"


def test_a_route_asks_for_its_beneficiary_fields(client: Client) -> None:
    swift = {"clear_network": "SWIFT"}
    assert "beneficiaryFields.swift" in refused(client, fiat_quote("swift-1", **swift)).message
    swift["beneficiaryFields"] = {"swift": "DEUTDEFF"}  # type: ignore[assignment]
    assert "nationality" in refused(client, fiat_quote("swift-2", **swift)).message
    fields = client.send(SupportedFields(country="DE", currency="EUR", bank_code="2000800", network="SWIFT")).fields_
    assert fields == [{"key": "swift", "label": "SWIFT / BIC code", "required": True}]


def test_what_the_lookups_list_can_be_quoted(client: Client) -> None:
    countries = client.send(SupportedCountries()).countries or []
    assert len(countries) > 10
    for number, entry in enumerate(countries):
        country, currency = entry["country"], entry["currencies"][0]
        bank = (client.send(SupportedBanks(country=country, currency=currency)).banks or [])[0]
        network = (client.send(SupportedNetworks(country=country, currency=currency)).networks or [])[0]
        assert network in bank["clearing_networks"]
        wanted = client.send(
            SupportedFields(country=country, currency=currency, bank_code=bank["bank_code"], network=network)
        )
        person = {"account_no": "1", "bank_name": "B", "address": "A", "nationality": "DE", "gender": "male"}
        quoted = client.send(
            fiat_quote(
                f"lookup-{number}",
                receive_currency=currency,
                beneficiary_country=country,
                beneficiary_bank_id=bank["bank_code"],
                clear_network=network,
                beneficiaryFields={field["key"]: "x" for field in wanted.fields_ or []} or None,
                individual_beneficiary=person | {"date_of_birth": "1990-01-01"},
            )
        )
        assert quoted.receive_currency == currency


def test_lookups_filter(client: Client) -> None:
    euro = client.send(SupportedCountries(receive_currency="EUR")).countries or []
    assert [entry["country"] for entry in euro] == ["DE", "ES", "FR"]
    assert client.send(SupportedBanks(country="DE", currency="EUR", amount="99999999")).banks == []
    assert client.send(SupportedNetworks(country="AQ", currency="EUR")).networks == []
    assert len(client.send(RemittancePurposes()).purposes) == 36
    channels = client.send(PayoutChannels(country="ID", currency="IDR"))
    assert (len(channels.banks or []), len(channels.wallets or [])) == (106, 5)


def test_an_unknown_purpose_is_refused(client: Client) -> None:
    quoted = client.send(fiat_quote("purpose"))
    refusal = refused(client, CreateFiatPayout(order_no=quoted.order_no, purpose_code="99"))
    assert (refusal.code, "purpose_code" in refusal.message) == ("400", True)


def test_a_rate_is_valid_for_a_minute_and_moves(sandbox: RunningSandbox, teller: Client) -> None:
    first = teller.send(ConversionRate(symbol="ETH-USDT", side="BUY"))
    assert first.time_ms is not None
    assert first.expires_ms == first.time_ms + 60_000
    sell = teller.send(TradeRate(base_currency="ETH", quote_currency="USDT"))
    assert first.rate is not None
    assert sell.rate is not None
    assert sell.rate < first.rate
    sandbox.advance(60)
    assert teller.send(ConversionRate(symbol="ETH-USDT", side="BUY")).rate != first.rate


def test_the_same_seed_and_clock_answer_the_same() -> None:
    seen = []
    for seed in (7, 7, 8):
        with running_sandbox(settings(seed=seed), SandboxClock(start=START)) as sandbox, client_of(sandbox) as client:
            answers = [client.send(convert("x")), client.send(fiat_quote("q"))]
            seen.append([answer.envelope for answer in answers])
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]
