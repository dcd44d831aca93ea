"""Somebody who has the database, and not the ledger's key, changes one value: nothing leaves that was not allowed.

The ledger is one in which nothing may leave: its payments were made, are unknown, held or cancelled, their plans wait
for approvals, have one of two, were rejected, or were approved once and are approved no more. A column is changed, in
one row or in all, or a whole table is put back to an earlier moment; then every run is started again. The file stays
the one it was: another file would be taken for a restored ledger, of which nothing leaves anyway.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.engine.approvers import ASKS, KEYS, adopt, approve, later, start, waits
from tests.engine.runs import sheet
from tests.matrix.faulty import open_short_desk
from tests.moved_clock import MovedClock
from tests.proofs import ALL
from treasury.errors import TreasuryError
from treasury.ledger import schema
from treasury.ledger.approvals import reject_plan
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import State
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, running_sandbox

pytestmark = pytest.mark.sqlite_alone

RESEND_AFTER = 30 * 86_400.0
"""Longer than all starts together by their clock: what is unknown stays so."""

SMALL, LARGE = ("paid", "lost", "twin", "ended"), ("waits", "half", "no", "old")
"""Run keys: of payments that take no approval, and of one payment each that takes two."""

TABLES = [table.name for table in schema.metadata.sorted_tables]
BY_ROW = ("decisions", "orders", "plans", "policies", "quotes", "runs")
"""Tables that say what may leave: each row is changed alone, too."""

EVERY_COLUMN = [f"{table.name}.{column.name}" for table in schema.metadata.sorted_tables for column in table.columns]
COLUMNS = EVERY_COLUMN if ALL else ("orders.state", "orders.sends", "decisions.verb", "plans.needed")
"""`make test` tries a few of those that tempt most: in all rows at once, and `prepared` in each row alone."""


class Prepared(NamedTuple):
    """A ledger in which nothing may leave, a copy of it, its earlier moments; the sheets of its runs; the service."""

    home: Path
    whole: Path
    moments: Sequence[Path]
    sheets: dict[str, Path]
    sandbox: RunningSandbox
    clock: MovedClock
    key: str

    def desk(self, home: Path) -> Desk:
        return open_short_desk(self.sandbox.base_url, home, self.key, RESEND_AFTER, clock=self.clock)


@pytest.fixture(scope="module")
def prepared(treasury_keys: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    clock, faults = MovedClock(), {"repeat_acts": 1.0}  # what is sent again has a second effect
    settings = SandboxSettings(partner_id="900001", public_key=treasury_keys[1], settle_seconds=0.0, faults=faults)
    folder = tmp_path_factory.mktemp("prepared")
    with running_sandbox(settings, SandboxClock(clock)) as sandbox:
        home, whole, moments = folder / "home", folder / "whole", [folder / "1", folder / "2"]
        here = Prepared(home, whole, moments, {}, sandbox, clock, treasury_keys[0])
        for number, name in enumerate((*SMALL, *LARGE)):
            amounts = ("2", "3") if name in SMALL else ("120",)
            rows = [(f"{name}-{ref}", amount, f"1234567{number}{ref}01") for ref, amount in enumerate(amounts)]
            here.sheets[name] = sheet(folder, *rows, name=f"{name}.csv")
        here.sheets["twin"] = sheet(folder, ("twin-0", "2", "12345670001"), name="twin.csv")  # as a row of `paid`
        here.home.mkdir()
        desk = here.desk(here.home)
        fill(desk, here, faults)
        desk.close()
        copy(here.home, here.whole)
        yield here


def fill(desk: Desk, here: Prepared, faults: dict[str, float]) -> None:
    adopt(desk, payouts={**ASKS, "duplicate_days": 30})
    waits(desk, here.sheets["old"], "old")
    approve(desk, "ben", "old")
    approve(desk, "cleo", "old")
    copy(here.home, here.moments[0])
    later(desk, 1000)
    for name in ("waits", "half", "no"):
        waits(desk, here.sheets[name], name)
    stop_sending(desk.ledger, stopped_by="Ada Example", why="a look first")
    for name in SMALL:
        start(desk, here.sheets[name], name)
    copy(here.home, here.moments[1])
    lift_stop(desk.ledger, proof=KEYS["cleo"])
    approve(desk, "ben", "half")
    reject_plan(desk.ledger, "no", why="not ours", os_user="x", proof=KEYS["cleo"])
    cancel(desk, "ended", KEYS["cleo"], why="not ours")
    assert set(start(desk, here.sheets["paid"], "paid").values()) == {"settled"}
    faults["drop_before"] = 1.0
    with suppress(TreasuryError):
        start(desk, here.sheets["lost"], "lost")
    del faults["drop_before"]
    assert set(start(desk, here.sheets["lost"], "lost").values()) == {"unknown"}
    assert set(start(desk, here.sheets["twin"], "twin").values()) == {"held"}


def copy(home: Path, to: Path) -> None:
    """Copy what a home holds into another one, whose ledger's file stays the one it is."""
    for file in home.rglob("*"):
        place = to / file.relative_to(home)
        if file.is_file() and not file.name.startswith("ledger.db"):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.touch(mode=0o600)
            place.write_bytes(file.read_bytes())
    with closing(sqlite3.connect(home / "ledger.db")) as ours, closing(sqlite3.connect(to / "ledger.db")) as copied:
        ours.backup(copied)


def left_after(here: Prepared, *statements: tuple[str, Sequence[Any]]) -> int:
    """Change the ledger by these statements, and start every run again; how many payments left."""
    copy(here.whole, here.home)
    before = sum(each["effects"] for each in here.sandbox.orders())
    try:
        with closing(sqlite3.connect(here.home / "ledger.db", isolation_level=None)) as ledger:
            for statement, values in statements:
                ledger.execute(statement, values)
    except sqlite3.IntegrityError:
        return 0
    with suppress(TreasuryError):
        desk = here.desk(here.home)
        for name in (*SMALL, *LARGE):
            with suppress(TreasuryError):
                start(desk, here.sheets[name], name)
        desk.close()
    return sum(each["effects"] for each in here.sandbox.orders()) - before


def changes(here: Prepared, table: str, column: str) -> list[tuple[int | None, Any]]:
    """The rows to change, None for all of them, each with its new values: those of others, and some of nobody."""
    with closing(sqlite3.connect(here.whole / "ledger.db")) as ledger:
        rows = [each for (each,) in ledger.execute(f"SELECT rowid FROM {table} LIMIT 12")]
        found = [each for (each,) in ledger.execute(f"SELECT DISTINCT {column} FROM {table} LIMIT 4")]
    values: list[Any] = [None, *found]
    numbers = [each for each in found if isinstance(each, int)]
    if numbers:
        values += [0, 1, *(numbers[0] + step for step in (-86_400_000, 86_400_000))]
    if column in ("state", "target"):
        values += list(map(str, (State.PREPARED, State.SENDING, State.ACCEPTED)))
    if not rows:
        return []
    alone = {value: rows if table in BY_ROW and (ALL or value == State.PREPARED) else [] for value in values}
    return [(row, value) for value, some in alone.items() for row in (None, *some)]


@pytest.mark.costly("starts eight runs for each change of a ledger")
@pytest.mark.parametrize("column", COLUMNS)
def test_a_value_that_is_changed_lets_nothing_leave(prepared: Prepared, column: str) -> None:
    table, name = column.split(".")
    left = {}
    for row, value in changes(prepared, table, name):
        update = f"UPDATE {table} SET {name} = ?" + ("" if row is None else f" WHERE rowid = {row}")
        left[row, value] = left_after(prepared, (update, (value,)))
    assert {changed for changed, count in left.items() if count} == set()


@pytest.mark.parametrize("moment", [0, 1], ids=["approved", "recorded"])
@pytest.mark.parametrize("table", TABLES if ALL else ("orders", "decisions"))
def test_a_table_that_is_put_back_lets_nothing_leave(prepared: Prepared, table: str, moment: int) -> None:
    earlier = prepared.moments[moment] / "ledger.db"
    statements = ("ATTACH ? AS earlier", (str(earlier),)), (f"DELETE FROM {table}", ())
    back = (f"INSERT INTO {table} SELECT * FROM earlier.{table}", ())
    assert left_after(prepared, *statements, back) == 0


def test_nothing_leaves_of_the_ledger_as_it_is(prepared: Prepared) -> None:
    assert left_after(prepared) == 0
