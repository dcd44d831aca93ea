"""Starts of the whole command at once, and kills of it in the middle, each with an embedded Prefect of its own."""

import random
from collections.abc import Callable

import pytest

from tests.commands.office import PATIENCE, Office, eventually, processes_with
from tests.proofs import tries
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

KILLS = tries("FLOW_KILLS", 1, 12)
ROWS = [(f"r{number}", "1.00", f"1234567{number:04d}1") for number in range(600)]


@pytest.mark.proof
@pytest.mark.costly("four processes and an embedded Prefect")
def test_of_four_starts_on_a_fresh_home_one_works_and_three_say_so(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url, prefect=False)
    office.environ["PREFECT_HOME"] = str(office.home / "prefect")
    arguments = ["pay", office.sheet(*ROWS[:20]), "--run-key", "four", "--yes"]
    started = [office.start(*arguments) for _ in range(4)]
    ended = [(process.communicate(timeout=PATIENCE), process.returncode) for process in started]
    assert sorted(code for _, code in ended) == [0, 6, 6, 6], ended
    for (_, err), code in ended:
        if code:
            assert "is held by process" in err
    assert {order["effects"] for order in sandbox.orders()} == {1}
    assert len(sandbox.orders()) == 20


@pytest.mark.proof
def test_different_runs_start_on_one_fresh_prefect_home(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """Prefect's first migration fails when two servers make it at once."""
    sandbox = open_sandbox()
    office = open_office(sandbox.base_url, prefect=False)
    office.environ["PREFECT_HOME"] = str(office.home / "prefect")
    runs = [
        office.start("pay", office.sheet(ROWS[number], name=f"{number}.csv"), "--run-key", f"run{number}", "--yes")
        for number in range(2)
    ]
    ended = [(process.communicate(timeout=PATIENCE), process.returncode) for process in runs]
    assert [code for _, code in ended] == [0, 0], ended


@pytest.mark.proof  # once, and then left alone: test_embedded
@pytest.mark.costly("embedded Prefects, one after the other")
def test_a_command_that_is_killed_again_and_again_pays_each_row_once(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox(faults={"slow": 0.4}, slow_seconds=0.5)
    office = open_office(sandbox.base_url, prefect=False, TREASURY_RESEND_AFTER_SECONDS="0")
    office.environ["PREFECT_HOME"] = str(office.home / "prefect")
    arguments = ["pay", office.sheet(*ROWS), "--run-key", "killed", "--yes", "--follow", "30"]
    mark = f"TREASURY_HOME={office.home}"
    chance = random.Random(4)
    kills = 0
    for _ in range(2 * KILLS):
        with office.running(*arguments) as process:
            before, more = len(sandbox.orders()), chance.randint(1, 40)
            eventually(
                lambda before=before, more=more, process=process: (  # type: ignore[misc]
                    len(sandbox.orders()) >= min(before + more, len(ROWS)) or process.poll() is not None
                ),
                PATIENCE,
            )
            if process.poll() is None:
                kills += 1
                process.kill()
                process.wait()
            else:  # a machine that is busy enough: Prefect did not start in time
                print("a start ended by itself:", process.returncode, process.communicate())
            eventually(lambda: not processes_with(mark), 30, "something outlived its command")
        if kills == KILLS:
            break
    ended = office.run(*arguments)
    assert (ended.code, ended.last) == (0, f"{len(ROWS)} settled"), ended.out + ended.err
    orders = sandbox.orders()
    assert kills == KILLS
    assert len(orders) == len(ROWS)
    assert {order["effects"] for order in orders} == {1}
    assert len(office.results("killed")) == len(ROWS)
