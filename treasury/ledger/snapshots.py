"""Snapshots that rebalancings were planned from: what was held, to be paid and quoted, and what was decided.

Of a payout run that is funded, what people agreed to is kept: the bounds of its conversions. Pay-ins and deposits that
are expected, and deposit addresses that were issued, are rows of the same table.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, insert, select

from treasury.addresses import canonical_address
from treasury.concurrency.batches import batched
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.mapping import kept_json
from treasury.planning.market import GOOD_FOR_MS
from treasury.planning.trades import Rates


def keep_snapshot(ledger: Ledger, run_key: str, policy: str | None, content: Mapping[str, Any]) -> None:
    """Keep what a rebalancing was planned from, and what was decided. `policy`: the version in force."""
    row = _sealed(ledger, run_key, policy, content)
    ledger.write(lambda connection: connection.execute(insert(schema.snapshots).values(**row)).rowcount)


def _sealed(ledger: Ledger, run_key: str, policy: str | None, content: Mapping[str, Any]) -> dict[str, Any]:
    row = {"run_key": run_key, "at": ledger.now(), "policy": policy}
    sealed = {"checksum": _checksum(ledger.key, row, content), "content": content}
    return {**row, "content": json.dumps(sealed, ensure_ascii=False)}


def snapshot_of(ledger: Ledger, run_key: str, plan_sha256: str | None = None) -> dict[str, Any] | None:
    """The newest snapshot of a run, of this plan where one is named; None where none was kept."""
    table = schema.snapshots.c
    contents = _contents(ledger, of_run(run_key).order_by(table.id.desc()))
    return next((each for each in contents if plan_sha256 in (None, each["plan_sha256"])), None)


def planned_snapshot(ledger: Ledger, run_key: str, plan_sha256: str) -> dict[str, Any]:
    """A round as it was kept when it was planned: of what tasks hand on, only its run key and hash count.

    Raises `InputError` for one that was not planned here, or was changed since.
    """
    kept = snapshot_of(ledger, run_key, plan_sha256)
    if kept is None:
        raise InputError(f"run {run_key}: this ledger did not plan this round; nothing was recorded: start it again")
    return kept


RECEIPT = "receipt "
"""Stands before the request id of a pay-in in the place of a run key."""


def expect_receipt(ledger: Ledger, request_id: str, receipt: Mapping[str, str] | None) -> None:
    """Record a pay-in that is about to be asked for: the reconciliation asks for it every night, as for an order.

    `receipt`: its currency and amount; None takes back one that the service has refused for good.
    """
    expect_receipts(ledger, {request_id: receipt})


def expect_receipts(ledger: Ledger, receipts: Mapping[str, Mapping[str, str] | None]) -> None:
    """Record what is to come in, by request id, in one transaction; when this ledger first learnt of it stays."""
    rows, known = [], expected_receipts(ledger, receipts)
    for request_id, receipt in receipts.items():
        since = known[request_id]["created_at"] if request_id in known else ledger.now()
        said = None if receipt is None else {**receipt, "request_id": request_id, "created_at": since}
        rows.append(_sealed(ledger, RECEIPT + request_id, None, {"plan_sha256": None, "receipt": said}))

    def work(connection: Connection) -> None:
        serialize(connection)  # a report counts these rows by their ids
        connection.execute(insert(schema.snapshots), rows)

    if rows:
        ledger.write(work)


def expected_receipts(ledger: Ledger, among: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return request id -> every pay-in and deposit, or those `among` these: currency, amount as text, and when this
    ledger learnt of it, Unix ms."""
    table = schema.snapshots.c
    named = (
        table.run_key.startswith(RECEIPT) if among is None else table.run_key.in_([RECEIPT + name for name in among])
    )
    query = select(schema.snapshots).where(named).order_by(table.id)
    found = {}
    for row in ledger.read(query):
        content, is_sealed = read_content(ledger.key, row)
        if is_sealed:
            found[row.run_key.removeprefix(RECEIPT)] = content["receipt"]
    return {name: receipt for name, receipt in found.items() if receipt is not None}


INVOICES = "invoices "
"""Stands before a run key of invoices in the place of a run key."""


def claim_for_invoices(ledger: Ledger, run_key: str) -> None:
    """Record that a run key names invoices, so that no payments take it."""
    if not is_of_invoices(ledger, run_key):
        keep_snapshot(ledger, INVOICES + run_key, None, {"plan_sha256": None})


def is_of_invoices(ledger: Ledger, run_key: str) -> bool:
    """Tell whether a run key names invoices."""
    return snapshot_of(ledger, INVOICES + run_key) is not None


def check_not_of_invoices(ledger: Ledger, run_key: str) -> None:
    """Raise `InputError` for a run key that names invoices: results of both would stand in one folder."""
    if is_of_invoices(ledger, run_key):
        raise InputError(f"run key {run_key} belongs to invoices; nothing was sent: choose another")


COMPARED = ("request_id", "currency", "amount", "order_type", "created_at", "run_key", "row_ref")
"""Members of a receipt that a report needs; of how its customer pays it needs a hash of the address alone."""

REJECTED = "rejected"
"""Member of a receipt that the service refused for good: why. Nobody asks for it."""


_AT_ONCE = 500
"""Ids that are looked up together."""


def asked_receipts(ledger: Ledger) -> list[dict[str, Any]]:
    """The pay-ins and deposits that every reconciliation asks for, each with what a report compares."""
    asked = {name: each for name, each in expected_receipts(ledger).items() if REJECTED not in each}
    orders = schema.orders.c.request_id
    for some in batched(tuple(asked), _AT_ONCE):  # an order under this id is asked about as one
        for row in ledger.read(select(orders).where(orders.in_(some))):
            del asked[row.request_id]
    return [_compared(ledger, receipt) for receipt in asked.values()]


def _compared(ledger: Ledger, receipt: Mapping[str, Any]) -> dict[str, Any]:
    to = address_hash(ledger.key, receipt.get("receive_address"))
    return {name: receipt[name] for name in COMPARED if name in receipt} | ({} if to is None else {"to": to})


def address_hash(key: LedgerKey, address: str | None, tag: str | None = None) -> str | None:
    """Return what an address of money that comes in is known by; None where there is none."""
    return None if not address else key.keyed_hash(["address", canonical_address(address), tag or ""])


ISSUED = "deposit "
"""Stands before what names customer and asset of a deposit address, in the place of a run key."""


def issued_addresses(ledger: Ledger, until: int) -> set[str]:
    """The hashes of the deposit addresses that customers were given until then, Unix ms."""
    table = schema.snapshots.c
    query = select(schema.snapshots).where(table.run_key.startswith(ISSUED), table.at <= until).order_by(table.id)
    hashes = (address_hash(ledger.key, each.get("address"), each.get("tag")) for each in _contents(ledger, query))
    return {each for each in hashes if each is not None}


def snapshots_of(ledger: Ledger, run_key: str, policy: str | None) -> list[dict[str, Any]]:
    """Everything that was kept for a run under a policy, the newest first."""
    table = schema.snapshots.c
    same = table.policy.is_(None) if policy is None else table.policy == policy
    return list(_contents(ledger, of_run(run_key, same).order_by(table.id.desc())))


def snapshots_between(ledger: Ledger, since: int, until: int) -> list[dict[str, Any]]:
    """The snapshots of a time, oldest first; Unix ms, the end not included."""
    table = schema.snapshots.c
    query = select(schema.snapshots).where(table.at >= since, table.at < until).order_by(table.id)
    return [each for each in _contents(ledger, query) if "snapshot" in each]


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


def of_run(run_key: str, *more: ColumnElement[bool]) -> Select[Any]:
    """Return what was kept for a run: rows for `read_content`."""
    return select(schema.snapshots).where(schema.snapshots.c.run_key == run_key, *more)


def read_content(key: LedgerKey, row: Row[Any]) -> tuple[dict[str, Any], bool]:
    """Return what a row keeps, and whether nobody changed it by hand."""
    kept = kept_json(row.content)
    content = dict(kept.get("content", kept))
    return content, kept.get("checksum") == _checksum(key, row._mapping, content)


def _contents(ledger: Ledger, query: Select[Any]) -> Iterator[dict[str, Any]]:
    """Yield what rows keep, but for what somebody changed by hand."""
    for row in ledger.read(query):
        content, is_sealed = read_content(ledger.key, row)
        if is_sealed:
            yield content


def _checksum(key: LedgerKey, row: Mapping[Any, Any], content: Mapping[str, Any]) -> str:
    return key.checksum(["snapshots", row["run_key"], row["at"], row["policy"], dict(content)])
