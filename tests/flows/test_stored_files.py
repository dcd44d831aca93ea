"""Files in Prefect's storage blocks: a worker that has not the file gets it, and pays as from a path."""

import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import data
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

SHEET = data.path("beneficiaries.csv")


@pytest.fixture
def inbox(home: Path) -> Path:
    """A folder that a storage block of its name stands for; other processes' tests have theirs on the same server."""
    from prefect.filesystems import LocalFileSystem

    folder = home / f"inbox-{uuid4().hex}"
    folder.mkdir()
    LocalFileSystem(basepath=str(folder)).save(folder.name)
    return folder


def test_a_file_of_a_storage_block_is_paid_once_by_whatever_it_is_named(
    inbox: Path, home: Path, sandbox: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.filesystems import RemoteFileSystem

    from flows.pay_beneficiaries import pay_beneficiaries

    copies = home / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    (inbox / "deep").mkdir()
    (inbox / "deep" / "rows.csv").write_bytes(SHEET.read_bytes())
    remote = RemoteFileSystem(basepath="memory://inbox")
    remote.save(inbox.name)
    remote.write_path("deep/rows.csv", SHEET.read_bytes())
    before = len(sandbox.orders())
    stored = [f"block:{kind}-file-system/{inbox.name}/deep/rows.csv" for kind in ("local", "remote")]
    for name in (*stored, SHEET):
        paid = pay_beneficiaries(str(name), "stored", follow_seconds=120)
        assert paid["counts"] == {"settled": 12}, name
        assert len(sandbox.orders()) == before + 12
    assert [each for each in copies.iterdir() if each.name.startswith("treasury-")] == []


def test_a_wrong_sheet_of_a_storage_block_comes_back_corrected(inbox: Path, home: Path) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    (inbox / "bad.csv").write_text(SHEET.read_text().replace("1250.00", "twelve"))
    ended = pay_beneficiaries(f"block:local-file-system/{inbox.name}/bad.csv", "bad", return_state=True)
    corrected = home / "runs" / "bad" / "corrected-me.csv"
    assert (ended.name, corrected.exists()) == ("InputRejected", True), ended.message


@pytest.mark.parametrize(
    ("file", "ends", "said"),
    [
        ("block:local-file-system/INBOX/none.csv", "InputRejected", "cannot be read (ValueError)"),
        ("block:local-file-system/INBOX/../key.pem", "InputRejected", "leaves the folder of its block"),
        ("block:local-file-system/INBOX/", "InputRejected", "cannot be read"),
        ("block:local-file-system/none/rows.csv", "Failed", "no storage block local-file-system/none"),
        ("block:rows.csv", "Failed", "there is no storage block"),
        ("block:secret/word/rows.csv", "Failed", "is no storage block"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(file: str, ends: str, said: str, inbox: Path, home: Path) -> None:
    from prefect.blocks.system import Secret

    from flows.withdraw_assets import withdraw_assets

    secret: Any = Secret
    secret(value="x").save("word", overwrite=True)
    ended = withdraw_assets(file.replace("INBOX", inbox.name), "refused", return_state=True)
    assert ended.name == ends, ended.message
    assert said in str(ended.message)


@pytest.mark.parametrize("path", ["../kept.csv", "a/../../kept.csv", "%2e%2e/kept.csv", "..\\kept.csv"])
def test_a_path_never_leaves_the_folder_of_its_block(path: str, inbox: Path, home: Path) -> None:
    from prefect.filesystems import RemoteFileSystem

    from blocks.files import file_at_hand
    from treasury.errors import InputError

    RemoteFileSystem(basepath="memory://folder/inbox").save(inbox.name)
    RemoteFileSystem(basepath="memory://folder").write_path("kept.csv", b"of others")
    file = f"block:remote-file-system/{inbox.name}/{path}"
    with pytest.raises(InputError, match="leaves the folder of its block"), file_at_hand(file):
        pass
