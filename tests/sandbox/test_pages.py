"""Card users and pay-ins, and the pages a person clicks through for them."""

import re
from decimal import Decimal

import httpx
import pytest

from tests.sandbox.builders import IMAGE, card_user, pay, query, refused
from treasury.provider.card_users import (
    ChangeCardUserEmail,
    CreateCardUserWithKycLink,
    KycLink,
    QueryCardUser,
    UploadKyc,
)
from treasury.provider.client import Client
from treasury.sandbox import RunningSandbox


def click(url: str, action: str) -> httpx.Response:
    """Open a page, find the button that leads to `.../action`, press it, and follow to the page after it."""
    page = httpx.get(url)
    assert page.status_code == 200
    target = next(found for found in re.findall(r'formaction="([^"]+)"', page.text) if found.endswith(f"/{action}"))
    return httpx.post(httpx.URL(url).join(target), follow_redirects=True)


@pytest.mark.parametrize(("action", "status", "shown"), [("approve", "3", "passed"), ("refuse", "4", "refused")])
def test_the_kyc_page_decides(client: Client, action: str, status: str, shown: str) -> None:
    name = f"kyc-{action}"
    created = client.send(CreateCardUserWithKycLink(user_xid=name, email="<b>eva@example.com"))
    assert created.kyc_status == "0"
    assert created.link is not None
    page = click(created.link, action)
    assert f'<dd id="status">{shown}</dd>' in page.text
    assert "&lt;b&gt;eva" in page.text
    assert client.send(QueryCardUser(user_xid=name)).kyc_status == status


def test_the_links_level_becomes_the_users(client: Client) -> None:
    client.send(CreateCardUserWithKycLink(user_xid="level", email="a@example.com"))
    link = client.send(KycLink(user_xid="level", level_name="LEVEL-2")).link
    assert link is not None
    click(link, "approve")
    assert client.send(QueryCardUser(user_xid="level")).kyc_level == "2"


@pytest.mark.parametrize(("number", "last"), [("P1", "3"), ("P0044", "4"), ("P0022", "2")])
def test_identity_data_is_audited_with_the_clock(
    sandbox: RunningSandbox, teller: Client, number: str, last: str
) -> None:
    seen = [teller.send(card_user("audit", number)).kyc_status]
    for _ in range(4):
        sandbox.advance(1)
        seen.append(teller.send(QueryCardUser(user_xid="audit")).kyc_status)
    assert seen == ["0", "1", "2", last, last]


def test_uploaded_identity_is_audited_and_shown(sandbox: RunningSandbox, teller: Client) -> None:
    teller.send(CreateCardUserWithKycLink(user_xid="up", email="a@example.com"))
    document = {"type": "1", "number": "N77", "country": "DE", "expiry_date": "2031-01-01", "front": IMAGE}
    person = {"first_name": "Zoë", "last_name": "Muster", "date_of_birth": "1990-01-01"}
    teller.send(UploadKyc(user_xid="up", individual=person, document=document))
    sandbox.advance(3)
    user = teller.send(QueryCardUser(user_xid="up"))
    assert (user.kyc_status, user.kyc_level, user.first_name, user.document_number) == ("3", "1", "Zoë", "N77")


def test_a_repeated_user_is_refused_and_an_unknown_one_is_404(client: Client) -> None:
    client.send(card_user("known"))
    assert refused(client, card_user("known")).code == "202224"
    assert refused(client, QueryCardUser(user_xid="unknown")).code == "404"
    assert refused(client, KycLink(user_xid="unknown")).code == "404"
    assert refused(client, QueryCardUser(user_xid="known", email="other@example.com")).code == "404"


def test_an_email_is_changed_without_an_envelope(client: Client) -> None:
    user = client.send(card_user("mail"))
    answer = client.send(ChangeCardUserEmail(user_id=user.user_id, email="new@example.com"))
    assert answer.envelope == {"success": True}
    assert client.send(QueryCardUser(user_xid="mail")).email == "new@example.com"
    assert "success: false" in str(refused(client, ChangeCardUserEmail(user_id="0", email="new@example.com")))


def test_a_paid_checkout_credits_the_amount_less_one_percent(sandbox: RunningSandbox, teller: Client) -> None:
    record = teller.send(pay("in-1", return_url="https://shop.example/done", product_name="Tea & <i>cake</i>"))
    assert (record.status, record.payment_method) == (11, "on_line")
    assert record.checkout_url is not None
    sandbox.advance(10)
    assert query(teller, "in-1").status == 11
    page = click(record.checkout_url, "pay")
    assert '<dd id="status">paid</dd>' in page.text
    assert "Tea &amp; &lt;i&gt;cake&lt;/i&gt;" in page.text
    assert 'href="https://shop.example/done"' in page.text
    httpx.post(f"{record.checkout_url}/pay")  # a second click
    order = query(teller, "in-1")
    assert (order.status, order.order_type, order.arrive_amount) == (99, "pay", 99)
    books = sandbox.books()
    assert books["balances"]["available"]["USDT"] == 1_000_099
    assert books["sums"]["USDT"] == 0
    assert sandbox.orders()[0]["effects"] == 1


def test_a_checkout_closes_after_a_day(sandbox: RunningSandbox, teller: Client) -> None:
    teller.send(pay("in-1"))
    sandbox.advance(86_400)
    order = query(teller, "in-1")
    assert (order.status, order.reason) == (88, "not paid in time")
    assert sandbox.books()["balances"]["available"]["USDT"] == 1_000_000
    assert '<dd id="status">closed</dd>' in httpx.get(sandbox.orders()[0]["page"]).text


@pytest.mark.parametrize(
    ("payment_type", "fields"),
    [
        ("wallet", {"wallet_url", "checkout_url"}),
        ("qrcode", {"qrcode_string", "checkout_url"}),
        ("virtual_account", {"account_name", "account_number", "account_type", "checkout_url"}),
    ],
)
def test_a_direct_pay_in_answers_by_payment_type(client: Client, payment_type: str, fields: set[str]) -> None:
    direct = {"payment_method": "direct", "payment_channel": "x", "currency": "IDR", "amount": "50000"}
    record = client.send(pay(f"direct-{payment_type}", payment_type=payment_type, **direct))
    assert fields == {
        name
        for name in ("wallet_url", "qrcode_string", "account_name", "account_number", "account_type", "checkout_url")
        if getattr(record, name)
    }
    assert "payment_type" in refused(client, pay("direct-other", payment_type="barter", **direct)).message
    assert refused(client, pay("direct-coin", payment_type="wallet", **direct | {"currency": "USDT"})).code == "7002"


def test_an_on_chain_pay_in_has_an_address_and_a_page_to_pay_it(shared: RunningSandbox, client: Client) -> None:
    record = client.send(pay("chain", payment_method="on_chain", currency="ETH", amount="0.5"))
    assert record.receive_address is not None
    assert record.receive_address.startswith("0x")
    page = next(order["page"] for order in shared.orders() if order["request_id"] == "chain")
    click(page, "pay")
    assert query(client, "chain").arrive_amount == Decimal("0.495")


@pytest.mark.parametrize("path", ["/checkout/1", "/kyc/1/LEVEL-1", "/nothing"])
def test_pages_that_do_not_exist_are_404(shared: RunningSandbox, path: str) -> None:
    assert httpx.get(shared.base_url + path).status_code == 404
