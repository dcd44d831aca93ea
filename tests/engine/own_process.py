"""A start in a process of its own, which may be killed at a crash point.

    python -m tests.engine.own_process '{"act": "rebalance", "home": ..., "base_url": ..., "key": ..., "rules": ...}'

`point`, `hits`: where it is killed, at which passing. `ahead`: seconds that its clock is ahead of the machine's.
`ledger`: the URL of its ledger, SQLite in its home when left out.
Prints what came of it.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.engine.funded import fund_and_pay
from tests.engine.planned import PARTNER_ID
from tests.engine.rounds import start
from tests.moved_clock import MovedClock
from tests.proofs import ALL
from treasury.concurrency import crash_points
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.settings import Settings


def in_own_process(spec: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Start a process as specified, and wait for its end."""
    command = [sys.executable, "-m", "tests.engine.own_process", json.dumps(dict(spec))]
    longest = spec["seconds"] + 120  # as long as it follows what does not settle, and what it does besides
    return subprocess.run(command, capture_output=True, text=True, timeout=longest, check=False)


def start_again(spec: Mapping[str, Any]) -> dict[str, int]:
    """Start once more after a process was killed, and nothing kills this one; what came of it.

    A new desk in this process knows no more than a new process does, and takes two seconds less; the proofs start one.
    """
    assert "point" not in spec
    if not ALL:
        return counts_of(spec)
    ended = in_own_process(spec)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts: dict[str, int] = json.loads(ended.stdout)
    return counts


def main(spec: Mapping[str, Any]) -> None:
    """One start."""
    print(json.dumps(counts_of(spec)))


def counts_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """One start in this process."""
    rules = Path(spec["rules"])
    with closing(desk_of_process(spec)) as desk:
        if spec.get("point"):
            crash_points.arm(spec["point"], spec["hits"])
        if spec["act"] == "rebalance":
            summary = start(desk, rules, Path(spec["out"]), seconds=spec["seconds"])
        else:
            run_key = spec.get("run_key", "run")
            summary = fund_and_pay(desk, Path(spec["file"]), rules, Path(spec["out"]), run_key, seconds=spec["seconds"])
    return dict(summary["counts"])


def desk_of_process(spec: Mapping[str, Any]) -> Desk:
    """The desk that such a process works at."""
    home = Path(spec["home"])
    settings = Settings(
        home=home,
        base_url=spec["base_url"],
        partner_id=PARTNER_ID,
        private_key_file=None,
        platform_key_file=None,
        ledger_url=spec.get("ledger", f"sqlite:///{home / 'ledger.db'}"),
        ledger_key_file=home / "ledger.key",
        resend_after_seconds=0.0,
    )
    clock = MovedClock(None)
    clock.move(spec.get("ahead", 0))
    return Desk(Account(spec["base_url"], PARTNER_ID, Path(spec["key"]).read_text()), settings, clock=clock)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
