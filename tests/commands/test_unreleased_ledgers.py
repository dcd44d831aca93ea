"""A ledger of a format of before the first release, and a backup of one, are refused at every door: none writes."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.office import PARTNER_ID, Office, one_line_error
from tests.ledgers import contents, put_unreleased
from treasury.ledger.migrations import last_reader
from treasury.sandbox import RunningSandbox


def files_of(home: Path) -> dict[str, bytes]:
    return {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("number", ["1", "106"])
def test_it_is_refused_at_every_door(
    kind: str,
    number: str,
    sandbox: RunningSandbox,
    open_office: Callable[..., Office],
    request: pytest.FixtureRequest,
) -> None:
    elsewhere = {} if kind == "sqlite" else {"TREASURY_LEDGER_URL": request.getfixturevalue("postgres")(empty=True)}
    office = open_office(sandbox.base_url, prefect=False, **elsewhere)
    url = elsewhere.get("TREASURY_LEDGER_URL", f"sqlite:///{office.home / 'ledger.db'}")
    sheet, copy = office.sheet(("a", "10", "12345670001")), office.home / "ledger.backup"
    put_unreleased(url, number, f"{sandbox.base_url}|{PARTNER_ID}")
    held, files = contents(url), files_of(office.home)
    doors = (
        ["pay", str(sheet), "--run-key", "r", "--yes"],
        ["pay", str(sheet), "--run-key", "r", "--dry-run"],
        ["reconcile"],
        ["reconcile", "--offline"],
        ["rebalance", "--dry-run"],
        ["runs"],
        ["show", "r"],
        ["stop", "--by", "Ann", "--why", "a test"],
        ["backup", str(copy)],
        ["doctor"],
    )
    for door in doors:
        ended = office.run(*door)
        said = ended.out if door == ["doctor"] else one_line_error(ended)
        assert ended.code == 2, (door, ended)
        assert f"this ledger has format {number}, " in said, door
        assert f"with commit {last_reader(number)} of treasury-flows" in said, door
        assert door == ["doctor"] or said.count("\n") == 1, (door, said)
        assert contents(url) == held, door
        assert files_of(office.home) == files, door
    assert not sandbox.orders()


def test_a_backup_of_one_is_refused(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> None:
    office = open_office(sandbox.base_url, prefect=False)
    file = office.home / "old.backup"
    manifest = {"format": 1, "schema": "9", "account": f"{sandbox.base_url}|{PARTNER_ID}", "created_at": 1}
    counts = {"runs": 1, "orders": 1, "journal": 1}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps({**manifest, "counts": counts, "sha256": {}}))
    files = files_of(office.home)
    ended = office.run("restore", str(file))
    said = one_line_error(ended)
    assert (ended.code, said.count("\n")) == (2, 1)
    assert "holds a ledger of format 9, " in said
    assert f"with commit {last_reader('9')} of treasury-flows" in said
    assert files_of(office.home) == files
