"""The engine in a process of its own, without Prefect: one start of a run, or a server that forks one for each line.

    python -m tests.crash.driver '{"home": ..., "base_url": ..., ...}'      one start, in this process
    python -m tests.crash.driver --serve                                    one JSON line in, one JSON line out

Forking saves the 0.7 s that the imports take; every start is still a process with its own connections, locks and
threads, and SIGKILL ends it as it would end any other.
"""

import json
import os
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.crash import people
from tests.crash.kinds import kind_of
from tests.crash.payments import PARTNER_ID, hurry
from treasury.concurrency import crash_points
from treasury.errors import LimitExceeded, PolicyChanged, RunHeld
from treasury.ledger.policies import policy_in_force
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import load_private_key
from treasury.settings import Settings, read_settings

DONE, HELD, BROKEN = 0, 6, 1

_keys: dict[str, Any] = {}


def start(spec: dict[str, Any]) -> int:
    """One start of a run; dies at its armed point, if it comes there."""
    home = Path(spec["home"])
    settings = Settings(
        home=home,
        base_url=spec["base_url"],
        partner_id=PARTNER_ID,
        private_key_file=None,
        platform_key_file=None,
        ledger_url=spec["ledger_url"],
        ledger_key_file=home / "ledger.key",
        resend_after_seconds=spec["resend_after"],
        quote_margin_seconds=spec["resend_after"],
        http_engine=read_settings().http_engine,
    )
    rules = ServiceRules(
        quote_life_seconds=spec.get(
            "quote_seconds", 60.0
        ),  # a restored ledger knows no end of what it does not know it asked
        unconfirmed_statuses=frozenset({11}),  # a confirmed payout shows it for less than two queries are apart
    )
    account = Account(spec["base_url"], PARTNER_ID, spec["private_key"], rules=rules)
    if spec["private_key"] in _keys:
        vars(account)["signing_key"] = _keys[spec["private_key"]]  # parsed before the fork: 37 ms for each start
    if spec.get("point"):
        crash_points.arm(spec["point"], spec["hits"])
    try:
        desk = Desk(account, replace(settings, in_flight=spec.get("in_flight", 4)))
        hurry(desk)
        if spec.get("says"):
            people.say(desk, spec["says"], spec["kinds"], home)
        else:
            _start_all(desk, spec, home)
        desk.close()
    except RunHeld:
        return HELD
    return DONE


def _start_all(desk: Desk, spec: dict[str, Any], home: Path) -> None:
    kinds, policy = spec["kinds"], spec.get("policy")
    if policy is not None and (spec.get("decide") or policy_in_force(desk.ledger) is None):
        people.adopt(desk, policy, kinds)
    if spec.get("decide"):
        people.decide(desk, [(run_key, row_ref) for run_key, row_ref in spec.get("cancelled", ())])
    for name in kinds:
        try:
            kind_of(name, spec.get("numbers", ())).start(desk, home)
        except (LimitExceeded, PolicyChanged) as refused:  # a person lowered the policy meanwhile
            print(f"{name}: {refused}", flush=True)


def _fork(spec: dict[str, Any]) -> dict[str, Any]:
    if spec["private_key"] not in _keys:
        _keys[spec["private_key"]] = load_private_key(spec["private_key"])
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            with (Path(spec["home"]) / "log.txt").open("a") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            code = start(spec)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    status = _await(child, spec.get("kill_after"), spec.get("limit", 60.0))
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    ended = None if killed else os.waitstatus_to_exitcode(status)
    return {"killed": killed, "code": ended, "seconds": time.monotonic() - began}


def _await(child: int, kill_after: float | None, limit: float) -> int:
    end = time.monotonic() + (limit if kill_after is None else kill_after)
    pause = 0.0005
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(pause * 1.5, 0.01 if kill_after is None else 0.001)
    os.kill(child, signal.SIGKILL if kill_after is not None else signal.SIGABRT)
    return os.waitpid(child, 0)[1]


def serve() -> None:
    """Until the input ends."""
    for line in sys.stdin:
        print(json.dumps(_fork(json.loads(line))), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        sys.exit(start(json.loads(sys.argv[1])))
