"""A week of a treasury, told by `treasury status` alone: nights that did not run, a server that died, a full disk.

The clock of commands and sandbox is moved; Prefect's server that dies is a real one, ended by SIGKILL, and the disk is
a small file system of its own that is really full.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest

from tests.commands.office import PATIENCE, Ended, Office, eventually, processes_with
from tests.moved_clock import MovedClock
from tests.servers import await_server
from treasury.errors import DiskFull
from treasury.files import write_json
from treasury.ledger.backup import LAST_BACKUP, make_backup
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, running_sandbox
from treasury.settings import read_settings

pytestmark = [pytest.mark.prefect, pytest.mark.proof, pytest.mark.costly("a week, and a server that is killed")]

MONDAY = 1_799_625_600.0
"""2027-01-11, midnight UTC."""
DAY, HOUR = 86_400, 3_600
OPENING = Decimal(100_000)
NIGHT, MORNING, WORK = 2, 7, 9
"""Hours of a day: the report is made, somebody asks for the status, somebody pays."""
FAULTS: dict[str, float] = {}
DISK_KIB, STEP_KIB = 12_000, 12
"""Size of the disk, and how much more of it is free each time."""


class Week:
    """An office whose home is a small disk, and what it is told each morning."""

    def __init__(self, office: Office, sandbox: RunningSandbox, clock: MovedClock) -> None:
        self.office, self.sandbox, self.clock = office, sandbox, clock
        self.paid: dict[str, Decimal] = {}
        """Every row that was to be paid: its reference and its amount."""

    def at(self, day: int, hour: float) -> None:
        """The clock is moved to this hour of a day, Monday being the first; the other side does what is due."""
        self.clock.move(MONDAY + (day - 1) * DAY + hour * HOUR - self.clock.wall())
        self.sandbox.orders()

    def run(self, *arguments: object, code: int = 0) -> Ended:
        ended = self.office.run(*arguments)
        assert ended.code == code, f"{arguments} ended with {ended.code}\n{ended.out}{ended.err}"
        return ended

    def tried(self, *arguments: object) -> Ended:
        """Run a command that may find the disk full."""
        try:
            return self.office.run(*arguments)
        except DiskFull:  # the desk with the moved clock is opened beside the command: in a process it opens its own
            return self.office.process(*arguments)

    def night(self, day: int) -> str:
        """The report is made; its page."""
        self.at(day, NIGHT)
        assert self.run("reconcile").last.startswith(("reconciled", "warnings")), day
        return self.page(day)

    def page(self, day: int) -> str:
        """The page of a night."""
        return (self.office.home / "nights" / f"2027-01-{10 + day}" / "reconciliation.md").read_text()

    def told(self, day: int, hour: float = MORNING) -> list[str]:
        """The lines of `treasury status` that say what is to do, at that hour."""
        self.at(day, hour)
        return self.told_now()

    def told_now(self) -> list[str]:
        """Those lines now: its code says so, too, and programs are told the same."""
        said, found = self.office.run("status"), self.office.run("status", "--json")
        needs: list[str] = json.loads(found.out)["needs"]
        assert said.code == found.code == (4 if needs else 0)
        lines = [line.removeprefix("to do: ") for line in said.out.splitlines() if line.startswith("to do: ")]
        assert lines == needs
        assert said.last == (f"{len(needs)} to do" if needs else "nothing needs a person")
        return needs

    def line(self, day: int, rows: int = 3) -> list[object]:
        """The command that pays the rows of a day."""
        named = [(f"d{day}-{row}", f"{day * 100 + row}.00", f"1234567{day:02}{row:02}1") for row in range(rows)]
        self.paid |= {ref: Decimal(amount) for ref, amount, _ in named}
        sheet = self.office.sheet(*named, name=f"day{day}.csv")
        return ["pay", sheet, "--run-key", f"day{day}", "--yes", "--follow", "5"]

    def pay(self, day: int) -> None:
        """The rows of a day are paid."""
        self.at(day, WORK)
        assert self.run(*self.line(day)).last == "3 settled"

    def fill(self, free_kib: int) -> None:
        """Fill the disk until only so much is free."""
        self.free()
        there = os.statvfs(self.office.home)
        with (self.office.home / "ballast").open("wb") as ballast:
            ballast.write(bytes(max(0, there.f_bavail * there.f_frsize - free_kib * 1024)))

    def free(self) -> None:
        """Somebody frees the disk."""
        (self.office.home / "ballast").unlink(missing_ok=True)

    def back_up(self, file: Path) -> None:
        """A backup, as `treasury backup` makes it by the machine's clock."""
        made = make_backup(read_settings(self.office.environ), file, clock=self.clock)
        write_json(self.office.home / LAST_BACKUP, {"at": made.created_at, "file": str(file)})

    def check_paid_once(self) -> None:
        """The other side has each row exactly once, and nothing else; its balance says so, too."""
        orders = self.sandbox.orders()
        assert {order["effects"] for order in orders} == {1}
        assert sorted(order["amount"] for order in orders) == sorted(self.paid.values())
        left = self.sandbox.books()["balances"]["available"]["USDT_TRC20"]
        assert left == OPENING - sum(self.paid.values())


@pytest.fixture
def week(key_file: Path, key_pair: tuple[str, str], prefect_url: str, tmp_path: Path) -> Iterator[Week]:
    home, clock = tmp_path / "home", MovedClock(MONDAY)
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_KIB}k,mode=0700", "tmpfs", str(home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here, and so no disk is full")
    settings = SandboxSettings(
        public_key=key_pair[1], balances={"USDT_TRC20": OPENING}, faults=FAULTS, slow_seconds=0.5
    )
    try:
        with running_sandbox(settings, SandboxClock(clock)) as sandbox:
            office = Office(home, sandbox.base_url, key_file, prefect_url)
            office.clock = clock
            yield Week(office, sandbox, clock)
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


def test_each_miss_is_told_in_the_morning_and_each_row_is_paid_once(week: Week, tmp_path: Path) -> None:
    week.at(1, WORK)
    assert week.told(1, WORK) == []
    week.pay(1)
    assert week.told_now()[0] == "no report of everything was made yet: treasury reconcile"
    week.night(2)
    [opening] = json.loads(week.office.run("status", "--json").out)["breaks"]
    week.run("accept", opening["id"], "--by", "Ana", "--why", "as the service shows it")
    week.back_up(tmp_path / "week.backup")
    assert week.told(2) == []
    week.pay(2)
    two_nights_off(week)
    a_server_dies(week, tmp_path)
    page = week.night(5)
    assert "No report of everything was made on 2 days: 2027-01-13 to 2027-01-14." in page
    assert week.told(5) == []
    week.pay(5)
    the_disk_is_full(week)
    page = week.night(7)
    assert "No report of everything was made on 1 day: 2027-01-16." in page
    assert week.told(7) == []
    week.check_paid_once()
    run = week.run("runs").out
    assert all(f"day{day}" in run for day in (1, 2, 4, 5, 6))


def two_nights_off(week: Week) -> None:
    """Nothing runs on the nights of Wednesday and Thursday: told in the mornings, and no longer once one ran."""
    assert week.told(3) == ["no report of everything was made for 29 h: treasury reconcile"]
    assert week.told(4) == ["no report of everything was made on 1 day, 2027-01-13: treasury reconcile"]


def a_server_dies(week: Week, tmp_path: Path) -> None:
    """Prefect's server is killed in a run."""
    week.at(4, WORK)
    folder = tmp_path / "prefect"
    folder.mkdir(mode=0o700)
    shutil.copy(await_server("prefect.db"), folder)
    line, before = week.line(4, 12), len(week.sandbox.orders())
    FAULTS["slow"] = 1.0
    never = [str(MONDAY), str(week.clock.wall() - MONDAY), "send.answered", str(10**9)]
    own = {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": "",
        "TREASURY_IN_FLIGHT": "1",
        "PREFECT_CLIENT_MAX_RETRIES": "1",
    }
    with week.office.start(*never, *line, runs="-m tests.commands.dying", **own) as process:
        try:
            eventually(lambda: len(week.sandbox.orders()) > before + 3 or process.poll() is not None, PATIENCE)
            assert process.poll() is None, process.communicate()
            servers = [each for each in processes_with(str(folder)) if each != process.pid]
            for each in servers:
                os.kill(each, signal.SIGKILL)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    FAULTS.clear()
    assert servers
    assert process.returncode == 1, out + err
    assert "treasury: Prefect's server does not answer any more (ConnectError): start the same command again" in err
    assert "Traceback" not in err
    assert "payload" not in err
    missed = "no report of everything was made on 1 day, 2027-01-13: treasury reconcile"
    assert week.told(4, WORK + 1) == [missed]  # all of it left before its task ended
    assert week.run(*line).last == "12 settled"
    assert len(week.sandbox.orders()) == before + 12


def the_disk_is_full(week: Week) -> None:
    """The disk is full in the night of Saturday, and in the morning in a run, a bit less with each start."""
    week.at(6, NIGHT)
    for free in (0, 64, 100):
        week.fill(free)
        assert_full(week.tried("reconcile"))
    week.at(6, MORNING)
    week.free()
    assert week.told_now() == ["no report of everything was made for 29 h: treasury reconcile"]
    week.at(6, WORK)
    line = week.line(6, 30)
    ended = until_there_is_room(week, *line)
    assert ended.last == "30 settled"


def until_there_is_room(week: Week, *line: object) -> Ended:
    """Start a command on a full disk, with a bit more room each time, until it ends well; how it did."""
    for number in range(100):
        week.fill(number * STEP_KIB)
        ended = week.tried(*line)
        week.free()
        if ended.code == 0:
            assert number > 3, "the disk was never full"
            return ended
        assert_full(ended)
    raise AssertionError("it never ended well")


def assert_full(ended: Ended) -> None:
    """A command ended because the disk is full, and says so in one line; with code 4 where it wrote results all the
    same."""
    assert ended.code in (1, 4), ended
    assert len(ended.err.splitlines()) == 1, ended
    assert "the disk is full (" in ended.err
    assert "nothing is sent twice" in ended.err


def test_a_night_counts_once_somebody_can_read_its_report(week: Week) -> None:
    """Wherever a full disk ends a night, the status goes on saying that there was no report."""
    week.pay(1)
    week.night(2)
    week.at(3, MORNING)
    for number in range(100):
        week.fill(number * STEP_KIB)
        ended = week.tried("reconcile")
        week.free()
        missed = [each for each in week.told_now() if each.startswith("no report of everything was made for")]
        if ended.code == 0:
            assert missed == []
            break
        assert_full(ended)
        assert len(missed) == 1
    assert "reconciled: 3 matched" in ended.last or "warnings: " in ended.last
    assert "reconciled" in week.page(3) or "warnings" in week.page(3)
    week.check_paid_once()
