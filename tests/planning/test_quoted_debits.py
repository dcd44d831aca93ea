"""Tests of what a payment that fixes what is received is expected to debit, before its quote says so."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treasury.orders.records import Quote
from treasury.planning.payout_planner import SeenFee, expected_debit, expected_fee, seen_fees

D = Decimal
TINY = D("1e-20")
amounts = st.decimals("0.01", "100000", places=2)


def quote(paid: str | None, received: str | None, rate: str | None, fee: str | None, currency: str = "USDT") -> Quote:
    values = {"pay_currency": "USDT", "receive_currency": "USD", "fee_currency": currency}
    given = {"pay_amount": paid, "receive_amount": received, "rate": rate, "fee": fee}
    facts = {name: None if text is None else D(text) for name, text in given.items()}
    return Quote.of(Quote.unanswered() | values | facts)


@pytest.mark.parametrize(
    ("seen", "fee"),
    [
        (quote("101.25", "100", "1", "1.25"), "1.25"),  # inside what is paid
        (quote("101.25", "100", "1", None), "1.25"),  # and not named
        (quote("100.00", "98.75", "0.99", "1.25"), "1.25"),  # the document's example, which fits no formula
        (quote("110", "100", "1", "9", "USD"), "10"),  # taken of what is received
        (quote("100", "100", "1", "0"), "0"),
        (quote("100", "100", None, "1.25"), "1.25"),
        (quote("99", "100", "1", None), "0"),  # never below nothing
    ],
)
def test_a_quote_says_what_it_took(seen: Quote, fee: str) -> None:
    assert [each.fee for each in seen_fees([seen])] == [D(fee)]


def test_a_quote_without_amounts_says_nothing() -> None:
    assert seen_fees([quote(None, "100", "1", "1"), quote("100", None, "1", "1"), quote("100", "0", "1", "1")]) == ()


@given(st.lists(amounts, min_size=1, max_size=5), amounts, amounts)
def test_a_fixed_fee_and_a_share_are_expected_as_they_are(sizes: list[Decimal], amount: Decimal, fee: Decimal) -> None:
    fixed = [SeenFee(size, fee) for size in sizes]
    assert expected_fee(amount, fixed) > fee - TINY
    if min(sizes) <= amount <= max(sizes):
        assert abs(expected_fee(amount, fixed) - fee) < TINY
    share = [SeenFee(size, size / 64) for size in sizes]  # exact in every amount drawn
    assert expected_fee(amount, share) > amount / 64 - TINY
    if amount >= min(sizes):
        assert abs(expected_fee(amount, share) - amount / 64) < TINY


def test_the_ceiling_is_what_it_debits_at_the_most_and_all_that_is_known_without_a_quote() -> None:
    one = (SeenFee(D(100), D(2)),)
    assert expected_debit(D(100), D(1), None, (), D("1.1")) == D(110)
    assert expected_debit(D(100), D(1), None, one, D("1.1")) == D("112.2")
    assert expected_debit(D(100), D(1), D(500), one, D("1.1")) == D("112.2")
    assert expected_debit(D(100), D(1), D(110), one, D("1.1")) == D(110)
    assert expected_debit(D(100), D(1), D(500), (), D("1.1")) == D(500)
    assert expected_debit(D(100), None, D(500), one, D("1.1")) == D(500)
    assert expected_debit(D(100), None, None, one, D("1.1")) is None
