"""`treasury results KEY` writes the results of a run as the ledger has them now, and sends nothing."""

import csv
from collections.abc import Callable

import pytest

from tests.commands.office import Office, one_line_error
from treasury.sandbox import RunningSandbox

pytestmark = [pytest.mark.prefect, pytest.mark.no_real_pauses]

ROWS = (("a", "10", "12345670001"), ("b", "20", "12345670002"))


def test_results_are_written_anew_with_what_a_query_found_since(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    sandbox = open_sandbox(settle_seconds=3)
    office = open_office(sandbox.base_url)
    ended = office.run("pay", office.sheet(*ROWS), "--run-key", "run", "--yes", "--follow", "0")
    assert (ended.code, ended.last) == (0, "0 settled, 2 in progress")
    before = office.results("run")
    written = office.run("results", "run")
    assert (written.code, written.last) == (0, "0 settled, 2 in progress")
    assert office.results("run") == before
    assert office.run("pay", office.sheet(*ROWS), "--run-key", "run", "--yes", "--follow", "20").last == "2 settled"
    elsewhere = office.home / "elsewhere"
    again = office.run("results", "run", "--out", elsewhere)
    assert (again.code, again.last) == (0, "2 settled")
    with (elsewhere / "results.csv").open() as file:
        found = {row["row_ref"]: row for row in csv.DictReader(file)}
    assert [row["outcome"] for row in found.values()] == ["settled", "settled"]
    assert office.run("results", "run").last == "2 settled"
    now = office.results("run")
    assert [row["payee_name"] for row in now.values()] == ["Example Person"] * 2  # the ledger has forgotten whom
    assert {row["value_date"] for row in now.values()} == {found["a"]["value_date"]}
    assert len(sandbox.orders()) == 2


def test_results_of_a_run_are_of_all_its_rows_whatever_was_added_last(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    office = open_office(open_sandbox().base_url)

    def pay(name: str, *rows: tuple[str, str, str], more: str) -> str:
        return office.run("pay", office.sheet(*rows, name=name), "--run-key", "run", "--yes", more).last

    fails, wrong, late = ("c", "30", "12345670044"), ("d", "ten", "12345670004"), ("e", "40", "12345670005")
    assert pay("first.csv", *ROWS, fails, wrong, more="--valid-rows-only") == "2 settled, 1 failed, 1 left out"
    assert office.run("results", "run").last == "2 settled, 1 failed, 1 left out"
    assert pay("late.csv", late, more="--add") == "1 settled"
    for _ in range(2):
        ended = office.run("results", "run")
        assert (ended.code, ended.last) == (4, "3 settled, 1 failed, 1 left out")


def test_a_run_that_is_not_there_is_said_to_be_so(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    office = open_office(open_sandbox().base_url, prefect=False)
    ended = office.run("results", "nothing")
    assert (ended.code, "there is no run nothing" in one_line_error(ended)) == (2, True)


def test_a_start_says_why_rows_did_not_leave(office: Office) -> None:
    sheet = office.sheet(("a", "31", "12345670031"), ("b", "32", "12345670032"))
    line = ["pay", sheet, "--run-key", "why", "--yes"]
    office.run("stop", "--by", "Ann", "--why", "a look first")
    stopped = office.run(*line)
    assert (stopped.code, stopped.last) == (4, "0 settled, 2 not sent"), stopped.err
    assert "  2 rows not sent: all sending was stopped by Ann: a look first" in stopped.out
    office.run("stop", "--lift", "--by", "Ann")
    ended = office.run(*line, "--follow", "20")
    assert (ended.last, "all sending" in ended.out) == ("2 settled", False), ended.err
    again = office.run("pay", office.sheet(("c", "31", "12345670031")), "--run-key", "why-2", "--yes")
    assert "  c held: same payee, amount and currency as a of run why" in again.out, again.out + again.err


def test_a_row_that_changed_after_its_start_is_told_that_another_run_key_pays_it_once_more(office: Office) -> None:
    sheet = office.sheet(("a", "33", "12345670033"))
    assert office.run("pay", sheet, "--run-key", "typo", "--yes", "--follow", "20").last == "1 settled"
    changed = office.run("pay", office.sheet(("a", "34", "12345670033")), "--run-key", "typo", "--yes")
    assert changed.code == 2
    assert "put them back as they were: another run key pays them once more" in one_line_error(changed)


@pytest.mark.parametrize("command", ["pay", "withdraw", "scan-pay"])
def test_a_token_of_a_maker_without_a_key_is_refused(command: str, office: Office) -> None:
    ended = office.run(command, "sheet.csv", "--run-key", "unsigned", "--print")
    assert (ended.code, ended.out) == (2, "")
    assert "--print makes the maker's token with --key FILE" in one_line_error(ended)
