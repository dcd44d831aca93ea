"""`treasury doctor`: what is configured, reachable and true, and how the ledger stands."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from sqlalchemy import func, select

from flows.commands.common import BAD_INPUT, DONE
from flows.commands.proving import prove
from treasury.errors import ConfigurationError, TreasuryError
from treasury.ledger import schema
from treasury.ledger.approvals import waiting_plans
from treasury.ledger.changed_by_hand import REASON, changed_orders, made_by_hand
from treasury.ledger.database import in_code_points, sqlite_file
from treasury.ledger.decisions import changed_by_hand
from treasury.ledger.epoch import why_epoch
from treasury.ledger.halts import check_not_stopped
from treasury.ledger.in_force import as_time
from treasury.ledger.ledger import Ledger
from treasury.ledger.made_reports import changed_reports
from treasury.ledger.policies import genuine_policy, is_rehearsal, running_recovery
from treasury.orders.states import Hold, State
from treasury.payments.desk import Desk, desk_of
from treasury.private_files import openings
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.proving.access import ProofVerdict
from treasury.proving.history import judge_unconfirmed
from treasury.reports.results import REHEARSAL
from treasury.settings import Settings, home_folder, read_settings
from treasury.texts import count_of

MAX_NAMED = 5
"""Most plans that are named in a line."""

MAX_RUNS = 3
"""Most runs that are named in a line."""


def say_sums(ledger: Ledger) -> str:
    """The number of runs, and of orders whose outcome is unknown."""
    unknown = [State.UNKNOWN.value, State.SENDING.value]
    runs = select(func.count()).select_from(schema.runs).scalar_subquery()
    query = select(func.count(), runs).select_from(schema.orders).where(schema.orders.c.state.in_(unknown))
    [[orders, number]] = ledger.read(query)
    return f"{count_of(number, 'run')}; {orders} unknown (treasury runs)"


def say_held(ledger: Ledger) -> str:
    """The number of held orders by kind, with the commands that show them."""
    table = schema.orders.c
    query = select(table.hold_kind, table.run_key, func.count().label("number"))
    query = query.where(table.state == State.HELD.value).group_by(table.hold_kind, table.run_key)
    runs: dict[str, list[str]] = {}
    numbers: dict[str, int] = {}
    for row in ledger.read(query.order_by(*map(in_code_points, (func.coalesce(table.hold_kind, ""), table.run_key)))):
        kind = Hold(row.hold_kind).in_words if row.hold_kind else "without a kind"
        numbers[kind] = numbers.get(kind, 0) + int(row.number)
        runs.setdefault(kind, []).append(row.run_key)
    said = [f"{number} {kind} ({_commands(runs[kind])})" for kind, number in numbers.items()]
    return "; ".join(said) or "nothing is held"


def _commands(runs: list[str]) -> str:
    more = f", and {len(runs) - MAX_RUNS} more runs: treasury runs" if len(runs) > MAX_RUNS else ""
    return ", ".join(f"treasury show {run}" for run in runs[:MAX_RUNS]) + more


def say_policy(ledger: Ledger) -> list[str]:
    """The policy in force, a recovery that runs, and whether this ledger is a rehearsal.

    Raises `ConfigurationError` while one is changed or added by hand.
    """
    found, recovery = genuine_policy(ledger), running_recovery(ledger)
    lines = [REHEARSAL] if is_rehearsal(ledger) else []
    if recovery is not None:
        lines.append(
            f"a recovery takes effect at {as_time(recovery.in_force_at)}; nothing that moves money leaves until then"
        )
    if found is None:
        return [*lines, "none is in force: treasury policy adopt FILE --by NAME"]
    return [*lines, f"{found.version[:12]}, which {found.adopted_by} adopted at {as_time(found.adopted_at)}"]


def say_decisions(ledger: Ledger) -> str:
    """Check what people decided. Raises `ConfigurationError` while some of it is changed or added by hand."""
    changed = ledger.look(lambda connection: changed_by_hand(connection, ledger.key))
    if changed:
        named = ", ".join(f"decision {each.id} ({each.verb}, {each.named})" for each in changed[:MAX_NAMED])
        more = f", and {len(changed) - MAX_NAMED} more," if len(changed) > MAX_NAMED else ""
        raise ConfigurationError(
            f"{named}{more} was changed or added in the ledger by hand, and may have been any: find out who did it and "
            "what was decided, and decide anew, or restore a backup from before that"
        )
    return "nothing that people decided was changed by hand"


def say_orders(ledger: Ledger) -> str:
    """Check every order. Raises `ConfigurationError` while one is changed or added by hand, and not held for it."""
    changed = changed_orders(ledger)
    if changed:
        named = ", ".join(f"{each.request_id} (run {each.run_key})" for each in changed[:MAX_NAMED])
        more = f", and {len(changed) - MAX_NAMED} more" if len(changed) > MAX_NAMED else ""
        raise ConfigurationError(f"{named}{more}: {REASON}")
    return "no order was changed by hand"


def say_reports(ledger: Ledger) -> str:
    """Check what reports add up. Raises `ConfigurationError` while one is changed or added by hand, or while the
    database has a trigger, a view or a rule."""
    if made := made_by_hand(ledger):
        raise ConfigurationError(
            f"the database has what this program did not make ({', '.join(made)}): it may change what is written and "
            "read; find out who made it, and take it out"
        )
    if changed := changed_reports(ledger):
        named = ", ".join(as_time(each.at) for each in list(changed.values())[:MAX_NAMED])
        raise ConfigurationError(
            f"{count_of(len(changed), 'report')} changed or added in the ledger by hand, or rows that they counted "
            f"({named}): find out who did it; the next one names each as a break, which treasury accept ends once the "
            "balances are known to be right"
        )
    return "no report was changed by hand"


def say_waiting_plans(ledger: Ledger) -> str:
    """The plans that wait for approvals."""
    waiting = [plan.run_key for plan in waiting_plans(ledger)]
    named = ", ".join(waiting[:MAX_NAMED])
    return f"{count_of(len(waiting), 'plan')} waiting for approvals: {named}" if waiting else "no plan waits"


def say_last_runs(ledger: Ledger) -> str:
    """How long ago the last run of each kind was recorded, and the last reconciliation made."""
    runs, reports = schema.runs.c, schema.reports.c
    newest = select(runs.kind, func.max(runs.created_at).label("newest")).group_by(runs.kind).order_by(runs.kind)
    ages = [f"last {row.kind} {_age(ledger, row.newest)} ago" for row in ledger.read(newest)]
    [[night]] = ledger.read(select(func.max(reports.as_of)))
    return "; ".join(
        [*ages, "no reconciliation yet" if night is None else f"last reconciliation {_age(ledger, night)} ago"]
    )


def _age(ledger: Ledger, at: int) -> str:
    minutes = max(0, ledger.now() - at) // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} days"


def waits_for_people(ledger: Ledger) -> str:
    """Return what waits for a person, in words; nothing when all is well."""
    states = schema.orders.c.state
    counts = dict(ledger.read(select(states, func.count()).group_by(states)))
    unknown = counts.get(State.UNKNOWN.value, 0) + counts.get(State.SENDING.value, 0)
    held, plans = counts.get(State.HELD.value, 0), len(waiting_plans(ledger))
    found = {f"{held} held": held, f"{unknown} unknown": unknown, count_of(plans, "waiting plan"): plans}
    return ", ".join(said for said, number in found.items() if number)


def say_epoch(desk: Desk) -> str:
    """Tell whether an epoch runs, or begins with the next start, and why."""
    asked = "the service is asked about everything before it is sent"
    if (why := desk.why_older()) is not None:
        return (
            f"one begins with the next start of a run: this ledger may be older than the service ({why}); what was "
            f"recorded before is held then, and {asked}"
        )
    if (why := why_epoch(desk.ledger)) is not None:
        return (
            f"one runs: this ledger is older than the service ({why}); what was recorded before it is held, and {asked}"
        )
    return "none runs: this ledger is as new as the service, as far as this machine knows"


def say_stop(ledger: Ledger) -> str:
    """Check that no stop is in force. Raises `Stopped`."""
    ledger.write(lambda connection: check_not_stopped(connection, ledger))
    return "not stopped"


def say_windows(settings: Settings, account: Account) -> list[str]:
    """The waits before an order is sent again. Raises `ConfigurationError` when they do not fit."""
    warning = settings.check_windows(account)
    if warning is not None:
        return [f"remark, for a service on this machine: {warning}"]
    window, skew = account.rules.timestamp_window_seconds, settings.max_clock_skew_seconds
    return [
        f"an order is sent again {settings.resend_after_seconds:g} s (TREASURY_RESEND_AFTER_SECONDS) after the service "
        "first did not know it, at the earliest; it fits: the service reads a request for at most "
        f"{window:g} s (TREASURY_TIMESTAMP_WINDOW_SECONDS) plus {skew:g} s (TREASURY_MAX_CLOCK_SKEW_SECONDS)"
    ]


def say_statuses(ledger: Ledger, service: ServiceRules) -> str:
    """Which statuses this account never showed for a confirmed payout, by its own history.

    Raises `ConfigurationError` when a status was adopted that it did show.
    """
    proof = judge_unconfirmed(service, ledger)
    if proof.verdict is ProofVerdict.CONTRADICTED:
        raise ConfigurationError(
            f"{proof.evidence}: take it out of unconfirmed_statuses (TREASURY_UNCONFIRMED_STATUSES), or a payout that "
            "is on its way is taken for one that never was"
        )
    if proof.proposed is None:
        return f"{proof.evidence}; nothing to change"
    return f"{proof.evidence}: treasury doctor --prove says the line to write"


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
