"""Payees of tests: sheets with names, and the policy that holds payments to them."""

from pathlib import Path
from typing import Any

from tests.engine.runs import HEADER
from treasury.ledger.policies import adopt_policy
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

LIMITS = {"max_per_run": {"USDT_TRC20": "100000"}}


def named(folder: Path, *rows: tuple[str, str, str, str], name: str = "rows.csv") -> Path:
    """A sheet of direct rows: reference, amount, account, name."""
    lines = [
        f"{ref},direct,{amount},USDT_TRC20,IDR,bank_transfer,{account},{who},ID,1000120,0812,p@b.example,"
        for ref, amount, account, who in rows
    ]
    file = folder / name
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


def adopt(desk: Desk, **limits: Any) -> None:
    policy = parse_policy({"payouts": {**LIMITS, **limits}}, "policy")
    adopt_policy(desk.ledger, policy, "policy", by="Ada Example", os_user="ada")
