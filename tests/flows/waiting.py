"""Runs that wait for approvals: policies that ask for them, sheets, and deployed runs that pay them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import data
from tests.commands.office import HEADER
from tests.engine.approvers import ASKS
from tests.flows.deployed import Deployed
from treasury.ledger.policies import adopt_policy
from treasury.payments.desk import Desk, desk_of
from treasury.policy.model import parse_policy
from treasury.sandbox import RunningSandbox
from treasury.settings import read_settings


def desk() -> Desk:
    settings = read_settings()
    return desk_of(settings.account(), settings)


def adopted(**tables: Any) -> None:
    """Put a policy in force that asks for approvals above 10."""
    adopts = parse_policy({"payouts": {**ASKS, "duplicate_days": 0}, **tables}, "policy.toml")
    adopt_policy(desk().ledger, adopts, "policy.toml", by="Owner", os_user="owner")


def sheet(home: Path, run_key: str, amount: str = "20") -> Path:
    file = home / f"{run_key}.csv"
    row = f"a,direct,{amount},USDT_TRC20,IDR,bank_transfer,12345670009,Example Person,ID,1000120,0812000,p@example.com"
    file.write_text(f"{HEADER}\n{row}\n")
    return file


def paying(home: Path, run_key: str, **more: Any) -> Deployed:
    from flows.pay_beneficiaries import pay_beneficiaries

    return Deployed(pay_beneficiaries, file=str(sheet(home, run_key)), run_key=run_key, follow_seconds=60, **more)


def effects(sandbox: RunningSandbox) -> int:
    return sum(order["effects"] for order in sandbox.orders())


def rebalancing(**parameters: Any) -> Deployed:
    from flows.rebalance_treasury import rebalance_treasury

    return Deployed(rebalance_treasury, follow_seconds=60, **parameters)


def trading(people: Mapping[str, Any], **tables: Any) -> None:
    """Put a policy in force that has something to trade, and asks for no approvals of it."""
    text = data.path("treasury_policy.toml").read_text()
    adopts = parse_policy({**tomllib.loads(text), "people": people, **tables}, "policy.toml")
    adopt_policy(desk().ledger, adopts, "policy.toml", by="Owner", os_user="owner")
