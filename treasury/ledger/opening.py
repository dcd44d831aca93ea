"""Opens a ledger: its file, its tables in the format of today, its account and its key."""

from pathlib import Path

from sqlalchemy import Connection, select

from treasury.errors import ConfigurationError, WrongAccount, WrongLedgerKey
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey, no_key
from treasury.ledger.database import serialize
from treasury.ledger.migrations import bring_up_to_date, check_readable, read_meta, set_meta
from treasury.private_files import make_empty
from treasury.provider.address import canonical_account


def prepare_file(file: Path) -> None:
    """Make the file of a SQLite ledger, for its owner alone. Raises `ConfigurationError`."""
    try:
        make_empty(file)  # before SQLite does; its log takes the mode of the file
    except OSError as error:
        raise ConfigurationError(f"the ledger {file} cannot be made: {error.strerror}") from None


def open_tables(connection: Connection, account: str, key_file: Path) -> tuple[LedgerKey, str]:
    """Make the tables on first use, migrate an older ledger, refuse one of another account or key.

    Returns the key, and the account as the ledger spells it.
    """
    serialize(connection)
    found = read_meta(connection)
    check_readable(found)
    if found and not key_file.exists():  # a new key could not read the ledger, and would take the old one's place
        raise WrongLedgerKey(no_key(key_file))
    key = LedgerKey.load(key_file)
    if found and canonical_account(found["account"]) != canonical_account(account):
        if found["schema"] == schema.VERSION and _is_unused(connection):
            # An unused ledger: its partner id may have been mistyped.
            set_meta(connection, {"account": account})
            found = {**found, "account": account}
        else:
            raise WrongAccount(
                f"this ledger belongs to {readable_account(found['account'])}, not to "
                f"{readable_account(account)}; give the other account a home of its own (TREASURY_HOME) or a "
                "ledger of its own (TREASURY_LEDGER_URL)"
            )
    if found and found["key"] != key.fingerprint:
        raise WrongLedgerKey(
            f"this ledger was written with another key than {key_file} holds: put its own back, from a backup if need "
            "be, or point TREASURY_LEDGER_KEY_FILE at it"
        )
    account = found.get("account", account)
    key.bind_to(canonical_account(account))
    bring_up_to_date(connection, found, key, account)
    if not found:
        set_meta(connection, {"schema": schema.VERSION, "account": account, "key": key.fingerprint})
    return key, account


def _is_unused(connection: Connection) -> bool:
    """Tell whether the ledger holds no run, no order and no card user."""
    kept = [table for table in schema.metadata.sorted_tables if table is not schema.meta]
    return all(connection.execute(select(table).limit(1)).first() is None for table in kept)


def check_account(connection: Connection, account: str) -> None:
    """Raise `WrongAccount` when the ledger was bound to another account since this process opened it."""
    bound = read_meta(connection)["account"]
    if bound != account:
        raise WrongAccount(
            f"this ledger was bound to {readable_account(bound)} since this process opened it for "
            f"{readable_account(account)}; nothing was recorded: start it again"
        )


def readable_account(account: str) -> str:
    """An account for display."""
    url, _, partner = account.partition("|")
    return f"partner {partner} at {url}"
