"""Signing: the text that is signed, rule by rule of public fact 1.2, and signatures that only the content satisfies."""

import base64
import copy
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from treasury.errors import ConfigurationError, InputError, NotTrusted
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import (
    canonical_text,
    clean,
    load_private_key,
    load_public_key,
    read_notification,
    sign,
    verify,
)

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)

WORKED_EXAMPLE = {
    "partner_id": "900001",
    "sign_type": "RSA",
    "timestamp": "1790000000000",
    "nonce": "n-1",
    "request_id": "po-7",
    "quote_mode": "dest",
    "pay_amount": "",
    "receive_amount": "25.00",
    "beneficiary_country": "DE",
    "beneficiary_bank_id": "b9",
    "beneficiaryFields": {"swift": "AAAADEFF", "iban": None},
    "individual_beneficiary": {
        "last_name": "Muster",
        "first_name": "Zoë",
        "middle_name": "",
        "address": "Ring 1/2, Köln",
    },
}
WORKED_TEXT = (
    'beneficiaryFields={"swift":"AAAADEFF"}&beneficiary_bank_id=b9&beneficiary_country=DE'
    '&individual_beneficiary={"address":"Ring 1/2, Köln","first_name":"Zoë","last_name":"Muster"}'
    "&nonce=n-1&partner_id=900001&quote_mode=dest&receive_amount=25.00&request_id=po-7&sign_type=RSA"
    "&timestamp=1790000000000"
)


def test_the_worked_example_of_the_public_facts() -> None:
    assert canonical_text(WORKED_EXAMPLE) == WORKED_TEXT
    assert canonical_text(clean(WORKED_EXAMPLE)) == WORKED_TEXT


VECTORS: list[tuple[str, dict[str, Any], str]] = [
    ("the signature itself is left out", {"a": "1", "sign": "xyz"}, "a=1"),
    ("null, empty and white space are left out", {"a": None, "b": "", "c": " \t\n", "d": "1"}, "d=1"),
    ("a value is not trimmed", {"a": " 1 "}, "a= 1 "),
    ("the text null is left out", {"a": "null", "b": "1"}, "b=1"),
    ("the text NULL is a value", {"a": "NULL", "b": "nullable"}, "a=NULL&b=nullable"),
    ("zero and false are values", {"a": 0, "b": False, "c": "0"}, "a=0&b=false&c=0"),
    ("booleans are lower case", {"a": True, "b": [True, False]}, "a=true&b=[true,false]"),
    ("numbers are their digits", {"status": 99, "ms": 1790000000000}, "ms=1790000000000&status=99"),
    ("keys sort by code unit: upper case, underscore, lower case", {"a": "1", "_": "2", "A": "3"}, "A=3&_=2&a=1"),
    (
        "so beneficiaryFields comes before beneficiary_bank_id",
        {"beneficiary_bank_id": "1", "beneficiaryFields": {"x": "2"}},
        'beneficiaryFields={"x":"2"}&beneficiary_bank_id=1',
    ),
    ("values are not URL-encoded", {"a": "x&y=z %2F+é/"}, "a=x&y=z %2F+é/"),
    ("non-ASCII and slashes stay inside objects", {"a": {"k": "Köln/😀"}}, 'a={"k":"Köln/😀"}'),
    ("quotes and line breaks inside objects are JSON", {"a": {"k": 'x"y\n'}}, 'a={"k":"x\\"y\\n"}'),
    (
        "objects are compact, sorted and without blanks at every level",
        {"o": {"b": {"z": "1", "y": None, "a": "2"}, "a": " ", "A": "3"}},
        'o={"A":"3","b":{"a":"2","z":"1"}}',
    ),
    ("lists keep their order and lose blanks", {"l": ["b", "", None, "a"]}, 'l=["b","a"]'),
    ("objects in lists are sorted", {"l": [{"b": "1", "a": "2", "c": ""}]}, 'l=[{"a":"2","b":"1"}]'),
    ("an empty object is left out", {"a": {}, "b": "1"}, "b=1"),
    ("nothing is an empty text", {}, ""),
]


@pytest.mark.parametrize(("fields", "text"), [v[1:] for v in VECTORS], ids=[v[0] for v in VECTORS])
def test_signed_text(fields: dict[str, Any], text: str) -> None:
    assert canonical_text(fields) == text


def test_keys_outside_the_basic_plane_sort_as_java_does() -> None:
    assert canonical_text({"\U0001f600": "1", "\uff21": "2"}) == "\U0001f600=1&\uff21=2"


def test_the_text_null_can_be_kept() -> None:
    rules = ServiceRules(null_text_is_blank=False)
    assert canonical_text({"a": "null", "o": {"b": "null"}}, rules) == 'a=null&o={"b":"null"}'


@pytest.mark.parametrize("with_empty", [False, True])
def test_a_notification_with_an_empty_object_verifies_however_it_was_signed(with_empty: bool) -> None:
    fields: dict[str, Any] = {"request_id": "r", "metadata": {}}
    text = canonical_text(fields, with_empty=with_empty)
    assert text == ("metadata={}&request_id=r" if with_empty else "request_id=r")
    signed = base64.b64encode(KEY.sign(text.encode(), padding.PKCS1v15(), hashes.SHA1())).decode()
    verify({**fields, "sign": signed}, KEY.public_key())
    with pytest.raises(NotTrusted):
        verify({**fields, "metadata": {"a": "1"}, "sign": signed}, KEY.public_key())


def test_what_is_sent_is_clean_at_every_level() -> None:
    dirty = {"b": "1", "a": {"x": "", "y": {"z": None}}, "l": ["", {}], "n": "null", "o": {"k": "v", "e": []}}
    assert clean(dirty) == {"b": "1", "o": {"k": "v"}}
    assert list(clean({"b": "1", "a": "2"})) == ["a", "b"]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(texts.filter(lambda key: key != "sign"), values, max_size=6)


@given(bodies)
def test_cleaning_twice_is_cleaning_once_and_does_not_change_the_text(body: dict[str, Any]) -> None:
    cleaned = clean(body)
    assert clean(cleaned) == cleaned
    assert canonical_text(clean(cleaned)) == canonical_text(cleaned)


@settings(max_examples=40, deadline=None)
@given(bodies)
def test_what_was_signed_verifies_in_any_order_and_through_json(body: dict[str, Any]) -> None:
    sent = clean(body)
    sent["sign"] = sign(sent, KEY)
    verify(json.loads(json.dumps(sent)), KEY.public_key())
    verify(dict(reversed(sent.items())), KEY.public_key())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_character_fails(data: st.DataObject) -> None:
    signed: dict[str, Any] = copy.deepcopy(clean(WORKED_EXAMPLE))
    signed["sign"] = sign(signed, KEY)
    key = data.draw(st.sampled_from([key for key in signed if key != "sign"]))
    holder, member = (signed[key], next(iter(signed[key]))) if isinstance(signed[key], dict) else (signed, key)
    text = holder[member]
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=33, max_codepoint=0x2FF).filter(lambda c: c != text[place]))
    holder[member] = text[:place] + other + text[place + 1 :]
    with pytest.raises(NotTrusted):
        verify(signed, KEY.public_key())


@pytest.mark.parametrize("change", [{"extra": "1"}, {"nonce": ""}, {"sign_type": None}, {"quote_mode": "null"}])
def test_an_added_or_removed_field_fails(change: dict[str, Any]) -> None:
    signed = {**WORKED_EXAMPLE, "sign": sign(WORKED_EXAMPLE, KEY)}
    with pytest.raises(NotTrusted):
        verify(signed | change, KEY.public_key())


def test_another_key_and_another_hash_fail() -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signed = {**WORKED_EXAMPLE, "sign": sign(WORKED_EXAMPLE, KEY)}
    with pytest.raises(NotTrusted):
        verify(signed, other.public_key())
    with pytest.raises(NotTrusted):
        verify(signed, KEY.public_key(), ServiceRules(hash="SHA256"))


def test_sha256_can_be_chosen() -> None:
    rules = ServiceRules(hash="SHA256")
    verify({**WORKED_EXAMPLE, "sign": sign(WORKED_EXAMPLE, KEY, rules)}, KEY.public_key(), rules)


@pytest.mark.parametrize("signature", [None, "", "%%%", "äöü", 7, base64.b64encode(b"short").decode()])
def test_what_is_no_signature_is_not_trusted(signature: object) -> None:
    with pytest.raises(NotTrusted):
        verify({**WORKED_EXAMPLE, "sign": signature}, KEY.public_key())


@pytest.mark.parametrize("kept", [True, False])
def test_a_notification_that_signs_the_text_null_or_drops_it_is_trusted(kept: bool) -> None:
    fields = {"order_no": "1", "reason": "null"}
    signature = sign(fields, KEY, ServiceRules(null_text_is_blank=not kept))
    verify({**fields, "sign": signature}, KEY.public_key())


def test_a_notification_is_verified_over_all_that_arrived() -> None:
    fields = {"order_no": "1", "status": 99, "extra_info": '{"txnHash": "0x1"}', "customer_ref_id": "c", "reason": ""}
    body = json.dumps({**fields, "sign": sign(fields, KEY)}).encode()
    assert read_notification(body, KEY.public_key())["status"] == 99
    with pytest.raises(NotTrusted):
        read_notification(body.replace(b"99", b"44"), KEY.public_key())


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"{", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_no_notification(body: bytes) -> None:
    with pytest.raises(InputError):
        read_notification(body, KEY.public_key())


def private_forms() -> dict[str, str]:
    pkcs8 = KEY.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    bare = base64.b64encode(pkcs8).decode()
    pem = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return {
        "bare": bare,
        "bare in lines": "\n".join(bare[i : i + 64] for i in range(0, len(bare), 64)),
        "pem": pem,
        "pem with CRLF": pem.replace("\n", "\r\n"),
    }


def public_forms() -> dict[str, str]:
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return {
        "bare": base64.b64encode(KEY.public_key().public_bytes(serialization.Encoding.DER, spki)).decode(),
        "pem": KEY.public_key().public_bytes(serialization.Encoding.PEM, spki).decode(),
    }


@pytest.mark.parametrize("form", ["bare", "bare in lines", "pem", "pem with CRLF"])
def test_a_private_key_is_read_as_pem_or_bare_base64(form: str) -> None:
    assert load_private_key(private_forms()[form]).private_numbers() == KEY.private_numbers()


@pytest.mark.parametrize("form", ["bare", "pem"])
def test_a_public_key_is_read_as_pem_or_bare_base64(form: str) -> None:
    assert load_public_key(public_forms()[form]).public_numbers() == KEY.public_key().public_numbers()


def encrypted_pem() -> str:
    protection = serialization.BestAvailableEncryption(b"secret")
    return KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection).decode()


def elliptic_pem() -> str:
    return (
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("not a key!", "neither PEM nor base64"),
        (base64.b64encode(b"not a key").decode(), "cannot be read"),
        (public_forms()["pem"], "cannot be read"),
        (encrypted_pem(), "without a passphrase"),
        (elliptic_pem(), "not an RSA key"),
    ],
    ids=["empty", "text", "base64 of text", "a public key", "with a passphrase", "elliptic"],
)
def test_what_is_no_private_key_is_explained_and_not_shown(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_private_key(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("text", ["", "not a key!", base64.b64encode(b"not a key").decode(), private_forms()["pem"]])
def test_what_is_no_public_key_is_explained(text: str) -> None:
    with pytest.raises(ConfigurationError, match="the public key"):
        load_public_key(text)
