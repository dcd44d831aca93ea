"""Limits and the policy in force are judged when a payment is recorded, and again before one that waited leaves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import paying
from tests.engine.judged import PERSON, adopt, at_submission, start
from tests.engine.runs import sheet
from tests.moved_clock import clock_of
from treasury.errors import LimitExceeded, PolicyChanged
from treasury.ledger.policies import policy_in_force
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import Hold
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.texts import as_it_looks

pytestmark = pytest.mark.both_databases

OpenDesk = Callable[..., Desk]
DAY = 86_400


def tomorrow(desk: Desk) -> None:
    clock_of(desk).move(DAY)


def test_what_waited_over_midnight_is_judged_by_the_new_day(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    waited = sheet(tmp_path, ("a", "40", "12345670001"), ("b", "40", "12345670002"))
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, waited, "waited") == {"a": "not_sent", "b": "not_sent"}
    with pytest.raises(LimitExceeded, match="80 count already"):
        paying.commit(desk, sheet(tmp_path, ("c", "21", "12345670003"), name="c.csv"), "more")
    lift_stop(desk.ledger, "Ada Example")
    tomorrow(desk)
    assert start(desk, sheet(tmp_path, ("d", "60", "12345670004"), name="d.csv"), "next") == {"d": "settled"}
    assert start(desk, waited, "waited") == {"a": "settled", "b": "held"}
    [held] = desk.ledger.orders(reference="b")
    assert held.hold_kind == Hold.LIMIT
    assert "100 count already, and it adds 40" in str(held.reason)
    release_orders(desk, "b", "limit", **PERSON)
    assert start(desk, waited, "waited") == {"a": "settled", "b": "held"}  # today's account is as full as before
    release_orders(desk, "b", None, **PERSON)
    tomorrow(desk)
    assert start(desk, waited, "waited") == {"a": "settled", "b": "settled"}


def test_what_is_about_to_leave_when_midnight_passes_stays(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    file = sheet(tmp_path, ("a", "40", "12345670001"))
    chunks = paying.commit(desk, file, "run")
    monkeypatch.setattr("treasury.payments.execution.judge_again", lambda *_: None)  # it passed just before midnight
    tomorrow(desk)
    for ids in chunks:
        execution.send_orders(desk, "run", ids)
    [order] = desk.ledger.orders()
    assert (order.state.outcome, "start the run again" in str(order.reason)) == ("not_sent", True)
    assert sandbox.orders() == []
    monkeypatch.undo()
    assert start(desk, file, "run") == {"a": "settled"}


def test_a_task_that_sends_without_recording_again_is_stopped_by_another_policy(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("a", "40", "12345670001"))
    [ids] = paying.commit(desk, file, "run")  # no policy yet
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}})
    with pytest.raises(PolicyChanged, match="recorded under another policy"):
        execution.send_orders(desk, "run", ids)
    assert start(desk, file, "run") == {"a": "held"}
    assert sandbox.orders() == []
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "100"}})
    release_orders(desk, "a", None, **PERSON)
    assert start(desk, file, "run") == {"a": "settled"}
    found = policy_in_force(desk.ledger)
    assert found is not None
    run = desk.ledger.run("run")
    assert run is not None
    assert run.policy == found.version


def test_a_lower_limit_of_the_day_counts_what_waits_anew(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "200"}})
    file = sheet(tmp_path, ("a", "80", "12345670001"), ("b", "40", "12345670002"))
    stop_sending(desk.ledger, "Ada Example", "a look first")
    assert start(desk, file, "run") == {"a": "not_sent", "b": "not_sent"}
    lift_stop(desk.ledger, "Ada Example")
    adopt(desk, payouts={"max_per_day": {"USDT_TRC20": "100"}})
    assert start(desk, file, "run") == {"a": "settled", "b": "held"}


def test_a_part_of_a_sheet_or_a_release_walks_around_no_limit_of_another_policy(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    rows = (("a", "5", "12345670001"), ("b", "50", "12345670002"))
    whole, part = sheet(tmp_path, *rows), sheet(tmp_path, rows[0], name="part.csv")
    chunks = paying.commit(desk, whole, "run")
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}})
    with pytest.raises(PolicyChanged, match="whole sheet"):
        start(desk, part, "run")
    assert start(desk, whole, "run") == {"a": "settled", "b": "held"}
    release_orders(desk, "b", None, **PERSON)
    with pytest.raises(PolicyChanged):
        execution.send_orders(desk, "run", chunks[0])  # by a task of one's own, without recording again
    assert start(desk, whole, "run") == {"a": "settled", "b": "held"}
    assert len(sandbox.orders()) == 1


def test_a_policy_that_is_adopted_while_a_part_is_sent_ends_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "100"}})
    file = sheet(tmp_path, *((f"r{number}", "50", f"1234567{number:04d}") for number in range(60)))
    desk.in_flight = 2
    at_submission(desk, 5, lambda: adopt(desk, payouts={"max_per_payout": {"USDT_TRC20": "10"}}))
    with pytest.raises(PolicyChanged, match="put another policy in force"):
        start(desk, file, "run")
    left = len(sandbox.orders())
    assert left < 10
    outcomes = start(desk, file, "run")
    assert len(sandbox.orders()) == left
    assert sum(outcome == "held" for outcome in outcomes.values()) == 60 - left


def test_what_was_paid_later_elsewhere_holds_the_first_that_waited(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    first = sheet(tmp_path, ("a", "40", "12345670001"))
    stop_sending(desk.ledger, "Ada Example", "a wrong list")
    assert start(desk, first, "first") == {"a": "not_sent"}
    lift_stop(desk.ledger, "Ada Example")
    again = sheet(tmp_path, ("b", "40", "1234 5670-001"), name="again.csv")
    assert start(desk, again, "second") == {"b": "held"}
    release_orders(desk, "b", None, **PERSON)
    assert start(desk, again, "second") == {"b": "settled"}
    assert start(desk, first, "first") == {"a": "held"}
    assert sum(order["effects"] for order in sandbox.orders()) == 1


@pytest.mark.parametrize(
    "written", ["1234\N{ZERO WIDTH SPACE}5670001", "\uff11\uff12\uff13\uff145670001", "12345670-001"]
)
def test_accounts_are_compared_as_an_eye_reads_them(written: str) -> None:
    assert as_it_looks(written) == as_it_looks("12345670001")
    assert as_it_looks("DE89 3704 O044") == as_it_looks("d\N{CYRILLIC SMALL LETTER IE}8937040044")


@pytest.mark.parametrize(
    ("written", "alike"),
    [
        ("J\N{CYRILLIC SMALL LETTER O}hn", "John"),
        ("L\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}sa", "Lisa"),
        ("P\N{GREEK CAPITAL LETTER OMICRON}\N{GREEK CAPITAL LETTER IOTA}", "POI"),
        ("\N{LATIN SMALL LETTER DOTLESS I}da", "Ida"),
        ("Pau\N{CYRILLIC LETTER PALOCHKA}", "Paul"),
        ("\N{ARMENIAN CAPITAL LETTER OH}tto", "Otto"),
        ("D\N{LATIN SMALL LETTER ALPHA}n", "Dan"),
        ("Dan\N{HANGUL FILLER}", "Dan"),
        ("O\N{MODIFIER LETTER APOSTROPHE}Hara", "O'Hara"),
    ],
)
def test_other_letters_are_those_that_they_are_taken_for(written: str, alike: str) -> None:
    assert written != alike
    assert as_it_looks(written) == as_it_looks(alike)
