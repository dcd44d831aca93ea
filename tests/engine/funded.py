"""Fund and pay at a desk, without Prefect, as the flow does it; also in a process of its own, which may be killed.

python -m tests.engine.funded '{"home": ..., "base_url": ..., "key": ..., "file": ..., "rules": ..., "point": ...}'
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.engine.rounds import policy
from tests.moved_clock import clock_of
from treasury.ledger.approvals import approve_plan, waiting_plan
from treasury.ledger.policies import adopt_policy
from treasury.planning.payouts import PayoutPlan
from treasury.planning.trades import TradePlan
from treasury.policy_file import read_policy
from treasury.runs import agreeing, execution, fills, funding, payouts
from treasury.runs.approving import rules_of
from treasury.runs.desk import Desk
from treasury.runs.fills import Done
from treasury.runs.rebalancing import Planned
from treasury.runs.trade_orders import RecordedTrade

BTC = ("0.2", "0.4", "0.9")
ROWS = (("a", "300", "12345670001"), ("b", "400", "12345670101"), ("c", "500", "12345670201"))
OTHER = (("x", "600", "12345670301"), ("y", "700", "12345670401"))
HELD = {"USDT": Decimal(5000), "BTC": Decimal("0.8"), "USDT_TRC20": Decimal(200)}
PAYOUTS = "[payouts]\nduplicate_days = 0\n"
"""A table of payouts under which one payment may look like another."""


def above(table: str, currency: str, amount: str) -> str:
    """The end of a policy that asks for an approval above an amount."""
    return PAYOUTS + f'[{table}.one_approval_above]\n{currency} = "{amount}"\n'


def rules_of_a_day(folder: Path, tail: str = PAYOUTS) -> Path:
    """A policy that believes rates of a day, for a clock that is ahead."""
    return policy(folder, "max_rate_age_seconds = 86400", tail=tail, BTC=BTC)


def fund_and_pay(
    desk: Desk, file: Path, rules: Path, out: Path, run_key: str = "run", seconds: float = 10, *, add: bool = False
) -> Mapping[str, Any]:
    """One start: what the run lacks is converted in rounds, and it is paid if everything is there."""
    plan = propose(desk, file, rules, run_key, add=add)
    with desk.hold(run_key):
        chunks = payouts.commit_payouts(desk, file, run_key, rules, add=add, shown=plan.sha256)
        converted: list[Done] = []
        why = convert(desk, file, rules, run_key, seconds, converted)
        for ids in [] if why else chunks:
            execution.send_orders(desk, run_key, ids)
        if not why:
            execution.follow_orders(desk, run_key, [order for ids in chunks for order in ids], seconds)
        return payouts.write_payout_results(desk, file, run_key, out, converted=converted)


def propose(desk: Desk, file: Path, rules: Path, run_key: str = "run", *, add: bool = False) -> PayoutPlan:
    """Show what is needed now, and agree to it: its approvals are asked for. Returns what was shown."""
    payments = payouts.plan_of(desk, file, run_key, rules, add=add)
    plan = agreeing.plan_to_execute(desk, payments, add=add, fund=True) or payments
    agreeing.propose_payouts(desk, payments, rules, add=add, shown=plan.sha256)
    return plan


def record(desk: Desk, file: Path, rules: Path, run_key: str = "run", *, add: bool = False) -> PayoutPlan:
    """Agree to what is needed now, and record it; then the process ends. Returns what was shown."""
    plan = propose(desk, file, rules, run_key, add=add)
    payouts.commit_payouts(desk, file, run_key, rules, add=add, shown=plan.sha256)
    return plan


def plan_round(desk: Desk, file: Path, rules: Path, run_key: str = "run") -> Planned | None:
    """The next round of its conversions."""
    return funding.next_round(desk, payouts.plan_of(desk, file, run_key, rules), (), 0, rules)


def record_round(desk: Desk, planned: Planned, file: Path, rules: Path, run_key: str = "run") -> list[RecordedTrade]:
    """The round, recorded and not sent."""
    return funding.record_round(desk, planned, payouts.plan_of(desk, file, run_key, rules), rules)


def convert(
    desk: Desk, file: Path, rules: Path, run_key: str = "run", seconds: float = 10, done: list[Done] | None = None
) -> str | None:
    """Convert what a run lacks, round by round; why it is not paid, where money is missing. `done` takes the rounds."""
    done = [] if done is None else done
    while True:
        payments = payouts.plan_of(desk, file, run_key, rules)
        found = funding.next_round(desk, payments, done, seconds, rules)
        if found is None:
            return funding.why_not_funded(desk, payments, done)
        ids = [each for trade in funding.record_round(desk, found, payments, rules) for each in trade["ids"]]
        execution.send_orders(desk, found["run_key"], ids)
        execution.follow_orders(desk, found["run_key"], ids, seconds)
        done.append(fills.prove_round(desk, found["run_key"], TradePlan.from_dict(found["plan"])))


# --- people and clocks ---------------------------------------------------------------------------------------------


def adopted(desk: Desk, file: Path) -> Path:
    """A policy file, put in force after what was judged by the one before."""
    clock_of(desk).move(1)
    adopt_policy(desk.ledger, read_policy(file), "policy.toml", by="Owner", os_user="owner")
    return file


def approve(desk: Desk, run_key: str = "run") -> None:
    """Approve the plan of a run that waits, as somebody else than its maker."""
    plan = waiting_plan(desk.ledger, run_key)
    assert plan is not None
    approve_plan(desk.ledger, run_key, rules_of(desk, plan), "somebody-else", name="Checker")
