"""Personal values are found however a text writes them; ids, amounts and codes stay."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treasury.masking import known, mask_known, mask_text, nobody, normalise, tokens_of
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import personal_values

VALUES = ["DE02120300000000202051", "Erika Mustermann-Gabler", "erika.m@example.com", "0812 000 4711", "Ring 12, Köln"]
PERSONAL = known(VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "account DE02120300000000202051 is closed",
        "account de02120300000000202051 is closed",
        "IBAN DE02 1203 0000 0000 2020 51.",
        "DE02-1203-0000-0000-2020-51",
        "DE02.1203.0000.0000.2020.51",
        "DE02/1203/0000/0000/2020/51",
        "noDE02120300000000202051x",
        "(DE02120300000000202051)",
        "D E 0 2 1 2 0 3 0 0 0 0 0 0 0 0 2 0 2 0 5 1",
        "beneficiary ERIKA MUSTERMANN-GABLER unknown",
        "Gabler, Mustermann, Erika",
        "ErikaMustermannGabler",
        "mail to erika.m@example.com bounced",
        "ERIKA.M@EXAMPLE.COM",
        "call 08120004711",
        "call 0812-000-4711",
        "koln, KÖLN, Ko\u0308ln",
    ],
)
def test_a_known_value_is_masked_however_it_is_written(text: str) -> None:
    masked = normalise(mask_text(text, PERSONAL))
    for value in VALUES:
        assert normalise(value) not in masked
    for word in ("erika", "mustermann", "gabler", "koln", "202051", "4711erika", "08120004711"):
        assert word not in masked


def test_what_is_left_are_the_last_four_digits_of_an_account() -> None:
    assert mask_text("IBAN DE02 1203 0000 0000 2020 51 is closed", PERSONAL) == "IBAN ***2051 is closed"
    assert mask_text("Erika Mustermann", PERSONAL) == "*** ***"


@pytest.mark.parametrize(
    "text", ["x DE02120300000000202051 y", "IBAN DE02 1203 0000 0000 2020 51", "Erika", "a@b.example"]
)
def test_what_is_masked_stays_as_it_is(text: str) -> None:
    once = mask_text(text, PERSONAL)
    assert mask_text(once, PERSONAL) == once != text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("somebody.else+x@mail.example.com wrote", "*** wrote"),
        ("GB33BUKB20201555555555 is not ours", "***5555 is not ours"),
        ("gb33 bukb 2020 1555 5555 55", "***5555"),
        ("account 123456789 and 12345678", "account ***6789 and 12345678"),
        ("card 4111 1111 1111 1111", "card ***1111"),
        ("tel +62 (812) 000-4711", "tel +***4711"),
    ],
)
def test_what_looks_like_an_account_or_an_address_is_masked_whoever_it_is(text: str, masked: str) -> None:
    assert mask_text(text, nobody) == masked


@pytest.mark.parametrize(
    "text",
    [
        "insufficient balance",
        "code 202203",
        "amount is 150000000.00 at the service, 1500000000 here",
        "the quote's pay amount is 1234567890, not 100",
        "the quote's rate is 0.000000001234, less than 0.0000000013",
        "not funded: 164.1206026869 USDT_TRC20, 12345678901 BTC missing (603.01507538 USDT cannot be had: no rate)",
        "max_per_day, of which 12345.67890123 USDT are left today, allows no more",
        "max_per_trade (or max_share_percent), 1234567890 USDT, allows no more",
        "not funded: lacks 745.5048631295 USDT_TRC20; lacks 1234567890 IDR",
        "missing (run may: 5500.1234567891 USDT: it was recorded before and is paid first; orders on their way: "
        "2.50000000001 ETH: the service may still debit it)",
        "does not fit into the limit of 2026-11-21, 20000 USDT: 19999.9999999999 count already, and it adds 1234567890",
        "a debited 0.0000000001 USDT more than the plan allowed for",
        "order P-2026110300012345 does not exist",
        "the service knows tf-ab234567234567234567234567, which this ledger has not sent",
        "closed at 2026-11-21 23:31:35",
    ],
)
def test_amounts_times_codes_and_ids_of_ours_stay(text: str) -> None:
    assert mask_text(text, nobody, ("P-2026110300012345",)) == text


def test_a_part_of_a_birthday_hides_no_amount_and_no_day_of_ours() -> None:
    """`lacks 4.17 USDT` was `lacks 4.*** USDT` to whoever is born on a 17th; the birthday itself is masked anywhere."""
    is_personal = known(["1988-04-17"])
    for text in ("not funded: lacks 4.17 USDT", "by the limits of 2026-12-04 yet", "rate is 0.17, less than 0.18"):
        assert mask_text(text, is_personal) == text
    assert mask_text("1988-04-17, flat 17, since 1988-04-17 09:30", is_personal) == "***, flat ***, since *** 09:30"


def test_an_id_that_is_a_personal_value_is_none_of_ours() -> None:
    assert "202051" not in mask_text("order DE02120300000000202051", PERSONAL, ("DE02120300000000202051",))


def test_known_values_alone_leave_hashes_and_heights() -> None:
    assert mask_known("1234567890123", PERSONAL) == "1234567890123"
    assert mask_known("0812 0004711", PERSONAL) == "***4711"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("abcdeéZ0123456789", min_size=2, max_size=8), min_size=1, max_size=5),
    st.sampled_from(["", " ", "-", ".", "/", " - "]),
    st.sampled_from([str, str.upper, str.lower, str.title]),
    st.sampled_from(["", "to ", "(", "no: "]),
)
def test_any_value_is_found_in_a_sentence(words: list[str], between: str, case: object, before: str) -> None:
    value = " ".join(words)
    text = f"{before}{case(between.join(words))} !"  # type: ignore[operator]
    assert normalise(value) not in normalise(mask_text(text, known([value])))


def test_the_longest_text_is_masked_in_little_time() -> None:
    for text in ("a " * 500, "1 " * 500, "1" * 1_000, "a1" * 500, "@" * 1_000, "a@" * 500, "DE02 " * 200, "(" * 1_000):
        began = time.thread_time()
        mask_text(text, PERSONAL)
        assert time.thread_time() - began < 5  # a pattern that goes back and forth takes minutes


def test_the_personal_values_of_a_payment_are_found_at_every_level() -> None:
    party = {"account_no": "DE02120300000000202051", "bank_name": "Bank", "address": "Ring 1", "full_name": "Erika M"}
    body = {"pay_currency": "USDT", "individual_beneficiary": party, "beneficiaryFields": {"ifsc": "HDFC0000001"}}
    found = set(personal_values(CATALOGUE["fiat_payout_quote"], body))
    assert found == {"DE02120300000000202051", "Ring 1", "Erika M", "HDFC0000001"}
    pay = {"customer": '{"email": "p@example.com", "name": "Erika"}', "amount": "1"}
    assert set(personal_values(CATALOGUE["pay"], pay)) == {"p@example.com", "Erika"}
    assert list(tokens_of("a Ring 12")) == ["aring12", "ring", "12"]
