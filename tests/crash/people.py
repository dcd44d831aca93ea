"""Words of people between two starts of a case, each in a process of its own that may be killed, too."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from treasury.errors import InputError
from treasury.ledger.policies import adopt_policy, policy_in_force
from treasury.orders.states import Hold, State
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.payments.resolving import Decision, release_orders, resolve_as_ended, resolve_as_not_sent, resolve_as_sent
from treasury.policy.model import Policy, parse_policy

Place = tuple[str, str]
"""Run key and row reference."""

PERSON = {"by": "Ada Example", "why": "looked at the portal"}
SAID = "said.json"
"""File of a home: what the last process of a person confirmed before it ended."""


def make_policy(name: str, kinds: Sequence[str]) -> Policy:
    """A policy by its name: `no limits`; `fits`, in which every row fits; `wide`; `low`, in which only some do.

    Of a quote that was asked elsewhere nobody knows beforehand what it debits, so that no policy limits it.
    """
    if name == "no limits":
        return parse_policy({"no_limits": "a case"}, "policy.toml")
    times = {"fits": 1, "wide": 2, "low": 1}[name]
    low = name == "low"
    tables: dict[str, Any] = {
        "payouts": {
            "max_per_payout": {"USDT": 500},
            "max_per_day": {"USDT": 250 if low else 5_000 * times, "USDT_TRC20": 12 if low else 1_000 * times},
        },
        "withdrawals": {"max_per_day": {"USDT_TRC20": 25 if low else 1_000 * times}},
        "conversions": {"max_per_day": {"ETH": 1 * times, "TRX": 1_000 * times}},
    }
    if "confirmation" in kinds:
        del tables["payouts"]
    return parse_policy(tables, "policy.toml")


def adopt(desk: Desk, name: str, kinds: Sequence[str]) -> None:
    """Put a policy in force, unless it is."""
    policy, before = make_policy(name, kinds), policy_in_force(desk.ledger)
    if before is None or before.version != policy.version:
        adopt_policy(desk.ledger, policy, "policy.toml", by=PERSON["by"], os_user="ada")


def say(desk: Desk, act: str, kinds: Sequence[str], home: Path) -> None:
    """Do what a person says; what is confirmed stands in `SAID` afterwards."""
    confirmed: list[Place] = []
    if act in ("low", "wide"):
        adopt(desk, act, kinds)
    else:
        runs = sorted({order.run_key for order in desk.ledger.orders()})
        rows = [order.request_id for order in desk.ledger.orders() if order.state in (State.PREPARED, State.HELD)]
        for reference in rows[-1:] if act == "cancel row" else [f"run:{run_key}" for run_key in runs]:
            found = cancel(desk, reference, **PERSON).decisions
            tell(found)
            confirmed += [(each.order.run_key, each.order.row_ref) for each in found if each.done]
    (home / SAID).write_text(json.dumps(confirmed))


def decide(desk: Desk, cancelled: Sequence[Place]) -> None:
    """A person cancels again what an older ledger brought back, releases what is held, and says of what the service
    knows that it was sent, or of a cancelled row, that it failed."""
    waiting = desk.ledger.orders(states=(State.PREPARED, State.HELD))
    for order in [order for order in waiting if (order.run_key, order.row_ref) in cancelled]:
        tell(cancel(desk, order.request_id, **PERSON).decisions)
    for run_key in sorted({order.run_key for order in desk.ledger.orders(states=(State.HELD,))}):
        for kind in (Hold.OLDER, Hold.LIMIT):
            with suppress(InputError):
                tell(release_orders(desk, run_key, kind, **PERSON))
        with suppress(InputError):
            tell(resolve_as_sent(desk, run_key, **PERSON))
    for order in desk.ledger.orders(states=(State.HELD,)):
        with suppress(InputError):
            if (order.run_key, order.row_ref) in cancelled:
                tell(resolve_as_ended(desk, order.request_id, State.FAILED, None, **PERSON))
            else:
                tell(resolve_as_not_sent(desk, order.request_id, **PERSON))


def tell(decisions: list[Decision]) -> None:
    """Write what a person decided to the log of the case."""
    for decision in decisions:
        print(f"{decision.order.row_ref} {decision.order.state}: {decision.says}", flush=True)


def confirmed_in(home: Path) -> list[Place]:
    """Return what the last process of a person confirmed."""
    return [(run_key, row_ref) for run_key, row_ref in json.loads((home / SAID).read_text())]


def rows_of_copy(ledger: Path) -> set[Place]:
    """The rows that a copy of a ledger holds, read with plain SQL."""
    with closing(sqlite3.connect(ledger)) as copy:
        return set(copy.execute("SELECT run_key, row_ref FROM orders"))


def still_meant(cancelled: Mapping[Place, int], copied_after: int, what: str, copy: Path) -> dict[Place, int]:
    """The cancellations that hold although an older copy was put back: place -> after how many starts it was said.

    Two kinds cannot: of a row that the copy does not know at all, for its run begins anew; and of any, when ledger and
    token are put over the very same files, for then nothing on the machine tells.
    """
    known = rows_of_copy(copy)
    return {
        place: said
        for place, said in cancelled.items()
        if said < copied_after or (place in known and what != "in place")
    }
