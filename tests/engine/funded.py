"""Fund and pay at a desk, without Prefect, as the flow does it; also in a process of its own, which may be killed.

python -m tests.engine.funded '{"home": ..., "base_url": ..., "key": ..., "file": ..., "rules": ..., "point": ...}'
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treasury.planning.payouts import PayoutPlan
from treasury.planning.trades import TradePlan
from treasury.runs import execution, fills, funding, payouts
from treasury.runs.desk import Desk
from treasury.runs.fills import Done
from treasury.runs.rebalancing import Planned


def fund_and_pay(
    desk: Desk, file: Path, rules: Path, out: Path, run_key: str = "run", seconds: float = 10
) -> Mapping[str, Any]:
    """One start: what the run lacks is converted in rounds, and it is paid if everything is there."""
    propose(desk, file, rules, run_key)
    with desk.hold(run_key):
        chunks = payouts.commit_payouts(desk, file, run_key, rules, fund=True)
        why = convert(desk, file, rules, out, run_key, seconds)
        for ids in [] if why else chunks:
            execution.send_orders(desk, run_key, ids)
        if not why:
            execution.follow_orders(desk, run_key, [order for ids in chunks for order in ids], seconds)
        return payouts.write_payout_results(desk, file, run_key, out)


def propose(desk: Desk, file: Path, rules: Path, run_key: str = "run", *, add: bool = False) -> PayoutPlan | None:
    """Agree to what is needed now: its approvals are asked for."""
    payments = payouts.plan_of(desk, file, run_key, rules, add=add)
    plan = payouts.plan_to_execute(desk, payments, add=add, fund=True)
    payouts.propose_payouts(desk, payments, rules, add=add, shown=None if plan is None else plan.sha256)
    return plan


def convert(desk: Desk, file: Path, rules: Path, out: Path, run_key: str = "run", seconds: float = 10) -> str | None:
    """Convert what a run lacks, round by round; why it is not paid, where money is missing."""
    planned: list[Planned] = []
    done: list[Done] = []
    while True:
        payments = payouts.plan_of(desk, file, run_key, rules)
        found = funding.next_round(desk, payments, done, seconds, rules)
        if found is None:
            if planned:
                funding.write_conversions(desk, planned, done, out)
            return funding.why_not_funded(desk, payments, was_converted=bool(done))
        ids = [each for trade in funding.record_round(desk, found, run_key, rules) for each in trade["ids"]]
        execution.send_orders(desk, found["run_key"], ids)
        execution.follow_orders(desk, found["run_key"], ids, seconds)
        done.append(fills.prove_round(desk, found["run_key"], TradePlan.from_dict(found["plan"])))
        planned.append(found)
