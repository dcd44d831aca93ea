"""Snapshots that rebalancings were planned from: what was held, to be paid and quoted, and what was decided.

Of a payout run that is funded, what people agreed to is kept: the bounds of its conversions.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, select

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.planning.rate_guards import GOOD_FOR_MS
from treasury.planning.trades import Rates


def keep_snapshot(ledger: Ledger, run_key: str, policy: str | None, content: Mapping[str, Any]) -> None:
    """Keep what a rebalancing was planned from, and what was decided. `policy`: the version in force."""
    row = {"run_key": run_key, "at": ledger.now(), "policy": policy, "content": json.dumps(content, ensure_ascii=False)}
    ledger.write(lambda connection: connection.execute(insert(schema.snapshots).values(**row)).rowcount)


def snapshot_of(ledger: Ledger, run_key: str, plan_sha256: str | None = None) -> dict[str, Any] | None:
    """The newest snapshot of a run, of this plan where one is named; None where none was kept."""
    table = schema.snapshots.c
    query = select(table.content).where(table.run_key == run_key).order_by(table.id.desc())
    contents = (dict(json.loads(row.content)) for row in ledger.read(query))
    return next((each for each in contents if plan_sha256 in (None, each["plan_sha256"])), None)


def snapshots_of(ledger: Ledger, run_key: str, policy: str | None) -> list[dict[str, Any]]:
    """Everything that was kept for a run under a policy, the newest first."""
    table = schema.snapshots.c
    same = table.policy.is_(None) if policy is None else table.policy == policy
    query = select(table.content).where(table.run_key == run_key, same).order_by(table.id.desc())
    return [dict(json.loads(row.content)) for row in ledger.read(query)]


def snapshots_between(ledger: Ledger, since: int, until: int) -> list[dict[str, Any]]:
    """The snapshots of a time, oldest first; Unix ms, the end not included."""
    table = schema.snapshots.c
    query = select(table.content).where(table.at >= since, table.at < until).order_by(table.id)
    contents = [dict(json.loads(row.content)) for row in ledger.read(query)]
    return [each for each in contents if "snapshot" in each]


def last_good_rates(ledger: Ledger) -> dict[str, Rates]:
    """Pair -> its newest rates of the past three days that no guard stopped."""
    now = ledger.now()
    found: dict[str, Rates] = {}
    for content in snapshots_between(ledger, now - GOOD_FOR_MS, now + 1):
        snapshot = content["snapshot"]
        for symbol, each in snapshot["rates"].items():
            if symbol not in snapshot["missing"]:
                found[symbol] = Rates.from_text(each)
    return found
