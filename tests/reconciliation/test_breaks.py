"""Breaks have a life: new, persisting, resolved, accepted; they age, and weigh by amount and age."""

from decimal import Decimal
from typing import Any

import pytest

from treasury.policy.model import Policy
from treasury.policy.tolerances import Tolerances
from treasury.reconciliation.breaks import DAY_MS, Acceptance, Break, Finding, KnownBreak, assign_lifecycle

NOW = 1_795_230_000_000
D = Decimal


def finding(**changes: Any) -> Finding:
    said = {"subject": "r1", "name": "amount_mismatch", "request_id": "r1", "currency": "USDT", "amount": D(10)}
    return Finding(**{**said, "difference": D(1), "evidence": "", **changes})


def lives(*findings: Finding, **night: Any) -> list[Break]:
    said = {"known": {}, "covered": frozenset(), "acceptances": {}, "policy": Policy(), "as_of": NOW}
    return assign_lifecycle(findings, **{**said, **night})


def accepted(found: Finding) -> dict[str, Acceptance]:
    return {found.id: Acceptance(found.id, found.name, found.difference, "Ana", "known", NOW - 1)}


def test_a_break_is_new_then_persists_under_the_same_id_whatever_its_class() -> None:
    [first] = lives(finding())
    known = {first.found.id: KnownBreak(first.found, first.first_seen)}
    [second] = lives(finding(name="missing_at_service"), known=known, as_of=NOW + 3 * DAY_MS)
    assert (first.lifecycle, first.age_days, first.age_bucket) == ("new", 0, "0-1")
    assert (second.lifecycle, second.age_days, second.age_bucket) == ("persisting", 3, "2-7")
    assert (second.found.id, second.first_seen) == (first.found.id, NOW)


def test_only_a_whole_report_that_asked_about_it_resolves_a_break() -> None:
    old = finding()
    known = {old.id: KnownBreak(old, NOW - DAY_MS)}
    [stays] = lives(known=known)
    assert (stays.lifecycle, stays.counts, stays.age_days) == ("persisting", True, 1)
    [gone] = lives(known=known, covered=frozenset({old.id}))
    assert (gone.lifecycle, gone.counts) == ("resolved", False)
    assert lives(known=known, is_whole=False) == []


@pytest.mark.parametrize("name", ["reversed_after_final", "orphan_success"])
def test_what_the_ledger_corrected_itself_stays_until_a_person_accepts_it(name: str) -> None:
    old = finding(name=name)
    night: dict[str, Any] = {"known": {old.id: KnownBreak(old, NOW)}, "covered": frozenset({old.id})}
    [stays] = lives(**night)
    assert (stays.lifecycle, stays.counts) == ("persisting", True)
    [gone] = lives(**night, acceptances=accepted(old))
    assert (gone.lifecycle, gone.accepted is not None) == ("resolved", True)


@pytest.mark.parametrize("name", ["reversed_after_final", "orphan_success"])
def test_what_else_is_found_takes_nobody_the_break_that_only_a_person_ends(name: str) -> None:
    """A warning does not take its place; what comes first does, until that is over."""
    old, warning, failed = finding(name=name), finding(name="fee_variance"), finding(name="query_failed")
    known = {old.id: KnownBreak(old, NOW)}
    assert [each.found.name for each in lives(warning, known=known)] == [name]
    assert [each.found.name for each in lives(warning, known=known, acceptances=accepted(old))] == ["fee_variance"]
    assert [each.found.name for each in lives(failed, known=known)] == ["query_failed"]
    night: dict[str, Any] = {"known": {old.id: KnownBreak(failed, NOW, old)}, "covered": frozenset({old.id})}
    [back] = lives(**night)
    assert (back.found.name, back.lifecycle, back.counts) == (name, "persisting", True)
    [gone] = lives(**night, acceptances=accepted(old))
    assert gone.lifecycle == "resolved"


@pytest.mark.parametrize(
    ("days", "bucket"), [(0, "0-1"), (1, "0-1"), (2, "2-7"), (7, "2-7"), (8, "8-30"), (30, "8-30"), (31, "over 30")]
)
def test_ages_fall_into_buckets(days: int, bucket: str) -> None:
    old = finding()
    [found] = lives(old, known={old.id: KnownBreak(old, NOW - days * DAY_MS)})
    assert (found.age_days, found.age_bucket) == (days, bucket)


@pytest.mark.parametrize(
    ("changes", "days", "severity"),
    [
        ({}, 0, "medium"),
        ({"amount": D(1000)}, 0, "high"),
        ({"amount": D("999.99")}, 0, "medium"),
        ({"difference": D(-1000)}, 0, "high"),
        ({"amount": D(1000), "currency": "JPY"}, 0, "medium"),
        ({"amount": D(1000), "currency": "USDT_TRC20"}, 0, "high"),
        ({}, 7, "medium"),
        ({}, 8, "high"),
        ({"name": "fee_variance", "amount": D(5000)}, 20, "low"),
    ],
)
def test_severity_is_of_amount_or_age(changes: dict[str, Any], days: int, severity: str) -> None:
    old = finding(**changes)
    policy = Policy(reconciliation=Tolerances(high_amounts={"USDT": D(1000)}))
    [found] = lives(old, known={old.id: KnownBreak(old, NOW - days * DAY_MS)}, policy=policy)
    assert found.severity == severity


def test_an_accepted_break_stays_visible_and_has_no_say_until_it_changes() -> None:
    old = finding()
    [found] = lives(old, acceptances=accepted(old))
    assert found.accepted is not None
    assert not found.counts
    for changed in (finding(difference=D(2)), finding(name="currency_mismatch")):
        [again] = lives(changed, acceptances=accepted(old))
        assert again.accepted is None
        assert again.counts


def test_what_could_not_be_read_is_never_accepted() -> None:
    unread = finding(name="query_failed", difference=D(0))
    [found] = lives(unread, acceptances=accepted(unread))
    assert found.accepted is None


def test_breaks_come_by_priority_then_amount_and_resolved_ones_last() -> None:
    gone = finding(subject="gone", name="query_failed")
    names = [("small", "amount_mismatch", D(1)), ("warn", "fee_variance", D(999)), ("large", "amount_mismatch", D(5))]
    found = [finding(subject=subject, name=name, amount=amount) for subject, name, amount in names]
    known = {gone.id: KnownBreak(gone, NOW)}
    ordered = lives(*found, known=known, covered=frozenset({gone.id}))
    assert [each.found.subject for each in ordered] == ["large", "small", "warn", "gone"]
