"""`treasury doctor`."""

import stat
from collections.abc import Callable
from pathlib import Path

from flows.commands.common import DONE
from treasury.desk import Desk, open_desk
from treasury.errors import ConfigurationError, TreasuryError
from treasury.ledger.ledger import check_not_stopped
from treasury.ledger.states import State
from treasury.settings import Settings, read_settings

BAD_INPUT = 2


def doctor() -> int:
    """Say what is configured, reachable and safe, line by line; exit 2 when something is not.

    Asks the service for its clock; sends no operation.
    """
    settings = read_settings()
    print(f"home      {settings.home}")
    checks: list[tuple[str, Callable[[], str]]] = [
        ("account", lambda: _account(settings)),
        ("keys", lambda: _keys(settings)),
        ("ledger", lambda: _ledger(settings)),
        ("sending", lambda: _sending(settings)),
        ("service", lambda: _service(settings)),
    ]
    bad = 0
    for name, check in checks:
        try:
            print(f"{name:9} {check()}")
        except TreasuryError as error:
            bad += 1
            print(f"{name:9} PROBLEM: {error}")
    print("all is well" if not bad else f"{bad} problem(s)")
    return BAD_INPUT if bad else DONE


def _desk(settings: Settings) -> Desk:
    return open_desk(settings.account(), settings)


def _account(settings: Settings) -> str:
    account = settings.account()
    return f"partner {account.partner_id} at {account.base_url}, {account.signing_key.key_size}-bit key"


def _keys(settings: Settings) -> str:
    files = [settings.private_key_file, settings.ledger_key_file, settings.account_file]
    open_to_others = [file for file in files if file and file.exists() and _readable_by_others(file)]
    if open_to_others:
        raise ConfigurationError(f"{', '.join(map(str, open_to_others))} can be read by others: chmod 600")
    return "readable by their owner alone"


def _readable_by_others(file: Path) -> bool:
    return bool(file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _ledger(settings: Settings) -> str:
    ledger = _desk(settings).ledger
    unknown = len(ledger.orders(states=(State.UNKNOWN, State.SENDING)))
    held = len(ledger.orders(states=(State.HELD,)))
    return f"{len(ledger.runs())} runs; {unknown} unknown, {held} held"


def _sending(settings: Settings) -> str:
    _desk(settings).ledger.write(check_not_stopped)
    return "not stopped"


def _service(settings: Settings) -> str:
    skew = _desk(settings).client.read_clock()
    if skew is None:
        return "answers, without saying its time"
    return f"answers, its clock is {skew:+.0f} s from ours"
