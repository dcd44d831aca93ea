"""The ledger's hot statements, each built once: building one anew for every step cost more than signing a request."""

import functools
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Executable, bindparam, insert, select, update

from treasury.ledger import schema

APPEND = insert(schema.journal).inline()
"""A step's line in the journal; `cause`, `code` and `status` are always given."""

STANDING_STOP = select(schema.stops).where(schema.stops.c.lifted_at.is_(None)).limit(1)
"""The stop that stands, if any."""


@functools.lru_cache(maxsize=256)
def change(known: tuple[str, ...], columns: tuple[str, ...], *, counts_send: bool = False) -> Executable:
    """Set `columns` of the order of which all of `known` is still true; answers its row, or none.

    `counts_send`: one more transmission leaves. Values come from `change_parameters`.
    """
    orders = schema.orders
    values: dict[str, Any] = {name: bindparam(f"to_{name}", type_=orders.c[name].type) for name in columns}
    if counts_send:
        values["sends"] = orders.c.sends + 1
    query = update(orders).values(values).returning(orders)
    for name in known:
        query = query.where(orders.c[name] == bindparam(f"is_{name}", type_=orders.c[name].type))
    return query


def change_parameters(known: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What a `change` of the same names is given."""
    return {f"is_{name}": value for name, value in known.items()} | {f"to_{k}": v for k, v in values.items()}
