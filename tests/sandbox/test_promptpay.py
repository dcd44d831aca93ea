"""PromptPay codes: real TLV, real checksum."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sandbox.builders import refused, scan
from treasury.errors import InputError
from treasury.promptpay import build_promptpay, checksum, name_of_code, payee_of_code, read_promptpay
from treasury.provider.client import Client
from treasury.provider.scan_to_pay import ScanToPayInfo

PUBLISHED = "00020101021129370016A000000677010111011300660000000005802TH53037646304"
"""A phone code of the shape that payment apps print, before its checksum."""


def test_the_checksum_is_ccitt_false() -> None:
    assert checksum("123456789") == "29B1"  # the check value of CRC-16/CCITT-FALSE


def test_a_code_as_apps_print_it_is_read() -> None:
    code = read_promptpay(PUBLISHED + checksum(PUBLISHED))
    assert (code.account, code.account_type, code.amount) == ("0066000000000", "phone", None)


accounts = st.sampled_from([10, 13, 15]).flatmap(lambda length: st.text("0123456789", min_size=length, max_size=length))
amounts = st.none() | st.decimals("0.01", "99999.99", places=2)


@given(accounts, amounts, st.none() | st.text("ABC xyz", min_size=1, max_size=25))
def test_what_is_built_is_read(account: str, amount: Decimal | None, name: str | None) -> None:
    code = read_promptpay(build_promptpay(account, amount, name))
    assert (code.amount, code.name) == (amount, name)
    assert code.account[-9:] == account[-9:]
    assert code.account_type == {10: "phone", 13: "national_id", 15: "ewallet"}[len(account)]


@given(st.text(max_size=80))
def test_anything_else_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        read_promptpay(text)


PHONE = "0016A00000067701011101130066812345678"
OTHER = "0016A00000067701011101130066999999999"
TAX = "0016A0000006770101110213" + "1" * 13
SHOP = "0016A0000006770101120115" + "2" * 15 + "0203INV"


@pytest.mark.parametrize(
    ("templates", "said"),
    [
        ((("29", PHONE), ("29", OTHER)), "twice"),
        ((("29", PHONE), ("54", "1.00"), ("54", "900.00")), "twice"),
        ((("29", PHONE + OTHER[20:]),), "twice"),
        ((("29", PHONE), ("30", SHOP)), "more than one account"),
        ((("29", PHONE + TAX[20:]),), "more than one account"),
        ((("29", PHONE + "041" + "2123456789012"),), "more than one account"),
    ],
)
def test_a_code_of_which_there_are_two_readings_is_refused(templates: tuple[tuple[str, str], ...], said: str) -> None:
    """Whoever pays it may take the first, and whoever approves it the last."""
    inner = "".join(f"{tag}{len(value):02d}{value}" for tag, value in templates)
    body = f"000201010212{inner}53037645802TH6304"
    with pytest.raises(InputError, match=said):
        read_promptpay(body + checksum(body))


@given(st.integers(0, 80), st.characters(codec="ascii"))
def test_one_changed_character_is_noticed(place: int, character: str) -> None:
    code = build_promptpay("0812345678", Decimal("12.50"))
    place %= len(code)
    changed = code[:place] + character + code[place + 1 :]
    if changed.upper() != code:
        with pytest.raises(InputError):
            read_promptpay(changed)


@pytest.mark.parametrize(
    "body",
    [
        "00020129370016A0000006770199990113006681234567853037645802TH6304",
        "00020129370016A0000006770101110113006681234567853037025802SG6304",
        "0002015303764" + "5802TH6304",
        "000201ZZ6304",
    ],
)
def test_codes_of_other_kinds_are_refused(client: Client, body: str) -> None:
    refusal = refused(client, ScanToPayInfo(qrcode=body + checksum(body)))
    assert (refusal.code, "qrcode" in refusal.message) == ("400", True)


def test_a_wrong_account_cannot_be_built() -> None:
    with pytest.raises(InputError):
        build_promptpay("12345")


def test_info_shows_the_terms(client: Client) -> None:
    terms = client.send(ScanToPayInfo(qrcode=build_promptpay("0812345678", Decimal(320), "Somchai")))
    assert (terms.qrcode_type, terms.amount, terms.currency) == ("prompt_pay", 320, "THB")
    assert (terms.order_currency, terms.fee_amount, terms.fee_currency) == ("USDT", 1, "USDT")
    assert (terms.beneficiary_name, terms.account_type) == ("Somchai", "phone")
    assert terms.exchange_rate is not None
    assert terms.order_amount == round(320 / terms.exchange_rate, 10)
    assert client.send(ScanToPayInfo(qrcode=build_promptpay("0812345678"))).order_amount is None


def test_an_amount_must_equal_the_codes(client: Client) -> None:
    fixed = build_promptpay("0812345678", Decimal("320.00"))
    refusal = refused(client, scan("fixed-1", qrcode=fixed, amount="321"))
    assert (refusal.code, "amount" in refusal.message) == ("400", True)
    assert refused(client, ScanToPayInfo(qrcode=fixed, amount="1")).code == "400"
    client.send(scan("fixed-2", qrcode=fixed, amount="320"))


def test_a_wrong_checksum_makes_no_other_payee() -> None:
    """A service may let it pass, and the same payment would be no duplicate."""
    code = build_promptpay("0812345678", Decimal(120), name="Example Shop")
    other = code[:-1] + ("0" if code[-1] != "0" else "1")
    assert payee_of_code(other) == payee_of_code(code)
    assert name_of_code(other) == "Example Shop"
