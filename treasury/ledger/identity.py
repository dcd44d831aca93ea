"""The identity of a ledger: a random name that no other has, and that changes when it is found to be restored."""

from sqlalchemy import Connection, insert, select

from treasury.ledger import schema
from treasury.ledger.token import new_name


def identity_of_ledger(connection: Connection) -> str:
    """The identity of this ledger, which gets one here if it has none yet."""
    table = schema.meta.c
    known = connection.execute(select(table.value).where(table.key == "identity")).scalar()
    if known is not None:
        return str(known)
    name = new_name()
    connection.execute(insert(schema.meta).values(key="identity", value=name))
    return name
