"""Card users in the ledger, as the service showed them; whoever made them, here or elsewhere."""

from typing import Any

from sqlalchemy import Connection, select, update

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger
from treasury.ledger.statements import insert_if_new
from treasury.provider.card_users import PASSED, CardUserRecord


def card_users(ledger: Ledger) -> list[Any]:
    """Card users as last seen, in the order of `user_xid`: the columns of the table."""
    return ledger.read(select(schema.card_users).order_by(schema.card_users.c.user_xid))


def saw_card_user(ledger: Ledger, user_xid: str, user: CardUserRecord) -> None:
    """Record a card user as the service showed it; what an answer does not say stays as it was."""
    table, now = schema.card_users, ledger.now()
    shown = {"user_id": user.user_id, "kyc_status": user.kyc_status, "kyc_level": user.kyc_level}
    row = {"seen_at": now, **{name: value for name, value in shown.items() if value is not None}}

    def work(connection: Connection) -> None:
        new = {"user_xid": user_xid, "first_at": now, "since": now, **row, **passed(None)}
        if insert_if_new(connection, table, new):
            return
        known = connection.execute(select(table).where(table.c.user_xid == user_xid)).one()
        since = known.since if user.kyc_status in (None, known.kyc_status) else now
        connection.execute(
            update(table).where(table.c.user_xid == user_xid).values(since=since, **row, **passed(known))
        )

    def passed(known: Any) -> dict[str, Any]:
        if user.kyc_status != PASSED:
            return {}
        first = None if known is None else known.passed_at
        levels = (user.kyc_level, None if known is None else known.passed_level)
        highest = max((level for level in levels if level is not None), default=None)
        return {"passed_at": now if first is None else first, "passed_level": highest}

    ledger.write(work)
