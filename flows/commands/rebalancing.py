"""`treasury rebalance`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.common import (
    DONE,
    agreed,
    check_follow,
    configured_desk,
    finish_run,
    say_files,
    say_waiting,
    summary_of,
)
from flows.commands.prefect_server import prefect_api
from treasury.files import write_json
from treasury.planning.rebalancing import TradePlan
from treasury.runs.governing import governing
from treasury.runs.rebalancing import keep_plan, plan_rebalancing, say_yes

DEFAULT_POLICY = Path("data/treasury_policy.toml")


def rebalance(
    *,
    policy: Path | None = None,
    balances: Path | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    yes: Annotated[bool, Parameter(negative=())] = False,
    follow: float = 30.0,
    out: Path | None = None,
) -> int:
    """Bring every asset back to its target, once a business date.

    Run again on the same date, it resumes the plan it began with.

    Parameters
    ----------
    policy:
        The treasury policy, TOML: the one in force, or, where none is, data/treasury_policy.toml.
    balances:
        Available balances, CSV; without it the service is asked.
    dry_run:
        Read balances and rates, write and show the plan; trade nothing.
    yes:
        Trade without asking.
    follow:
        Seconds to wait for final statuses.
    out:
        Folder for the results.

    """
    check_follow(follow)
    desk = configured_desk()
    if policy is None and governing(desk).version is None:
        policy = DEFAULT_POLICY
    run_key, plan = plan_rebalancing(desk, policy, balances)
    sha256 = keep_plan(desk, run_key, plan, policy)
    folder = (out or desk.settings.run_folder(run_key)).absolute()
    write_json(folder / "plan.json", {"run_key": run_key, "plan_sha256": sha256, "plan": plan.as_dict()})
    show_plan(run_key, plan)
    say_files([folder / "plan.json"])
    if dry_run:
        print(f"{len(plan.trades)} trades planned, nothing was traded")
        return DONE
    if not agreed(yes=yes):
        return say_waiting(f"{len(plan.trades)} trades planned")
    say_yes(desk)
    named = None if policy is None else str(policy)
    with desk.hold(run_key), prefect_api("flows.rebalance_treasury"):
        from flows.rebalance_treasury import rebalance_treasury

        summary = summary_of(lambda: rebalance_treasury(named, str(folder), plan=sha256, follow_seconds=follow))
        return finish_run(summary)


def show_plan(run_key: str, plan: TradePlan) -> None:
    """The plan in a few lines."""
    print(f"run {run_key}: {len(plan.trades)} trades, {len(plan.skipped)} skipped")
    for trade in plan.trades:
        bring = f"about {trade.expected_receive:f} {trade.receive_currency}"
        print(f"  {trade.side.value} {trade.asset}: {trade.amount:f} {trade.currency} for {bring} at {trade.rate:f}")
    for skipped in plan.skipped:
        print(
            f"  skipped {skipped.side.value} {skipped.asset}: {skipped.amount:f} {skipped.currency}: {skipped.reason}"
        )
