"""Lock files that all users of a machine share: what another user put there ends no command, and is not believed."""

import fcntl
import hashlib
import os
from pathlib import Path

import pytest

from treasury.errors import ConfigurationError, RunHeld
from treasury.ledger.holder import MachineLock


@pytest.fixture
def lock(tmp_path: Path) -> MachineLock:
    return MachineLock("account", tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / f"{hashlib.sha256(b'account|run').hexdigest()[:32]}.lock"


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 1000,
        b"\xff",
        b'{"process": 99999999999999999999, "host": "h", "since": "s"}',
        b'{"process": "", "host": "\\u001b[2Jall paid\\u202e\\n", "since": "' + b"s" * 2000,
        b'{"process": "", "host": "\\u001b[2Jall paid\\u202e\\n", "since": {"of": null}}',
    ],
)
def test_a_lock_that_another_user_wrote_into_is_held_by_somebody(written: bytes, lock: MachineLock, file: Path) -> None:
    file.write_bytes(written)
    assert not lock.seems_held("run")
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RunHeld) as said, lock.hold("run"):
            pass
    assert str(said.value).isprintable()
    assert len(str(said.value)) < 400
    with lock.hold("run"):
        assert lock.seems_held("run")


@pytest.mark.parametrize("made", ["pipe", "folder", "link", "endless"])
def test_a_lock_that_is_no_file_is_named_and_not_waited_for(made: str, lock: MachineLock, file: Path) -> None:
    if made == "pipe":
        os.mkfifo(file)
    elif made == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero" if made == "endless" else file.with_name("elsewhere"))
    assert not lock.seems_held("run")
    with pytest.raises(ConfigurationError, match=rf"{file}, which another user made .*: have it removed"):
        lock.acquire("run")
    assert not file.with_name("elsewhere").exists()
