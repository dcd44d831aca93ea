"""`treasury doctor`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.common import BAD_INPUT, DONE
from flows.commands.health_of_ledger import (
    say_decisions,
    say_epoch,
    say_held,
    say_last_runs,
    say_orders,
    say_policy,
    say_reports,
    say_statuses,
    say_stop,
    say_sums,
    say_waiting_plans,
    say_windows,
    waits_for_people,
)
from flows.commands.proving import prove
from treasury.errors import TreasuryError
from treasury.ledger.database import sqlite_file
from treasury.payments.desk import Desk, desk_of
from treasury.private_files import openings
from treasury.settings import Settings, home_folder, read_settings
from treasury.texts import count_of

MAX_SHOWN = 20
"""Most files that are named one by one."""


class Unwell(TreasuryError):
    """Problems that a person has to fix, one per line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        super().__init__("\n".join(lines))


def doctor(
    *,
    prove_: Annotated[bool, Parameter(name="--prove", negative=())] = False,
) -> int:
    """Say what is configured, reachable and safe, line by line; exit 2 when something is not.

    Without options it asks the service for its clock, and sends no operation.

    Parameters
    ----------
    prove_:
        Compare the account with the service, by operations that only read: each entry of the [service] table is proven,
        contradicted or open, and the line to write is printed. Exit 2 while one is contradicted, or when the service
        does not know this account.

    """
    if prove_:
        return prove()
    print(f"home      {home_folder()}")
    bad = _say("files", lambda: _check_home(home_folder()))
    try:
        settings = read_settings()
    except TreasuryError as error:
        return _finish(bad + _problem("settings", error))
    without_account = _say("account", lambda: _account(settings))
    bad += without_account + _say("keys", lambda: _keys(settings))
    if without_account:
        return _finish(bad)
    try:
        desk = desk_of(settings.account(), settings)
    except TreasuryError as error:
        return _finish(bad + _problem("ledger", error))
    for name, check in _checks(desk):
        bad += _say(name, check)
    if not bad and (waits := waits_for_people(desk.ledger)):
        print(f"nothing is broken; waiting for a person: {waits}")
        return DONE
    return _finish(bad)


def _checks(desk: Desk) -> Iterator[tuple[str, Callable[[], str | list[str]]]]:
    ledger = desk.ledger
    yield "ledger", lambda: say_sums(ledger)
    yield "held", lambda: say_held(ledger)
    yield "policy", lambda: say_policy(ledger)
    yield "decisions", lambda: say_decisions(ledger)
    yield "orders", lambda: say_orders(ledger)
    yield "reports", lambda: say_reports(ledger)
    yield "waiting", lambda: say_waiting_plans(ledger)
    yield "runs", lambda: say_last_runs(ledger)
    yield "epoch", lambda: say_epoch(desk)
    yield "sending", lambda: say_stop(ledger)
    yield "waits", lambda: say_windows(desk.settings, desk.account)
    yield "quotes", lambda: say_statuses(ledger, desk.account.rules)
    yield "service", lambda: _service(desk)


def _say(name: str, check: Callable[[], str | list[str]]) -> int:
    """Run a check and print its lines; returns how many problems it found."""
    try:
        said = check()
    except TreasuryError as error:
        return _problem(name, error)
    for line in [said] if isinstance(said, str) else said:
        print(f"{name:9} {line}")
    return 0


def _problem(name: str, error: TreasuryError) -> int:
    lines = error.lines if isinstance(error, Unwell) else [str(error)]
    for line in lines:
        print(f"{name:9} PROBLEM: {line}")
    return len(lines)


def _finish(bad: int) -> int:
    print("all is well" if not bad else count_of(bad, "problem"))
    return BAD_INPUT if bad else DONE


def _check_home(home: Path) -> list[str]:
    return _closed([home], f"chmod -R go= {home}") or ["nothing in the home can be opened by others"]


def _closed(paths: list[Path], remedy: str) -> list[str]:
    """Remarks about what a group can read. Raises `Unwell` for what others can open."""
    found = list(openings(*paths))
    grave = [str(each) for each in found if each.is_grave]
    if len(grave) > MAX_SHOWN:
        grave = [*grave[:MAX_SHOWN], f"and {len(grave) - MAX_SHOWN} more: {remedy}"]
    if grave:
        raise Unwell(grave)
    return [f"remark: {each}" for each in found[:MAX_SHOWN]]


def _account(settings: Settings) -> str:
    account = settings.account()
    return f"partner {account.partner_id} at {account.base_url}, {account.signing_key.key_size}-bit key"


def _keys(settings: Settings) -> list[str]:
    """Check keys, tokens and ledger outside the home; `_check_home` checks the home."""
    ledger = sqlite_file(settings.ledger_url)
    files = [settings.private_key_file, settings.ledger_key_file, settings.account_file, settings.token_folder, ledger]
    if ledger is not None:
        files += [ledger.with_name(ledger.name + end) for end in ("-wal", "-shm", ".locks")]
    outside = [file for file in files if file is not None and not file.is_relative_to(settings.home)]
    return _closed(outside, "chmod 600 each") or ["readable by their owner alone"]


def _service(desk: Desk) -> str:
    skew = desk.client.read_clock()
    if skew is None:
        return "answers, without saying its time"
    return f"answers, its clock is {skew:+.0f} s from ours"
