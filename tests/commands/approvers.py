"""People with keys at one office: their keys, their policy, and what waits for them."""

import time
from collections.abc import Mapping
from pathlib import Path

from tests.commands.office import Ended, Office, one_line_error
from treasury.approving.tokens import Verb, public_text, read_key, sign
from treasury.ledger.approvals import waiting_plan
from treasury.settings import os_user

PEOPLE = {"ada": ("make", "approve", "change_policy"), "ben": ("approve",), "cleo": ("approve", "change_policy")}
LIMITS = """
[payouts.one_approval_above]
USDT_TRC20 = "10"
[payouts.two_approvals_above]
USDT_TRC20 = "100"
[withdrawals.one_approval_above]
USDT_TRC20 = "50"
[changes]
approvals = 1
"""
HOUR = 3_600_000


def key(office: Office, name: str) -> str:
    """The file with the private key of this person."""
    return str(office.home / "keys" / f"{name}.key")


def policy(office: Office, limits: str = LIMITS, name: str = "policy.toml", **keys: str) -> Path:
    """A policy of these people; ada works as this OS user, too. `keys`: person -> the key file, where it is another."""
    lines = []
    for person, rights in PEOPLE.items():
        public = public_text(read_key(Path(key(office, keys.get(person, person)))))
        users = [os_user()] if person == "ada" else []
        lines += [f"[people.{person}]", f"keys = {[public]}", f"os_users = {users}", f"may = {list(rights)}"]
    return office.file(name, limits + "\n" + "\n".join(lines) + "\n")


def with_people(office: Office, limits: str = LIMITS) -> Office:
    """The office, once the people have keys and their policy is in force."""
    made = office.run_all({name: ["keys", "new", name] for name in (*PEOPLE, "mallory")})
    assert {ended.code for ended in made.values()} == {0}, made
    adopted = office.run("policy", "adopt", policy(office, limits), "--by", "Ada Example")
    assert adopted.code == 0, adopted.err
    return office


def pay_line(office: Office, run_key: str, amount: str = "20", account: str = "12345670001") -> list[str]:
    """The command that pays one row."""
    sheet = office.sheet(("a", amount, account), name=f"{run_key}-{amount}.csv")
    return ["pay", str(sheet), "--run-key", run_key, "--yes", "--follow", "20"]


def waits(office: Office, lines: Mapping[str, list[str]]) -> dict[str, str]:
    """Start what has to wait; the codes of the plans that wait now, by the names of the lines."""
    return {name: code_of(ended) for name, ended in office.run_all(lines).items()}


def code_of(ended: Ended) -> str:
    """The code of a plan that waits, as the command that proposed it says."""
    assert (ended.code, "waiting for an approval" in ended.err) == (3, True), ended
    return ended.err.split("--plan ")[1].split()[0]


def waiting_hash(office: Office, run_key: str) -> str:
    """The hash of the plan that waits."""
    desk = office.desk()
    try:
        plan = waiting_plan(desk.ledger, run_key)
        assert plan is not None
        return plan.sha256
    finally:
        desk.close()


def token(office: Office, name: str, run_key: str, code: str, hours: int = 1, purpose: Verb = Verb.APPROVE) -> str:
    """A token as this person would sign it."""
    until = int(time.time() * 1000) + hours * HOUR
    return str(sign(read_key(Path(key(office, name))), purpose, run_key, code, until))


def refused(ended: Ended, said: str) -> None:
    """Check that a command ended with code 2 and this reason."""
    assert ended.code == 2, ended
    assert said in one_line_error(ended), ended.err
