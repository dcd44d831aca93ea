"""Whatever an answer holds, it is read within bounds: what comes out is clean and short, or an error that says why."""

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treasury.errors import OutcomeUnknown, Refused
from treasury.provider.answers import seconds_ahead
from treasury.provider.bounded_json import MAX_DEPTH, read_json
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.conversion import ConversionRate
from treasury.provider.envelope import read_reply
from treasury.provider.fiat_payouts import FiatPayoutQuote, QueryFiatPayout
from treasury.provider.funds import EstimateFee
from treasury.provider.operation import Operation, Reply, wire_name
from treasury.provider.orders import Payout, QueryTransaction, Withdraw
from treasury.texts import STAND_IN, UNSAFE, clean_text, cut_text, is_clean

SECONDS = 1.0
"""How long any answer may take to be read here."""


def body(data: object, **envelope: Any) -> bytes:
    return json.dumps({"code": 200, "message": "success", "data": data, **envelope}).encode()


def raw(**members: str) -> bytes:
    """An answer whose members of data are these texts of JSON."""
    inside = ",".join(f'"{name}":{text}' for name, text in members.items())
    return b'{"code":200,"message":"success","data":{%b}}' % inside.encode("utf-8", "surrogatepass")


# --- depth ---


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 200_000])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_too_deep_is_no_json(depth: int, opens: str, closes: str) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match="nested"):
        read_json((opens * depth + "1" + closes * depth).encode())
    assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize(
    "text", ["[" * MAX_DEPTH + "]" * MAX_DEPTH, '["' + "[{" * 500 + '\\"["]', "[" + "[]," * 9999 + "1]"]
)
def test_what_is_wide_or_only_looks_deep_is_read(text: str) -> None:
    assert read_json(text.encode()) == json.loads(text)


def test_deep_metadata_is_unreadable_metadata_and_nothing_more() -> None:
    deep = "[" * 200_000 + "]" * 200_000
    for metadata in (deep, '{"a":' * 40 + "1" + "}" * 40, '{"a": "\\', "5", "\ud800"):
        seen = read_reply(QueryTransaction, 200, body({"status": 99, "order_no": "n", "metadata": metadata})).as_order()
        assert (seen.unreadable, seen.status) == ("metadata", 99)


@pytest.mark.parametrize("metadata", [{"networkFee": 1}, [0.5], True, 7])
def test_metadata_that_is_no_text_stops_nothing(metadata: object) -> None:
    reply = read_reply(QueryTransaction, 200, body({"status": 99, "metadata": metadata}))
    assert reply.status == 99
    json.dumps(reply.redacted(str))


def test_numbers_in_metadata_that_is_an_object_stay_exact() -> None:
    reply = read_reply(QueryTransaction, 200, raw(metadata='{"networkFee": 0.10, "txnHash": {"a": 1e999999999}}'))
    assert reply.redacted(str)["metadata"] == {"networkFee": "0.10", "txnHash": "***"}


# --- numbers ---


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0E-18", "0.000000000000000000"),
        ("1E-8", "0.00000001"),
        ("1.5E+3", "1500"),
        ("1.5e3", "1500"),
        ("12.50", "12.50"),
        ("-3", "-3"),
        ("9" * 30, "9" * 30),
        ("0." + "1" * 18, "0." + "1" * 18),
    ],
)
@pytest.mark.parametrize("quote", ['"', ""])
def test_amounts_are_read_as_java_prints_them_and_become_plain(text: str, amount: str, quote: str) -> None:
    found = read_reply(Payout, 200, raw(order_amount=f"{quote}{text}{quote}")).order_amount
    assert format(found, "f") == amount
    assert found == Decimal(amount)


BEYOND = ["1e200000000", "1E+31", "1E-19", "0E-19", "9" * 31, "9" * 5_000, "0." + "1" * 19, "1e" + "9" * 500_000]


@pytest.mark.parametrize("text", BEYOND, ids=lambda text: text[:12])
@pytest.mark.parametrize("quote", ['"', ""])
def test_an_amount_beyond_the_bounds_is_refused_at_once(text: str, quote: str) -> None:
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown, match="order_amount"):
        read_reply(Payout, 200, raw(order_amount=f"{quote}{text}{quote}"))
    assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize("text", [*BEYOND, '"twelve"', "[]", "{}", "true"], ids=lambda text: text[:12])
@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (Withdraw, "fee"),
        (Withdraw, "arrive_amount"),
        (QueryTransaction, "fee_amount"),
        (QueryTransaction, "arrive_amount"),
        (QueryFiatPayout, "fee_amount"),
    ],
)
def test_a_fee_that_cannot_be_read_is_told_and_the_payment_is_known(
    operation: type[Operation[Any]], name: str, text: str
) -> None:
    content = raw(**{"order_no": '"n-1"', "status": "99", name: text})
    seen = read_reply(operation, 200, content).as_order()
    assert (seen.order_no, seen.status, seen.unreadable) == ("n-1", 99, name)


@pytest.mark.parametrize("name", ["exchange_rate", "create_time", "finish_time"])
@pytest.mark.parametrize("text", ["1e200000000", "-1e40", "9" * 31, '"2026-11-27T05:00:00+08:00"', "[]", "true"])
def test_a_rate_or_time_of_a_payout_that_cannot_be_read_is_told_and_the_payment_is_known(name: str, text: str) -> None:
    content = raw(**{"order_no": '"n-1"', "status": "99", name: text})
    seen = read_reply(QueryFiatPayout, 200, content).as_order()
    assert (seen.order_no, seen.status, seen.unreadable) == ("n-1", 99, name)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("0.00006329113924050632911392405063291139", "0.000063291139240506"),
        ("6.329113924050633E-05", "0.000063291139240506"),
        ("15800.0000000000000000000", "15800"),
        ("0.99", "0.99"),
    ],
)
@pytest.mark.parametrize("quote", ['"', ""])
@pytest.mark.parametrize(
    ("operation", "name"),
    [(FiatPayoutQuote, "exchange_rate"), (QueryFiatPayout, "exchange_rate"), (ConversionRate, "rate")],
)
def test_a_quotient_is_a_rate(operation: type[Operation[Any]], name: str, text: str, rate: str, quote: str) -> None:
    """A service that divides has more digits than an amount; each of its quotes was unreadable."""
    assert getattr(read_reply(operation, 200, raw(**{name: f"{quote}{text}{quote}"})), name) == Decimal(rate)


def test_a_quotes_fee_and_rate_are_strict() -> None:
    for name in ("fee_amount", "exchange_rate", "pay_amount", "receive_amount"):
        with pytest.raises(OutcomeUnknown, match=name):
            read_reply(FiatPayoutQuote, 200, raw(**{name: "1e99"}))


@pytest.mark.parametrize("text", [str(2**31), str(-(2**31) - 1), "9" * 40, "9" * 5_000, "1e9", "true"])
def test_a_status_outside_32_bits_cannot_be_read(text: str) -> None:
    with pytest.raises(OutcomeUnknown, match="status"):
        read_reply(QueryTransaction, 200, raw(status=text))


def test_times_and_places_have_bounds() -> None:
    with pytest.raises(OutcomeUnknown, match="expire_time"):
        read_reply(FiatPayoutQuote, 200, raw(expire_time="9" * 20))
    with pytest.raises(OutcomeUnknown, match="decimals"):
        read_reply(EstimateFee, 200, raw(decimals="99999999"))


# --- texts ---

HOSTILE = {
    "NUL": "A\x00B",
    "201 characters": "x" * 201,
    "100,000 characters": "y" * 100_000,
    "a lone surrogate": "A\ud800B",
    "an escape of the terminal": "A\x1b[31;1mB\x1b]0;title\x07",
    "C1": "A\x9b31mB",
    "a change of direction": "A\u202eB\u2066C",
    "line ends": "A\r\nB\tC",
    "the end of the text": "A\x04\x1a\x7fB",
}


def text_fields() -> Iterator[tuple[type[Operation[Any]], str]]:
    for operation in CATALOGUE.values():
        model = operation.reply_type()
        for name, field in model.model_fields.items():
            if "str" in str(field.annotation) and "dict" not in str(field.annotation):
                yield operation, wire_name(model, name)


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from texts(name)
            yield from texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from texts(member)


def test_every_model_with_texts_is_looked_at() -> None:
    assert len(set(text_fields())) > 60


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_text_is_kept_as_it_came_or_cleaned_and_cut_or_makes_the_answer_unreadable(hostile: str) -> None:
    for operation, name in text_fields():
        try:
            reply = read_reply(operation, 200, body({name: hostile}))
        except OutcomeUnknown as error:
            assert name in error.why or name.strip("_") in error.why  # noqa: PT017 - either ending is right, each has its rule
        else:
            check_clean(reply, hostile)


def check_clean(reply: Reply, sent: str) -> None:
    for text in texts([reply.model_dump(mode="json"), reply.redacted(str), reply.envelope]):
        assert not UNSAFE.search(text)
        text.encode()
    for name in type(reply).model_fields:
        value = getattr(reply, name)
        if isinstance(value, str) and value != sent:
            assert len(value) <= 500 or name == "metadata"
            assert STAND_IN in value or "(cut, " in value or value.endswith("…") or " " in value


IDS = [
    *((Payout, name) for name in ("order_no", "request_id", "currency")),
    *((QueryTransaction, name) for name in ("order_no", "request_id", "currency")),
    *((FiatPayoutQuote, name) for name in ("order_no", "pay_currency", "fee_currency")),
    (CATALOGUE["conversion_quote"], "quoteId"),
    *((CATALOGUE["query_card_user"], name) for name in ("user_id", "kyc_status", "kyc_level")),
]


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("field", IDS, ids=lambda field: f"{field[0].__name__}.{field[1]}")
def test_what_identifies_is_never_changed(field: tuple[type[Operation[Any]], str], hostile: str) -> None:
    with pytest.raises(OutcomeUnknown, match=field[1].removesuffix("Id")):
        read_reply(field[0], 200, body({field[1]: hostile}))


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_errors_are_clean_and_short(hostile: str) -> None:
    with pytest.raises(Refused) as caught:
        read_reply(Payout, 200, body(None, code=hostile, message=hostile))
    error = caught.value
    assert error.code is not None
    assert len(error.code) <= 40
    assert len(error.message) <= 500
    assert not UNSAFE.search(f"{error.code}{error.message}{error}")
    assert len(hostile) <= 500 or error.message.endswith("(cut, 100,000 characters)")


def test_names_that_the_interface_does_not_know_are_few_short_and_clean() -> None:
    data = {f"{number}\x1b[0m" + "n" * 1_000: {"deep": ["x" * 10_000]} for number in range(500)}
    shown = read_reply(QueryTransaction, 200, body({"status": 99, **data})).redacted(str)
    assert shown["more"] == "(cut, 500 members)"
    assert len(json.dumps(shown)) < 10_000
    assert not any(UNSAFE.search(text) for text in texts(shown))


def test_a_text_that_is_cut_says_so_and_is_cut_once() -> None:
    cut = cut_text("word " * 1_000)
    assert (len(cut), cut[-25:]) == (500, "d … (cut, 5,000 characters)"[-25:])
    assert cut_text(cut) == cut
    assert cut_text("x" * 50, 5) == "xxxx…"
    assert clean_text("a\r\n\tb\x1b[1mc\u202ed") == f"a b{STAND_IN}[1mc{STAND_IN}d"
    assert is_clean("Zażółć 日本")
    assert not is_clean("a\nb")


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e50, 1e50).filter(lambda number: number == 0 or abs(number) > 1e-50)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(ANY_JSON)
@example({"\x08": None})
@example("\x0c")
def test_json_is_read_as_it_is_but_for_unsafe_characters(value: Any) -> None:
    read = read_json(json.dumps(value).encode())
    assert not any(UNSAFE.search(text) for text in texts(read))
    if not any(UNSAFE.search(text) for text in texts(value)):
        assert json.dumps(read, default=float) == json.dumps(value)


@pytest.mark.parametrize("content", [b"\xff\xfe\xfd", b"\x80", b'"\xed\xa0\x80"', "[1]".encode("utf-16"), b"\x00\x00"])
def test_bytes_that_are_no_text_are_an_unreadable_answer(content: bytes) -> None:
    with pytest.raises(OutcomeUnknown):
        read_reply(Payout, 200, content)


@pytest.mark.parametrize(
    "date", ["", "soon", "Mon, 99 Nov 2026 99:99:99 GMT", "Thu, 01 Jan 0001 00:00:00", "1 Jan " + "9" * 30, "Z" * 199]
)
def test_a_date_that_is_none_shows_no_time(date: str) -> None:
    assert seconds_ahead({"date": date}, 0.0) is None or isinstance(seconds_ahead({"date": date}, 0.0), float)
