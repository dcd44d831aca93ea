"""Whatever the service does wrong while a sheet is worked through: each row has one effect, and a right result.

A quick cut runs always; `make matrix` runs all of it.
"""

from pathlib import Path

import pytest

from tests.crash.sheets import SHEETS
from tests.matrix.faulty import Trial, run_trial
from tests.proofs import ALL
from treasury.sandbox import FAULTS

pytestmark = pytest.mark.every(2)

OF_REQUESTS = tuple(name for name in FAULTS if not name.startswith("notice_") and name != "quote_expired")


def trials() -> list[Trial]:
    """Every request meets the fault, then it goes away; in the proofs half of them, too, drawn from the seed."""
    always = [Trial(kind, fault) for kind in SHEETS for fault in (OF_REQUESTS if ALL else ("drop_before", "html"))]
    halves = [Trial(kind, fault, 0.5, seed) for kind in SHEETS for fault in OF_REQUESTS for seed in (1, 2, 3)]
    return always + (halves if ALL else [])


@pytest.mark.parametrize("trial", trials(), ids=lambda trial: f"{trial.kind}-{trial.fault}-{trial.rate}-{trial.seed}")
def test_a_fault_on_the_way_through_a_sheet_leads_to_one_effect_and_a_right_result(
    trial: Trial, tmp_path: Path, keys: tuple[str, str]
) -> None:
    verdict, problems = run_trial(trial, tmp_path, keys)
    assert problems == []
    if trial.kind in ("withdrawals", "codes") and trial.fault != "flip_final":
        assert (verdict.states, verdict.effects) == ({"settled": 3}, 3)
