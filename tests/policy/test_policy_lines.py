"""Tests of a policy line by line: its lines are its file, and a difference names each entry."""

import tomllib

import pytest

import data
from treasury.policy.model import parse_policy
from treasury.policy.policy_lines import changes_between, left_open, lines_of

RICH = """
time_zone = "Asia/Bangkok"
approval_hours = 24
[payouts]
countries = ["ID", "DE"]
cooling_days = 3
[payouts.max_per_day]
USDT = "100"
USDT_TRC20 = "7.50"
[payouts.min_rates]
"USDT-EUR" = "0.8"
[changes]
people = ["Ada Example", "Ben Example"]
"""


@pytest.mark.parametrize("text", [data.path("treasury_policy.toml").read_text(), RICH], ids=["sample", "rich"])
def test_the_lines_of_a_policy_are_its_file(text: str) -> None:
    policy = parse_policy(tomllib.loads(text), "policy.toml")
    again = parse_policy(tomllib.loads("\n".join(lines_of(policy))), "again")
    assert again.version == policy.version


def test_a_difference_names_each_entry() -> None:
    before = parse_policy({"payouts": {"max_per_day": {"USDT": "100"}, "cooling_days": 3}}, "before")
    after = parse_policy({"payouts": {"max_per_day": {"USDT": "250.00", "BTC": "1"}}}, "after")
    assert changes_between(before, after) == [
        "payouts.cooling_days: 3 -> not set",
        'payouts.max_per_day.BTC: not set -> "1"',
        'payouts.max_per_day.USDT: "100" -> "250"',
    ]
    assert changes_between(before, before) == []
    assert changes_between(None, before) == [
        "payouts.cooling_days: not set -> 3",
        'payouts.max_per_day.USDT: not set -> "100"',
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[withdrawals]\n[payouts.max_per_payout]\nUSDT = '5'",
            ["payouts: totals in USDT are limited, in other currencies not"],
        ),
        (data.path("treasury_policy.toml").read_text(), []),
        ('no_limits = "a rehearsal"', []),
        ("[payouts]\n[withdrawals]", []),  # it asks for approvals nowhere
        ("[payouts]", ["it has no [withdrawals] table"]),
        (
            "[payouts]\n[withdrawals.one_approval_above]\nUSDT = '5'",
            ["take approvals, in other currencies none", "runs of USDT that each"],
        ),
        (
            "[withdrawals]\n[payouts]\ncurrencies = ['BTC', 'USDT']\nmax_per_day = {USDT = '9'}\n"
            "one_approval_above = {USDT = '5'}",
            ["in BTC none"],
        ),
        (
            "[withdrawals]\n[payouts]\ncurrencies = ['BTC', 'USDT']\nmax_per_day = {USDT = '9'}\n"
            "one_approval_above = {USDT = '5', BTC = '1'}",
            ["payouts: runs of BTC that each take no approval"],
        ),
        (
            "[withdrawals]\n[payouts]\ncurrencies = ['USDT', 'USDT_TRC20']\nnew_payee_above = {USDT_TRC20 = '9'}",
            ["payouts: first payments to an account are held in USDT_TRC20, in USDT never"],
        ),
    ],
    ids=[
        "no approvals, one limit",
        "sample",
        "none",
        "no approvals",
        "no table",
        "any currency",
        "a listed currency",
        "no day's limit",
        "new payees",
    ],
)
def test_what_leaves_without_the_approvals_of_a_policy_is_said(text: str, said: list[str]) -> None:
    found = list(left_open(parse_policy(tomllib.loads(text), "policy.toml")))
    assert len(found) == len(said)
    assert all(each in line for each, line in zip(said, found, strict=True)), found
