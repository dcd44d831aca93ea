"""A payment that was made instead of another one is named wherever that other one is shown, and its command runs."""

import shlex
from collections.abc import Callable

import pytest

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

ROWS = (("a", "10", "12345670001"), ("b", "20", "12345670044"))  # what goes to an account that ends in 44 fails


def test_a_row_that_was_paid_again_says_so_everywhere(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url)
    office.run("pay", office.sheet(*ROWS), "--run-key", "run", "--yes", "--follow", "20")
    failed = office.results("run")["b"]
    assert failed["outcome"] == "failed"
    line = failed["next_action"].split("pay it as it is: ")[1]
    program, *command = shlex.split(line)
    assert program == "treasury"
    assert office.run(*command, "--yes", "--follow", "20").code == 4  # it fails again
    assert office.run("results", "run").code == 4
    said = office.results("run")["b"]["next_action"]
    assert said == "is to be paid as b of run-again: treasury show run-again"
    assert said in office.run("show", failed["request_id"]).out
    again = office.results("run-again")["b"]
    assert again["next_action"].endswith("treasury pay --only-failed-of run-again --run-key run-again-again")
    sheet = office.home / "mended.csv"
    text = (office.home / "runs" / "run-again" / "remaining.csv").read_text()
    sheet.write_text(text.replace("12345670044", "12345670009"))
    assert office.run("pay", sheet, "--run-key", "third", "--yes", "--follow", "20").last == "1 settled"
    office.run("results", "run-again")
    assert office.results("run-again")["b"]["next_action"] == "none: paid as b of third"


def test_every_row_of_a_run_is_shown_when_asked(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str
) -> None:
    office = open_office(open_sandbox().base_url)
    rows = tuple((f"r{number}", "10", f"123456{number:05d}") for number in range(201))
    assert office.run("pay", office.sheet(*rows), "--run-key", "run", "--yes", "--follow", "0").code == 0
    shown = office.run("show", "run")
    assert ("r199  " in shown.out, "r200  " in shown.out) == (True, False)
    line = next(line for line in shown.out.splitlines() if "more: " in line)
    assert line == "and 1 more: treasury show run --all"
    assert "r200  " in office.run(*shlex.split(line.split("more: treasury ")[1])).out
