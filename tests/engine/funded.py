"""Fund and pay at a desk, without Prefect, as the flow does it; also in a process of its own, which may be killed.

python -m tests.engine.funded '{"home": ..., "base_url": ..., "key": ..., "file": ..., "rules": ..., "point": ...}'
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.engine import paying
from tests.engine.rounds import policy
from tests.moved_clock import clock_of
from treasury.ledger.approvals import approve_plan, waiting_plan
from treasury.ledger.policies import adopt_policy
from treasury.pay import agreeing, funding, payouts
from treasury.pay.payout_plans import PayRequest, make_plan
from treasury.payments import execution
from treasury.payments.approving import rules_of
from treasury.payments.desk import Desk
from treasury.planning.payout_planner import MadePlan, PayoutPlan
from treasury.policy_file import read_policy
from treasury.rebalance import round_results
from treasury.rebalance.rebalancing import Planned, kept_plan
from treasury.rebalance.round_results import Done
from treasury.rebalance.trade_orders import RecordedTrade

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
    made = plan(desk, file, rules, run_key, add=add)
    agreeing.propose_payouts(desk, made)
    with desk.hold(run_key):
        chunks = payouts.commit_payouts(desk, made)
        converted: list[Done] = []
        why = _convert(desk, made, seconds, converted)
        for ids in [] if why else chunks:
            execution.send_orders(desk, run_key, ids)
        if not why:
            execution.follow_orders(desk, run_key, [order for ids in chunks for order in ids], seconds)
        return payouts.write_payout_results(desk, made, out, converted)


def plan(desk: Desk, file: Path, rules: Path, run_key: str = "run", *, add: bool = False) -> MadePlan:
    """The plan of a start that is funded."""
    return make_plan(desk, PayRequest(file, run_key, rules, add=add, fund=True))


def propose(desk: Desk, file: Path, rules: Path, run_key: str = "run", *, add: bool = False) -> PayoutPlan:
    """Show what is needed now, and agree to it: its approvals are asked for. Returns what was shown."""
    made = plan(desk, file, rules, run_key, add=add)
    agreeing.propose_payouts(desk, made)
    return made.shown


def record(desk: Desk, file: Path, rules: Path, run_key: str = "run", *, add: bool = False) -> PayoutPlan:
    """Agree to what is needed now, and record it; then the process ends. Returns what was shown."""
    made = plan(desk, file, rules, run_key, add=add)
    agreeing.propose_payouts(desk, made)
    payouts.commit_payouts(desk, made)
    return made.shown


def recorded(desk: Desk, file: Path, rules: Path, run_key: str = "run") -> MadePlan:
    """The plan of a run that was recorded."""
    return paying.made(desk, paying.plan_of(desk, file, run_key, rules), rules)


def plan_round(desk: Desk, file: Path, rules: Path, run_key: str = "run") -> Planned | None:
    """The next round of its conversions."""
    return funding.next_round(desk, recorded(desk, file, rules, run_key), (), 0)


def record_round(desk: Desk, planned: Planned, file: Path, rules: Path, run_key: str = "run") -> list[RecordedTrade]:
    """The round, recorded and not sent."""
    return funding.record_round(desk, planned, recorded(desk, file, rules, run_key))


def convert(
    desk: Desk, file: Path, rules: Path, run_key: str = "run", seconds: float = 10, done: list[Done] | None = None
) -> str | None:
    """Convert what a run lacks, round by round; why it is not paid, where money is missing. `done` takes the rounds."""
    return _convert(desk, recorded(desk, file, rules, run_key), seconds, [] if done is None else done)


def _convert(desk: Desk, made: MadePlan, seconds: float, done: list[Done]) -> str | None:
    while (found := funding.next_round(desk, made, done, seconds)) is not None:
        ids = [each for trade in funding.record_round(desk, found, made) for each in trade["ids"]]
        execution.send_orders(desk, found["run_key"], ids)
        execution.follow_orders(desk, found["run_key"], ids, seconds)
        done.append(round_results.prove_round(desk, found["run_key"], kept_plan(desk, found)))
    return funding.why_not_funded(desk, made.payments, done)


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
