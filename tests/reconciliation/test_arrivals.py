"""Money that was expected and money that arrived: matched by id or by address and exact amount, else only proposed."""

import random
import time
from decimal import Decimal

import pytest

from tests.reconciliation.arrivals import ARRIVALS, Side, deposit, invoice
from tests.reconciliation.sides import AS_OF
from treasury.policy.model import Policy, parse_policy
from treasury.reconciliation.arrivals import MOST_A_DAY, judge_arrivals, paid_by_deposits
from treasury.reconciliation.breaks import Finding

POLICY = Policy()


def found(*sides: Side, issued: tuple[str, ...] = (), policy: Policy = POLICY) -> list[Finding]:
    return judge_arrivals(list(sides), set(issued), policy.reconciliation, AS_OF).findings


def named(*sides: Side, issued: tuple[str, ...] = (), policy: Policy = POLICY) -> dict[str, str]:
    return {each.subject: each.name for each in found(*sides, issued=issued, policy=policy)}


@pytest.mark.parametrize(("expected", "sides"), ARRIVALS)
def test_what_came_is_matched_proposed_or_named(expected: dict[str, str], sides: list[Side]) -> None:
    for _ in range(3):
        assert named(*sides, issued=("ann's",)) == expected
        random.Random(7).shuffle(sides)


def test_a_proposal_says_what_is_alike_and_what_is_missing() -> None:
    [said] = found(invoice(age=3, status=88), deposit(amount="99.5", age=1))
    assert (said.name, said.difference, said.amount) == ("likely_paid", Decimal("0.5"), Decimal(100))
    for part in ("row-i of november", "deposit d", "99.5 USDT", "2 days after", "***4711"):
        assert part in said.evidence


def test_a_second_payment_to_the_address_of_an_invoice_says_whose_address_it_is() -> None:
    [said] = found(invoice(age=3), deposit("one", to="address of i", age=2.5), deposit("two", to="address of i"))
    assert (said.subject, said.name) == ("two", "unexpected_deposit")
    assert said.evidence.endswith("to the address of invoice i, which it does not pay")


def test_nobody_is_named_whole() -> None:
    [said] = found(deposit())
    assert "from ***4711" in said.evidence
    [said] = found(deposit(sender=None))
    assert "from an unknown sender" in said.evidence


def test_a_policy_says_how_alike_and_how_late() -> None:
    exact = parse_policy({"no_limits": "a case", "reconciliation": {"likely_bps": 0}}, "p")
    assert named(invoice(), deposit(amount="99.99"), policy=exact) == {"d": "unexpected_deposit"}
    slow = parse_policy({"no_limits": "a case", "reconciliation": {"invoice_days": 30, "likely_days": 40}}, "p")
    assert named(invoice(age=20), policy=slow) == {}
    assert named(invoice(age=35, status=88), deposit(), policy=slow) == {"i": "likely_paid"}


def test_what_is_expected_is_counted_with_its_age() -> None:
    sides = [
        invoice("a", age=5, status=99),
        invoice("b", amount="50"),
        invoice("c", amount="70", age=3, status=88),
        invoice("e", amount="20"),
        deposit("d", amount="50", to="address of b"),
        deposit("f", amount="20"),
        deposit("g", amount="7"),
        deposit("h", amount="8", to="ann's"),
    ]
    counted = judge_arrivals(sides, {"ann's"}, POLICY.reconciliation, AS_OF).counts
    assert counted == {
        "invoices": {"paid": 2, "proposed": 1, "unpaid": 1},
        "deposits": {"matched": 1, "proposed": 1, "to an issued address": 1, "unexpected": 1},
        "oldest_unpaid_days": 3,
    }
    assert judge_arrivals([], set(), POLICY.reconciliation, AS_OF).counts is None


def test_many_are_paired_in_little_time() -> None:
    """Of one amount each, the oldest first; and of amounts that are only near: trying every pair would take an hour."""
    number = 10_000
    sides = [invoice(f"i{each:05}", age=3 - each / number, to=None) for each in range(number)]
    sides += [deposit(f"d{each:05}", age=2 - each / number) for each in range(number)]
    sides += [invoice(f"n{each:05}", amount="500", age=3, to=None) for each in range(number)]
    sides += [deposit(f"e{each:05}", amount=f"{501 + each / number:.4f}", age=2) for each in range(number)]
    began = time.process_time()
    counts = judge_arrivals(sides, set(), POLICY.reconciliation, AS_OF).counts
    took = time.process_time() - began
    assert took < 30, took
    assert counts is not None
    assert counts["invoices"] == {"proposed": number + MOST_A_DAY, "unpaid": number - MOST_A_DAY}


def test_what_is_nearest_is_proposed_first() -> None:
    three = [invoice(name, amount=amount, age=3) for name, amount in (("a", "100"), ("b", "100.3"), ("c", "100.6"))]
    said = {each.subject: each.evidence for each in found(*three, deposit("d", "100.5", age=2), deposit("e", "99.9"))}
    assert "deposit e" in said["a"]
    assert "deposit d" in said["c"]
    assert "nothing came" in said["b"]


@pytest.mark.parametrize(("expected", "sides"), ARRIVALS)
def test_a_run_of_invoices_and_the_report_call_the_same_deposits_payments(
    expected: dict[str, str], sides: list[Side]
) -> None:
    matched = (judge_arrivals(sides, {"ann's"}, POLICY.reconciliation, AS_OF).counts or {}).get("deposits", {})
    paid = paid_by_deposits(sides)
    assert len(paid) == matched.get("matched", 0)
    assert set(paid.values()).isdisjoint(name for name, kind in expected.items() if kind == "unexpected_deposit")
