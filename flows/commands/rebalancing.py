"""`treasury rebalance`."""

import filecmp
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from flows.commands.approving import signing_key
from flows.commands.common import (
    DONE,
    TROUBLE,
    OutFolder,
    agreed,
    check_follow,
    configured_desk,
    finish_run,
    say_files,
    say_waiting,
    summary_of,
)
from flows.commands.prefect_server import prefect_api
from treasury.errors import InputError
from treasury.files import copy_file, write_json
from treasury.ledger.approvals import waiting_plan
from treasury.ledger.funding_runs import rounds_of
from treasury.ledger.snapshots import snapshot_of
from treasury.money import format_amount, round_up
from treasury.payments.approving import signer
from treasury.payments.desk import Desk
from treasury.payments.governing import governing
from treasury.pings import FAIL, SUCCESS, ping
from treasury.planning.market import DIGITS
from treasury.private_files import read_bounded
from treasury.rebalance.consent import KIND, say_yes
from treasury.rebalance.rebalancing import (
    Round,
    check_limits,
    decisions_of,
    explain,
    first_run_key,
    keep_plan,
    keep_snapshot,
    orders_of_day,
    plan_round,
)
from treasury.rebalance.round_results import write_decisions
from treasury.rebalance.trade_costs import COLUMNS, write_costs
from treasury.rebalance.trade_orders import commit_trades
from treasury.reports.results import in_words, summarize_run
from treasury.reports.round_page import as_lines, explained, table, write_page
from treasury.reports.starts import start_folder
from treasury.texts import count_of

DEFAULT_POLICY = Path("data/treasury_policy.toml")


def rebalance(
    *,
    policy: Path | None = None,
    balances: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    yes: Annotated[bool, Parameter(negative=())] = False,
    follow: float = 30.0,
    out: OutFolder | None = None,
    key: Path | None = None,
    explain: str | None = None,
    costs: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Hold what is needed of every asset: obligations first, then floors, then bands.

    A start later on the same day resumes a round that is not done, or plans again from what is held and on its way.

    Parameters
    ----------
    policy:
        The treasury policy, TOML: the one in force, or, where none is, data/treasury_policy.toml.
    balances:
        Available balances, CSV; without it the service is asked.
    dry_run:
        Read position and rates, write and show the plan; trade nothing.
    yes:
        Trade without asking.
    follow:
        Seconds to wait for final statuses.
    out:
        Folder for the results.
    key:
        Your private key, where the policy in force lists people: you sign the plan as its maker.
    explain:
        A run key, or a decisions.json: plan it again from what was known then, and show why.
    costs:
        Show what trades cost so far, against plan and middle rate, by pair, day and month; trade nothing.

    """
    check_follow(follow)
    desk = configured_desk()
    if explain is not None:
        return explain_again(desk, explain)
    if costs:
        return show_costs(desk, (out or desk.settings.home).absolute())
    named = policy if policy is not None else None if governing(desk).version is not None else DEFAULT_POLICY
    return _rebalance(desk, named, balances, dry_run=dry_run, yes=yes, follow=follow, out=out, key=key)


def _rebalance(
    desk: Desk,
    policy: Path | None,
    balances: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    follow: float,
    out: Path | None,
    key: Path | None,
) -> int:
    """Plan the next round, show it, ask, and trade."""
    version = governing(desk).version  # before the plan: it is what the person is shown
    found = plan_round(desk, policy, balances)
    print(f"policy: {policy}, for none is in force" if version is None else f"policy: the one in force, {version[:12]}")
    folder = (out or desk.settings.run_folder(first_run_key(found.run_key))).absolute()
    decisions = decisions_of(desk, found, policy)
    _keep(desk, found, decisions, folder)
    if dry_run:  # a look proposes nothing
        check_limits(decisions)
        print(f"{trades_of(found)} planned, nothing was traded")
        return DONE
    sign = signer(desk, None if key is None else signing_key(key))
    keep_plan(desk, found.run_key, found.plan, policy, sign, asked_here=True)
    if found.plan.trades and not agreed(yes=yes):
        return say_waiting(f"{trades_of(found)} planned")
    if found.plan.trades or yes:  # nobody was asked about nothing
        say_yes(desk, version)
        keep_plan(desk, found.run_key, found.plan, policy, sign)  # the yes may be all that it waited for
    if not found.plan.trades:  # nothing is sent, and Prefect is not started for it
        commit_trades(desk, found.run_key, found.plan, policy)  # cancels what an earlier round left unsent
        code = _told(write_decisions(desk, [decisions], [], folder))
        check_limits(decisions)
        if yes:
            said = (SUCCESS, "NothingToTrade") if code == DONE else (FAIL, "NeedsAttention")
            ping("rebalance-treasury", *said)
        return code
    _put(folder)
    named = None if policy is None else str(policy)
    with desk.hold(found.run_key), prefect_api("flows.rebalance_treasury"):
        from flows.rebalance_treasury import rebalance_treasury

        file = None if balances is None else str(balances)
        plan = decisions["plan_sha256"]
        summary = summary_of(lambda: rebalance_treasury(named, str(folder), file, plan=plan, follow_seconds=follow))
        return _told(summary)


def _told(summary: Mapping[str, Any]) -> int:
    """Say what came of a start, or, where it had nothing to do, of its day so far; returns the exit code."""
    summary = {**summary, "files": [file for file in summary["files"] if Path(file).name not in FILES]}  # named before
    if summary["counts"] or summary["breaks"]:
        return finish_run(summary)
    say_files(summary["files"])
    print(summary["today"])
    return DONE


def _keep(desk: Desk, found: Round, decisions: Mapping[str, Any], folder: Path) -> None:
    """Keep what a round was planned from in the ledger, and its files in its folder, and show it.

    The files are those of this start, and the newest ones unless a plan of the day waits or was carried out.
    """
    sha256, waiting = decisions["plan_sha256"], waiting_plan(desk.ledger, found.run_key)
    is_other = waiting is not None and waiting.sha256 != sha256
    keep_snapshot(desk, decisions)
    own = start_folder(folder)
    write_json(own / "plan.json", {"run_key": found.run_key, "plan_sha256": sha256, "plan": found.plan.as_dict()})
    write_json(own / "decisions.json", decisions)
    write_page(own / "plan.html", found.run_key, decisions["decided"])
    show_round(desk, found)
    if is_other or orders_of_day(desk, found.run_key):
        say_files(own / name for name in FILES)
    else:
        _put(folder)


FILES = ("plan.json", "decisions.json", "plan.html")
"""The files about a round, written before it trades."""


def _put(folder: Path) -> None:
    """Make the files of this start the newest ones, and say where they are, unless they are that already."""
    own = start_folder(folder)
    if filecmp.cmpfiles(own, folder, FILES, shallow=False)[0] != [*FILES]:
        for name in FILES:
            copy_file(own / name, folder / name)
        say_files(folder / name for name in FILES)


def trades_of(found: Round) -> str:
    """How many trades a round has, in words."""
    return count_of(len(found.plan.trades), "trade")


def show_round(desk: Desk, found: Round) -> None:
    """A round in a few lines, and what was traded on its day before."""
    before = orders_of_day(desk, found.run_key)
    if before:
        print(f"today so far: {in_words(summarize_run(first_run_key(found.run_key), KIND, before))}")
    plan = found.plan
    print(f"run {found.run_key}: {trades_of(found)}, {len(plan.skipped)} skipped")
    for line in as_lines(found.decided):
        print(line)
    for trade in (*plan.trades, *plan.later):
        bring = f"about {trade.expected_receive:f} {trade.receive_currency} at {trade.rate:f}"
        when = "" if trade in plan.trades else ", once what pays for it is settled"
        print(f"  {trade.side.value} {trade.asset}: {trade.amount:f} {trade.currency} for {bring}{when}")
    for skipped in plan.skipped:
        amount = round_up(skipped.amount, DIGITS)  # how much is not always known
        of = f" {format_amount(amount)} {skipped.currency}:" if amount else ""
        print(f"  skipped {skipped.side.value} {skipped.asset}:{of} {skipped.reason}")


def show_costs(desk: Desk, folder: Path) -> int:
    """Return what trades cost so far: a table on the terminal, and `costs.csv`."""
    path, rows = write_costs(desk, folder)
    for line in table(COLUMNS, rows):
        print(line)
    say_files([path])
    last = rows[-1] if rows else {"trades": "0", "cost": "0", "cost_bps": "0"}
    print(f"{count_of(int(last['trades']), 'trade')} settled, cost {last['cost']} ({last['cost_bps']} bps)")
    return DONE


MAX_DECISIONS = 100_000_000
"""Bytes of a `decisions.json`."""


def explain_again(desk: Desk, named: str) -> int:
    """Plan a round again from what was known then; says whether the result is what was decided."""
    file = Path(named)
    run = desk.ledger.run(named)
    try:
        known = snapshot_of(desk.ledger, named, None if run is None else run.plan_sha256)
        content = json.loads(read_bounded(file, MAX_DECISIONS)) if file.is_file() else known
        if keys := rounds_of(desk.ledger, named):
            raise InputError(
                f"run {named} pays; what was converted for it is explained by its own name: {', '.join(keys)}"
            )
        if content is None:
            raise InputError(f"this ledger kept no decisions of {named}, and there is no such file")
        again, same = explain(content)
    except (KeyError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
        raise InputError(f"{named} holds no decisions of a rebalancing ({type(error).__name__})") from None
    for line in as_lines(again):
        print(line)
    for line in explained(same, content["run_key"]):
        print(line)
    return DONE if same else TROUBLE
