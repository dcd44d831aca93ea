"""The `sending` mark is on the disk, not only in the page cache, before the first byte of its request leaves.

A killed process cannot show this, for the kernel keeps what it wrote; the order of its system calls does.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.campaign import ROOT
from tests.crash.payments import PARTNER_ID, ROWS
from treasury.ledger.database import open_engine
from treasury.sandbox import SandboxSettings, generate_key_pair, running_sandbox

LEAVES = re.compile(r"\b(sendto|sendmsg|writev|write)\(\d+<(TCP|socket)")
"""A system call by which bytes leave, whichever of them the HTTP engine uses."""


def _trace(tmp_path: Path, kind: str, in_flight: int) -> list[str]:
    """The system calls of one start, in the order they ended."""
    private_key, public_key = generate_key_pair()
    with running_sandbox(SandboxSettings(partner_id=PARTNER_ID, public_key=public_key, settle_seconds=0)) as sandbox:
        spec: dict[str, Any] = {"home": str(tmp_path), "base_url": sandbox.base_url, "kinds": [kind]}
        spec |= {"ledger_url": f"sqlite:///{tmp_path / 'ledger.db'}", "private_key": private_key}
        spec |= {"resend_after": 0.01, "in_flight": in_flight}
        out = tmp_path / "strace.txt"
        watched = "trace=fdatasync,fsync,sendto,sendmsg,write,writev,pwrite64"
        command = ["strace", "-f", "-y", "-s", "20000", "-e", watched, "-o", str(out)]
        driver = [sys.executable, "-m", "tests.crash.driver", json.dumps(spec)]
        ended = subprocess.run([*command, *driver], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        if "ptrace" in ended.stderr and "permitted" in ended.stderr:
            pytest.skip("this machine does not let processes be traced")
        assert ended.returncode == 0, ended.stderr[-2000:]
        assert len(sandbox.orders()) == ROWS
        return out.read_text(errors="replace").splitlines()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("in_flight", [1, 3])
def test_each_sending_mark_is_synced_before_its_request_leaves(tmp_path: Path, in_flight: int) -> None:
    lines = _trace(tmp_path, "payout", in_flight)
    text = "\n".join(lines)
    requests = set(re.findall(r"(tf-[a-z2-7]{26})sending", text))
    assert len(requests) == ROWS
    for request_id in requests:
        # A row of the ledger's file holds its columns one after the other: the request id, then the state.
        marked = next(n for n, line in enumerate(lines) if "-wal>" in line and f"{request_id}sending" in line)
        synced = next(
            n
            for n, line in enumerate(lines)
            if n > marked and re.search(r"f(data)?sync\(\d+<[^>]*-wal>\) += 0|f(data)?sync resumed>\) += 0", line)
        )
        # A question names the request id, too, and leaves before the mark; only the payout names the account.
        sent = next(
            n for n, line in enumerate(lines) if LEAVES.search(line) and request_id in line and "account_no" in line
        )
        head = max(n for n in range(sent + 1) if LEAVES.search(lines[n]) and "POST /v1/order/payout " in lines[n])
        first = head if lines[head].split()[0] == lines[sent].split()[0] else sent
        assert marked < synced < first <= sent, lines[marked][:80]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_names_of_ledger_and_key_are_on_disk_before_anything_leaves(tmp_path: Path) -> None:
    lines = _trace(tmp_path, "payout", 1)
    first = next(n for n, line in enumerate(lines) if LEAVES.search(line) and "POST /v1/order/payout " in line)
    before = "\n".join(lines[:first])
    assert re.search(rf"\bfsync\(\d+<{re.escape(str(tmp_path))}>\) += 0", before), "the key's folder"
    assert re.search(rf"fdatasync\(\d+<{re.escape(str(tmp_path))}>\) += 0", before), "the ledger's folder"


def test_the_ledgers_writer_waits_for_the_disk_at_every_commit(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'ledger.db'}", writes=True)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()
