"""Triggers, views and rules that somebody gave the database of a ledger: they change what is written and read of it."""

import hashlib

from sqlalchemy import Connection, bindparam, text

from treasury.ledger import schema
from treasury.ledger.ledger import Ledger

_SQLITE = text(
    "SELECT type, name || ' of ' || tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN :tables "
    "OR type = 'view' AND name IN :tables ORDER BY type, name"
).bindparams(bindparam("tables", expanding=True))
_POSTGRESQL = text("""
WITH ours AS (SELECT to_regclass(name) AS id FROM unnest(CAST(:tables AS text[])) AS name)
SELECT 'trigger', concat(tgname, ' of ', CAST(tgrelid AS regclass)),
       concat(pg_get_triggerdef(t.oid), tgenabled, p.prosrc)
  FROM pg_trigger t JOIN pg_proc p ON p.oid = tgfoid WHERE NOT tgisinternal AND tgrelid IN (SELECT id FROM ours)
UNION ALL SELECT 'rule', concat(rulename, ' of ', CAST(ev_class AS regclass)), pg_get_ruledef(oid)
  FROM pg_rewrite WHERE ev_class IN (SELECT id FROM ours)
UNION ALL SELECT 'policy', concat(polname, ' of ', CAST(polrelid AS regclass)),
       concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
  FROM pg_policy WHERE polrelid IN (SELECT id FROM ours)
ORDER BY 1, 2
""")
"""A view in a table's place is a rule here. Two tables may each have one of a name."""


def made_by_hand(ledger: Ledger) -> dict[str, str]:
    """Return what the tables of this ledger have that this program never makes, as people read it -> a hash of what it
    does. A view of another name, for a report of somebody's own, changes nothing."""
    names = [table.name for table in schema.metadata.sorted_tables]

    def work(connection: Connection) -> dict[str, str]:
        query = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL
        rows = connection.execute(query, {"tables": names})
        return {f"{kind} {name}": hashlib.sha256(str(does).encode()).hexdigest()[:8] for kind, name, does in rows}

    return ledger.look(work)
