"""People at one ledger: what each of them does, in this process or in several at the same time.

python -m tests.machine.office --serve      one JSON line in: what is done at once, each in a process of its own
"""

import json
import os
import sys
import time
import traceback
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.engine import paying
from tests.engine.runs import HEADER
from tests.moved_clock import MovedClock
from treasury.errors import ApprovalNeeded, InputError, RunHeld, Stopped
from treasury.ledger.policies import adopt_policy
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import State
from treasury.payments import execution
from treasury.payments.approving import approve
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders, resolve_as_sent
from treasury.policy.model import parse_policy
from treasury.provider.client import Account
from treasury.provider.signing import load_private_key
from treasury.settings import Settings

DAY = 86_400
PERSON = {"by": "Ada Example", "why": "a history"}

_keys: dict[str, Any] = {}


def write_sheet(folder: Path, run_key: str, rows: Sequence[tuple[str, str, str]]) -> Path:
    """The sheet of a run: reference, amount, account; each row tells its place in its e-mail address."""
    lines = [
        f"{ref},direct,{amount},USDT_TRC20,IDR,bank_transfer,{account},Example Person,ID,1000120,0812000,"
        f"{run_key}.{ref}@b.example,"
        for ref, amount, account in rows
    ]
    file = folder / f"{run_key}.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


def open_desk(folder: Path, base_url: str, key: str, day: int) -> Desk:
    """A desk on this day, with short waits."""
    account = Account(base_url, "900001", key)
    if key not in _keys:
        _keys[key] = load_private_key(key)
    vars(account)["signing_key"] = _keys[key]  # parsed once, before any fork: 37 ms for each desk
    home = folder / "home"
    ledger = f"sqlite:///{home / 'ledger.db'}"
    places = (home, None, None, None, None, ledger, home / "ledger.key")
    desk = Desk(account, Settings(*places, in_flight=4, resend_after_seconds=0.0, quote_margin_seconds=0.0))
    set_day(desk, day)
    return desk


def set_day(desk: Desk, day: int) -> None:
    """Let it be another day for this process."""
    desk.ledger.clock = ahead = MovedClock(None)
    ahead.move(day * DAY)


def perform(desk: Desk, folder: Path, act: str, about: Sequence[Any]) -> dict[str, Any]:
    """Do what a person does; what the person was told."""
    told: dict[str, Any] = {}
    with suppress(InputError, ApprovalNeeded, Stopped, RunHeld):
        if act == "start":
            start(desk, folder, about[0])
        elif act == "cancel":
            told = _cancel(desk, about[0])
        elif act == "release":
            found = {order.request_id: order.hold_kind for order in desk.ledger.orders(run_key=about[0])}
            done = [each.order for each in release_orders(desk, about[0], None, **PERSON) if each.done]
            told = {"released": [(order.run_key, order.row_ref, found[order.request_id]) for order in done]}
        elif act == "resolve":
            resolve_as_sent(desk, about[0], **PERSON)
        elif act == "approve":
            approve(desk, about[0], name="Bert Example")
            told = {"approved": about[0]}
        elif act == "adopt":
            limit, approve_above = about
            table = {"max_per_day": {"USDT_TRC20": limit}, "one_approval_above": {"USDT_TRC20": approve_above}}
            policy = parse_policy({"payouts": table}, "policy.toml")
            adopt_policy(desk.ledger, policy, "policy.toml", by="Ada Example", os_user="ada")
            told = {"rules": True}
        elif act == "stop":
            stop_sending(desk.ledger, "Ada Example", "a history")
            told = {"rules": True}
        elif act == "lift":
            lift_stop(desk.ledger, "Ada Example")
            told = {"rules": True}
    return told


def start(desk: Desk, folder: Path, run_key: str) -> None:
    """Start a run, as `treasury pay` does."""
    file = folder / f"{run_key}.csv"
    paying.propose(desk, paying.plan_of(desk, file, run_key))
    for ids in paying.commit(desk, file, run_key):
        execution.send_orders(desk, run_key, ids)


def _cancel(desk: Desk, reference: str) -> dict[str, Any]:
    done = cancel(desk, reference, **PERSON)
    orders = [decision.order for decision in done.decisions if decision.done]
    return {
        "cancelled": [(order.run_key, order.row_ref) for order in orders],
        "ended": None if done.plan is None else done.plan.run_key,
    }


def waiting_ids(desk: Desk, run_key: str) -> dict[tuple[str, str], str]:
    """Place -> request id of what never left of a run, by this ledger."""
    orders = desk.ledger.orders(run_key=run_key, states=(State.PREPARED, State.HELD))
    return {(order.run_key, order.row_ref): order.request_id for order in orders}


def _in_a_process(said: dict[str, Any], act: str, about: list[Any]) -> None:
    """One act in this process, which ends with it; the service hears what the person was told."""
    time.sleep(about.pop())
    folder = Path(said["folder"])
    desk = open_desk(folder, said["base_url"], said["key"], said["day"])
    told = perform(desk, folder, act, about)
    content = json.dumps({"act": act, "about": about, **told}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{said['base_url']}/said", content), timeout=30).read()
    desk.close()


def _fork(said: dict[str, Any]) -> list[int]:
    if said["key"] not in _keys:
        _keys[said["key"]] = load_private_key(said["key"])
    children = []
    for act, about in said["acts"]:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with (Path(said["folder"]) / "log.txt").open("a") as log:
                    os.dup2(log.fileno(), 1)
                    os.dup2(log.fileno(), 2)
                _in_a_process(said, act, about)
                code = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def serve() -> None:
    """Until the input ends."""
    for line in sys.stdin:
        print(json.dumps(_fork(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
