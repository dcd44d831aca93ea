"""Amounts: 30 digits before the point and 18 after it, and not one of them is lost."""

from decimal import Decimal, localcontext
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.runs import sheet
from treasury.money import EXACT, canonical, parse_amount, round_down, round_up
from treasury.planning.payout_planner import plan_payouts
from treasury.sheets.beneficiaries import read_beneficiaries

amounts = st.integers(0, 10**48 - 1).map(lambda units: f"{units // 10**18}.{units % 10**18:018}")


@given(amounts)
def test_the_one_way_to_write_an_amount_is_that_amount(text: str) -> None:
    amount = parse_amount(text)
    assert parse_amount(canonical(amount)) == amount
    assert canonical(parse_amount(canonical(amount))) == canonical(amount)


@given(amounts, st.integers(0, 18))
def test_rounding_takes_less_than_a_unit_off_or_on(text: str, digits: int) -> None:
    amount, unit = parse_amount(text), Decimal(1).scaleb(-digits)
    with localcontext(EXACT):
        assert round_down(amount, digits) <= amount < round_down(amount, digits) + unit
        assert round_up(amount, digits) - unit < amount <= round_up(amount, digits)


def test_payments_that_differ_in_the_last_of_their_digits_are_two(tmp_path: Path) -> None:
    most = "123456789012345678901"
    plans = [
        plan_payouts("run", read_beneficiaries(sheet(tmp_path, ("a", f"{most}.{end}", "12345670001"))))
        for end in ("000000010", "000000020")
    ]
    assert plans[0].sha256 != plans[1].sha256
    contents = [next(iter(plan.intents)).bound_content for plan in plans]
    assert contents[0] != contents[1]
