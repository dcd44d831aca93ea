"""Epochs: a ledger that was restored from a backup may have forgotten what it sent since.

A token stands in the ledger and in a file beside its key, renewed whenever a run is begun; for SQLite the ledger also
remembers which file it is. When they do not agree, a new epoch begins: every order that is ready to be sent is asked
about first. A restored ledger is noticed so unless both were copied back in place, over the same files; a needless
epoch costs a question for each waiting order and nothing else.
"""

import os
import uuid
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from treasury.errors import ConfigurationError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.states import State


def begin_epoch_if_restored(ledger: Ledger, key_file: Path, ledger_file: Path | None) -> int:
    """Mark what has to be asked before it is sent, if the ledger was restored; returns how many orders that are."""
    sidecar = key_file.with_name(key_file.name + ".epoch")
    here = _read(sidecar)
    identity = "" if ledger_file is None else _identity(ledger_file)
    token = uuid.uuid4().hex

    def work(connection: Connection) -> int:
        serialize(connection)
        known = {row.key: row.value for row in connection.execute(select(schema.meta))}
        restored = "epoch" in known and (known["epoch"], known["file"]) != (here, identity)
        marked = 0
        if restored:
            waiting = schema.orders.c.state == State.PREPARED.value
            marked = connection.execute(update(schema.orders).where(waiting).values(absences_needed=1)).rowcount
        connection.execute(delete(schema.meta).where(schema.meta.c.key.in_(("epoch", "file"))))
        connection.execute(insert(schema.meta), [{"key": "epoch", "value": token}, {"key": "file", "value": identity}])
        return marked

    marked = ledger.write(work)
    _write(sidecar, token)
    return marked


def _identity(file: Path) -> str:
    status = file.stat()
    return f"{status.st_dev}:{status.st_ino}"


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _write(file: Path, token: str) -> None:
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        fresh.write_text(token + "\n", encoding="ascii")
        fresh.replace(file)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}; nothing was sent") from None
