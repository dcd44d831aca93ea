"""`treasury backup` and `treasury restore`."""

from contextlib import suppress
from pathlib import Path

from flows.commands.common import DONE, say_files
from treasury.clock import MACHINE
from treasury.files import write_json
from treasury.ledger.backup import LAST_BACKUP, RESTORED, Manifest, make_backup
from treasury.ledger.opening import readable_account
from treasury.ledger.restore import restore_backup
from treasury.settings import read_settings
from treasury.texts import count_of


def backup(file: Path, /) -> int:
    """Write ledger, ledger key and tokens into one new file, also while runs go on.

    The private signing key and account.json are not in it.

    Parameters
    ----------
    file:
        The backup to write; nothing is ever replaced.

    """
    settings = read_settings()
    made = make_backup(settings, file.absolute())
    write_json(settings.home / LAST_BACKUP, {"at": made.created_at, "file": str(file.absolute())})
    print(f"backup of the ledger of {_in_words(made)}")
    say_files([file.absolute()])
    print("It holds the ledger's key, so whoever has it can read every payee that is still open: keep it as a secret.")
    print("Not in it: your private signing key and account.json. Keep a copy of the key where you keep secrets;")
    print("`treasury connect` writes account.json again.")
    return DONE


def restore(file: Path, /) -> int:
    """Restore a backup into an empty home: ledger, ledger key and tokens.

    The ledger goes where TREASURY_LEDGER_URL says, SQLite or PostgreSQL, whichever the backup was made from.

    Parameters
    ----------
    file:
        What `treasury backup` wrote.

    """
    settings = read_settings()
    restored = restore_backup(settings, file.absolute())
    with suppress(OSError):  # a backup may lie where nobody may write
        write_json(file.with_name(file.name + RESTORED), {"at": int(MACHINE.wall() * 1000)})
    print(f"restored into {settings.home}: the ledger of {_in_words(restored)}")
    print("What was sent after the backup was made is not in it: what has not left may have left since.")
    print("Not restored: your private signing key and account.json. What to do next:")
    print("  1. put the private signing key back where you keep it")
    print("  2. treasury connect --base-url URL --partner-id ID --private-key FILE   (the same account as before)")
    print("  3. treasury doctor, then treasury reconcile, before any run is started again")
    return DONE


def _in_words(manifest: Manifest) -> str:
    runs, orders = manifest.counts["runs"], manifest.counts["orders"]
    return f"{readable_account(manifest.account)}: {count_of(runs, 'run')}, {count_of(orders, 'order')}"
