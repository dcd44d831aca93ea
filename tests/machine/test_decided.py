"""Random histories of what people decide: nothing leaves that was not allowed, and all that was allowed still can.

The oracle (`books.py`) knows the service's side alone, and what people said. Starts also go at the same time in several
real processes, while somebody cancels, stops or changes the policy in another; and older copies of the ledger are put
back. `HISTORIES=2000` runs so many (`make histories`).
"""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.machine.books import NO_LIMIT, Memory, Place, Rules, Service
from tests.machine.office import open_desk, perform, set_day, waiting_ids, write_sheet
from tests.proofs import tries
from treasury.sandbox import generate_key_pair

HISTORIES = tries("HISTORIES", 1, 300)
STEPS = 14
ROUNDS = 6
"""Most rounds of decisions and starts at the end: what an older ledger brought back is asked about twice first."""
PAYEES = [f"1234567{number:04d}" for number in range(8)]
AMOUNTS = ("10", "20", "40")
LIMITS = (80, 150, 300)
ROOT = Path(__file__).parents[2]
ACTS = {"begin": 4, "start": 3, "cancel": 2, "release": 2, "approve": 2, "adopt": 1, "stop": 1, "lift": 3}
ACTS |= {"resolve": 1, "restart": 1, "day": 2, "copy": 1, "put back": 1, "loss": 2, "at once": 3}


class Office:
    """People at one ledger, the books that judge them, and the copies that they keep of it."""

    def __init__(self, service: Service, folder: Path, key: str, forker: "subprocess.Popen[str]", seed: int) -> None:
        self.service, self.folder, self.key, self.forker = service, folder, key, forker
        self.books = service.books
        self.dice = random.Random(seed)
        self.rows: dict[str, list[tuple[str, str, str]]] = {}
        self.saying: Rules = Rules()
        self.copy: Memory | None = None
        service.hears = self.hear
        (folder / "home").mkdir()
        self.desk = open_desk(folder, service.listening.base_url, key, 0)

    # --- what people do ---

    def hear(self, told: Mapping[str, Any]) -> None:
        """Somebody was told something."""
        if "cancelled" in told:
            self.books.told_cancelled([_place(each) for each in told["cancelled"]], told["ended"])
        for run_key, row_ref, kind in told.get("released", ()):
            self.books.told_released((run_key, row_ref), kind)
        if "approved" in told:
            self.books.approved.add(told["approved"])
        if "rules" in told:
            self.books.said(self.saying)

    def does(self, act: str, *about: Any) -> None:
        """Somebody does something, in this process."""
        self.is_saying(act, about, 0)
        self.hear(perform(self.desk, self.folder, act, about))
        self.books.all_arrived()

    def is_saying(self, act: str, about: tuple[Any, ...], starts: int) -> None:
        """Somebody is about to change the rules, if this act does."""
        rules = self.books.rules
        changed = {"stop": replace(rules, stopped=True), "lift": replace(rules, stopped=False)}
        if act == "adopt":
            changed["adopt"] = replace(rules, limit=about[0], approve_above=about[1])
        if act in changed:
            self.saying = changed[act]
            self.books.is_saying(self.saying, starts)

    def a_run(self) -> str:
        """One of the runs that there are, mostly one of the last."""
        return self.dice.choice([*self.rows][-3:]) if self.rows else self.new_run()

    def new_run(self) -> str:
        """Somebody has a new sheet."""
        run_key = f"run{len(self.rows)}"
        count = self.dice.randint(1, 4)
        rows = [(f"r{each}", self.dice.choice(AMOUNTS), self.dice.choice(PAYEES)) for each in range(count)]
        write_sheet(self.folder, run_key, rows)
        self.rows[run_key] = rows
        self.books.total_of[run_key] = sum((Decimal(amount) for _, amount, _ in rows), Decimal(0))
        return run_key

    def a_policy(self) -> tuple[int, int]:
        return self.dice.choice(LIMITS), self.dice.choice((50, NO_LIMIT))

    def does_at_once(self) -> None:
        """Two or three starts at the same time in processes of their own, and perhaps a decision in another one."""
        runs = [self.new_run() for _ in range(self.dice.randint(0, 2))]
        runs += [self.a_run() for _ in range(3 - len(runs))]
        acts: list[tuple[str, list[Any]]] = [("start", [run_key]) for run_key in runs[: self.dice.randint(2, 3)]]
        decision = self.dice.choice(("none", "cancel", "cancel", "stop", "lift", "adopt"))
        abouts: dict[str, list[Any]] = {"cancel": [self.dice.choice(runs)], "adopt": list(self.a_policy())}
        about = abouts.get(decision, [])
        self.is_saying(decision, tuple(about), len(acts))
        if decision != "none":
            acts.append((decision, about))
        ledger = {"folder": str(self.folder), "base_url": self.service.listening.base_url, "key": self.key}
        spec = {
            **ledger,
            "day": self.books.day,
            "acts": [(act, [*each, self.dice.random() / 30]) for act, each in acts],
        }
        assert self.forker.stdin is not None
        assert self.forker.stdout is not None
        self.forker.stdin.write(json.dumps(spec) + "\n")
        self.forker.stdin.flush()
        ended = json.loads(self.forker.stdout.readline())
        assert set(ended) == {0}, (acts, ended, (self.folder / "log.txt").read_text()[-3000:])
        self.books.all_arrived()

    # --- what happens to the program and its ledger ---

    def restart(self) -> None:
        """The program ends, and starts again."""
        self.desk.close()
        self.desk = open_desk(self.folder, self.service.listening.base_url, self.key, self.books.day)

    def next_day(self) -> None:
        self.books.day += 1
        set_day(self.desk, self.books.day)

    def keep_a_copy(self) -> None:
        """Somebody copies ledger and tokens."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        _copy_content(self.folder / "home" / "ledger.db", copy / "ledger.db")
        if (self.folder / "home" / "tokens").exists():
            shutil.copytree(self.folder / "home" / "tokens", copy / "tokens")
        self.copy = self.books.remember(copy / "ledger.db")

    def put_back(self) -> None:
        """Somebody puts the copy back: ledger and tokens, the ledger alone, or its content over the same file."""
        if self.copy is None:
            return
        home, copy = self.folder / "home", self.folder / "copy"
        how = self.dice.choice(("home", "ledger", "content"))
        self.desk.close()
        if how == "content":
            _copy_content(copy / "ledger.db", home / "ledger.db")
        else:
            for file in home.glob("ledger.db*"):
                if file.is_file():
                    file.unlink()
            shutil.copy(copy / "ledger.db", home)
        if how == "home":
            shutil.rmtree(home / "tokens", ignore_errors=True)
            if (copy / "tokens").exists():
                shutil.copytree(copy / "tokens", home / "tokens")
        self.books.put_back(self.copy, same_file=how == "content")
        self.desk = open_desk(self.folder, self.service.listening.base_url, self.key, self.books.day)

    def lose_what_follows(self) -> None:
        """Forget what people decided, and what left, since a copy was made; often while a run waits under a stop."""
        run_key = self.a_run()
        if self.dice.random() < 0.7:
            run_key = self.new_run()
            self.does("stop")
            self.does("start", run_key)
            self.does("lift")
        self.keep_a_copy()
        for _ in range(self.dice.randint(1, 2)):
            self.does(self.dice.choice(("start", "cancel", "cancel", "release")), run_key)
        self.put_back()
        self.does(self.dice.choice(("start", "start", "cancel")), run_key)

    # --- the end ---

    def finish(self) -> None:
        """People allow everything, cancel again what was cancelled and brought back, and let the rest be paid."""
        self.does("lift")
        for _ in range(ROUNDS):
            if not self.is_open():
                return
            self.does("adopt", NO_LIMIT, NO_LIMIT)
            for run_key in self.rows:
                for place, request_id in waiting_ids(self.desk, run_key).items():
                    if place in self.books.cancelled:
                        self.does("cancel", request_id)
                self.does("release", run_key)
                self.does("resolve", run_key)
                self.does("start", run_key)

    def is_open(self) -> bool:
        """Tell whether something that was not cancelled is not paid, or the ledger does not say what became of it."""
        said, gone = states(self.folder / "home" / "ledger.db"), {each.place for each in self.books.left}
        places = {(run_key, row_ref) for run_key, rows in self.rows.items() for row_ref, *_ in rows}
        places = {each for each in places if each in said or each[0] not in self.books.ended}
        return any(said.get(each) != ("settled" if each in gone else "cancelled") for each in places)

    def step(self) -> None:
        """One thing that happens."""
        act = self.dice.choices(list(ACTS), list(ACTS.values()))[0]
        if act == "begin":
            self.does("start", self.new_run())
        elif act in ("start", "cancel", "release", "approve", "resolve") and self.rows:
            self.does(act, self.a_run())
        elif act == "adopt":
            self.does("adopt", *self.a_policy())
        elif act in ("stop", "lift"):
            self.does(act)
        elif act == "at once":
            self.does_at_once()
        else:
            happens = {"restart": self.restart, "day": self.next_day, "loss": self.lose_what_follows}
            happens |= {"copy": self.keep_a_copy, "put back": self.put_back}
            happens.get(act, lambda: None)()


def _place(told: list[str]) -> Place:
    run_key, row_ref = told
    return run_key, row_ref


def _copy_content(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def states(ledger: Path) -> dict[Place, str]:
    """Return what the ledger says of each row, read with plain SQL."""
    with closing(sqlite3.connect(ledger)) as connection:
        found = connection.execute("SELECT run_key, row_ref, state FROM orders").fetchall()
    return {(run_key, row_ref): state for run_key, row_ref, state in found}


@pytest.fixture(scope="module")
def key() -> str:
    return generate_key_pair()[0]


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.listening.close()


@pytest.fixture(scope="module")
def forker() -> Iterator["subprocess.Popen[str]"]:
    """A process that forks one for each person of a step in which several things happen at once."""
    command = [sys.executable, "-m", "tests.machine.office", "--serve"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.communicate(timeout=10)


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.costly("a history of some twenty starts")
def test_only_what_was_allowed_leaves_and_all_of_it_can(
    seed: int, service: Service, tmp_path: Path, key: str, forker: "subprocess.Popen[str]"
) -> None:
    office = Office(service, tmp_path, key, forker, seed)
    books = service.books
    office.does("adopt", office.dice.choice(LIMITS), NO_LIMIT)
    for number in range(STEPS):
        office.step()
        assert books.wrong == [], number
    office.finish()
    office.desk.close()
    assert books.wrong == []
    left = {each.place for each in books.left}
    said = states(tmp_path / "home" / "ledger.db")
    for run_key, rows in office.rows.items():
        for place in ((run_key, row_ref) for row_ref, *_ in rows):
            ended = run_key in books.ended and place not in said
            assert (place in left) != (place in books.cancelled or ended), (place, said.get(place))
            assert said.get(place) == (None if ended else "settled" if place in left else "cancelled"), place
