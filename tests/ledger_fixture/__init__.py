"""A ledger of revision 0001 with orders in every state, as `make.py` took it from the code that wrote it."""

import json
import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, create_engine, select, text
from sqlalchemy.pool import NullPool

from treasury.ledger.cipher import LedgerKey
from treasury.ledger.database import sqlite_file

HERE = Path(__file__).parent
TOKEN = "49474572872340e1a428e3ef43af4e93"


def plain_engine(url: str) -> Any:
    """The database as it is, without anything that the ledger does when it is opened."""
    return create_engine(url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)


def put_old_ledger(url: str, account: str, key_file: Path) -> None:
    """Put it there, bound to this account, with a key of its own, as if it had been used there last."""
    file = sqlite_file(url)
    engine = plain_engine(url)
    if file is not None:
        shutil.copy(HERE / "ledger.db", file)
        file.chmod(0o600)
    else:
        raw = engine.raw_connection()
        raw.cursor().execute((HERE / "ledger.sql").read_text())
        raw.commit()
        raw.close()
    key = LedgerKey.load(key_file)
    key_file.with_name(key_file.name + ".epoch").write_text(TOKEN + "\n")
    identity = "" if file is None else f"{file.stat().st_dev}:{file.stat().st_ino}"
    rows = {"account": account, "key": key.fingerprint, "epoch": TOKEN, "file": identity}
    with engine.begin() as connection:
        for name, value in rows.items():
            connection.execute(text("UPDATE meta SET value = :v WHERE key = :k"), {"k": name, "v": value})
        for name, held in json.loads((HERE / "open.json").read_text()).items():
            run_key, row_ref = name.split(" ")
            values = {
                "p": None if held["payload"] is None else key.encrypt(held["payload"]),
                "m": key.keyed_hash(held["meaning"]),
                "a": None if held["alike"] is None else key.keyed_hash(held["alike"]),
            }
            change = "UPDATE orders SET payload = :p, meaning = :m, alike = :a WHERE run_key = :k AND row_ref = :r"
            connection.execute(text(change), {**values, "k": run_key, "r": row_ref})


def contents(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, whatever tables there are."""
    engine = plain_engine(url)
    tables = MetaData()
    tables.reflect(engine)
    found = {}
    with engine.connect() as connection:
        for name, table in tables.tables.items():
            rows = [dict(row._mapping) for row in connection.execute(select(table))]
            found[name] = sorted(rows, key=lambda row: [str(row[column.name]) for column in table.primary_key] or [""])
    return found
