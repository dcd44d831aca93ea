"""Killed anywhere and started again, every payment is made once, none is lost, and the sums are those of a calm run."""

import ast
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import treasury
from tests.crash.campaign import Tally, run_campaign, sqlite_ledger
from tests.crash.cases import ADDRESSING, INVOICING, PAYING, PEOPLE, make_case, make_sheet_case
from tests.proofs import tries
from treasury.concurrency import crash_points
from treasury.concurrency.crash_points import POINTS

KILLS = tries("KILLS", 16, 800)
"""All in all; one in eight with the ledger in PostgreSQL."""
ON_POSTGRESQL = KILLS // 8
SHEET_KILLS = tries("SHEET_KILLS", 4, 300)
"""Of withdrawals, QR codes, invoices and deposit addresses, through their sheets."""
FIRST_RANDOM = 1_000
"""Seeds from here on kill at points and instants drawn from the seed."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # the sandbox complains of clients that die in mid-request
    yield
    logging.disable(logging.NOTSET)


def assert_kept(tally: Tally, kills: int) -> None:
    print(tally)
    assert not tally.failures, "\n\n".join(tally.failures)
    assert tally.kills.total() >= kills
    assert tally.effects > 0


def test_every_point_is_passed_by_the_code_and_every_name_in_the_code_is_a_point() -> None:
    used: list[Any] = []
    for file in Path(treasury.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "crash_point":
                [name] = node.args
                if isinstance(name, ast.Constant):
                    used.append(name.value)
    assert sorted(used) == sorted(POINTS)


def test_a_point_that_is_not_armed_does_nothing_and_one_that_does_not_exist_cannot_be_armed() -> None:
    for name in POINTS:
        crash_points.crash_point(name)
    with pytest.raises(ValueError, match="no crash point"):
        crash_points.arm("nowhere", 1)


def test_a_seed_always_makes_the_same_case() -> None:
    for seed in (0, 99, 2_000):
        assert make_case(seed) == make_case(seed)
        assert make_sheet_case(seed) == make_sheet_case(seed)


@pytest.mark.costly("many killed processes")
def test_killed_at_every_point_each_payment_is_made_once() -> None:
    """Through every point, for every kind of payment that reaches it."""
    kills = (KILLS - ON_POSTGRESQL) * 3 // 4
    tally = run_campaign(kills, sqlite_ledger)
    assert_kept(tally, kills)
    if kills >= 150:
        assert {name for name in tally.kills if name != "instant"} >= {*PAYING, *PEOPLE} - {"apply.recorded"}


@pytest.mark.costly("many killed processes")
def test_killed_at_any_instant_each_payment_is_made_once() -> None:
    """Instants and points drawn from the seed, while the service drops requests and answers too."""
    kills = (KILLS - ON_POSTGRESQL) // 4
    assert_kept(run_campaign(kills, sqlite_ledger, seeds=iter(range(FIRST_RANDOM, 10**9))), kills)


@pytest.mark.costly("many killed processes")
def test_killed_on_the_way_through_any_other_sheet_each_row_has_one_effect_and_a_right_result() -> None:
    tally = run_campaign(SHEET_KILLS, sqlite_ledger, make=make_sheet_case)
    assert_kept(tally, SHEET_KILLS)
    assert tally.invoices > 0
    if SHEET_KILLS >= 300:
        assert set(tally.kills) >= {*INVOICING, *ADDRESSING}


@pytest.mark.costly("many killed processes")
def test_the_same_holds_with_a_ledger_in_postgresql(postgres: Callable[..., str]) -> None:
    seeds = iter(range(FIRST_RANDOM, 10**9))
    tally = run_campaign(ON_POSTGRESQL, lambda _: postgres(empty=True), seeds=seeds, ledger="postgresql")
    assert_kept(tally, ON_POSTGRESQL)
