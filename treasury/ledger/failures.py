"""Failures of the ledger's database: what each means for whoever works on it, and what to do."""

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.exc import DBAPIError, OperationalError

from treasury.errors import CannotGoOn, ConfigurationError, DiskFull, LedgerLost


def unusable(what: str, error: DBAPIError, file: Path | None = None) -> ConfigurationError:
    """Return what a failure of the ledger's database means: `opened`, `read` or `written` is what it cannot be. `file`:
    the ledger's, if it has one."""
    codes, said = names_of(error), in_a_line(error)
    if codes & FULL:
        return DiskFull(said)
    says_away = isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", "") in AWAY
    if what != "opened" and (error.connection_invalidated or says_away):  # it was there when it was opened
        return LedgerLost(said)
    if file is not None and any(str(name).startswith(CLOSED) for name in codes):
        return ConfigurationError(f"the ledger {file} cannot be {what}: {said}: {OPEN_IT}")
    remedy = next((f": {REMEDIES[code]}" for code in codes & REMEDIES.keys()), "")
    kind = CannotGoOn if what != "opened" and codes & IN_VAIN else ConfigurationError  # it may have sent before
    return kind(f"the ledger cannot be {what}: {said}{remedy}")


def names_of(error: Exception) -> set[str | None]:
    """Return the names that SQLite and PostgreSQL give a failure; None for one without."""
    return {getattr(getattr(error, "orig", None), name, None) for name in ("sqlite_errorname", "sqlstate")}


def in_a_line(error: DBAPIError) -> str:
    """Return what a database said, without the statement that PostgreSQL says it about."""
    said = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    return str(said or error.orig)


AWAY = {None, "57P01", "57P02", "57P03"}
"""Codes that PostgreSQL gives while it shuts down or starts; None where no connection is made."""

FULL = {"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "53100"}
"""Names that SQLite and PostgreSQL give a disk that is full; of SQLite the second one when a ledger is opened."""

IN_VAIN = {"55P03", "SQLITE_BUSY"}
"""Names of a lock that another session did not let go in time."""

REMEDIES: Mapping[str | None, str] = {
    # Since version 15 of PostgreSQL only a database's owner makes tables in it.
    "42501": "the user of TREASURY_LEDGER_URL has to make and change tables there (ALTER DATABASE name OWNER TO user)",
    "42703": "that table is another program's, or was changed by hand: give the ledger a database of its own",
    "25006": "TREASURY_LEDGER_URL has to name the server that takes writes, and no standby of it",
    **dict.fromkeys(IN_VAIN, "another program holds a lock on it: end that, and start it again; nothing is sent twice"),
}
"""Names that SQLite and PostgreSQL give a failure -> what to do."""

CLOSED = ("SQLITE_CANTOPEN", "SQLITE_READONLY")
"""Begin the names that SQLite gives a file or folder that is read-only, or somebody else's."""

OPEN_IT = "nobody who may not write to the file and to its folder can use it, nor anybody on a disk that is read-only"
