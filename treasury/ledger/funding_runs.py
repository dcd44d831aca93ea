"""The runs of conversions that fund a payout run, by their names: `payroll-2026-11.fund`, then `.fund-2` and on."""

import re

from treasury.errors import InputError
from treasury.ledger.ledger import Ledger

PART = "conversions"
"""The kind of a run whose trades are part of a payment run's plan."""

FUNDING = "agreed_conversions"
"""The member of a run's kept plan that says what may be converted for it: plan hash, approvals, bounds, policy."""

_NAME = re.compile(r"(.+)\.fund(-\d+)?")


def fund_key(run_key: str, number: int = 1) -> str:
    """The run key of a round of a payout run's conversions."""
    return f"{run_key}.fund" if number == 1 else f"{run_key}.fund-{number}"


def is_fund_key(run_key: str) -> bool:
    """Tell whether a run key is a name for conversions of a payout run."""
    return _NAME.fullmatch(run_key) is not None


def rounds_of(ledger: Ledger, run_key: str) -> list[str]:
    """The run keys of the rounds of conversions that were recorded for this run."""
    keys: list[str] = []
    while (run := ledger.run(fund_key(run_key, len(keys) + 1))) is not None and run.kind == PART:
        keys.append(run.run_key)
    return keys


def check_name_of_round(ledger: Ledger, run_key: str) -> None:
    """Raise `InputError` where another run has the name of the next round of conversions for this run."""
    key = fund_key(run_key, len(rounds_of(ledger, run_key)) + 1)
    if ledger.run(key) is not None:
        raise InputError(f"run {run_key} cannot be funded: its conversions would be {key}, a run of its own")
