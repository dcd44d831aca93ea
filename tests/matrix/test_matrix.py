"""Whatever the service does wrong: at most one effect a payment, and a ledger that says what is true.

A quick cut runs always; `make matrix` runs all of it.
"""

import socket
from pathlib import Path

import pytest

from tests.crash.oracle import judge
from tests.crash.payments import KINDS, PARTNER_ID, make_kind
from tests.matrix.faulty import Trial, open_short_desk, run_trial
from tests.proofs import ALL
from treasury.sandbox import FAULTS as EVERY_FAULT
from treasury.sandbox import SandboxSettings, running_sandbox

NAMES = (*KINDS, "confirmation")
QUICK = ("payout", "fiat_payout")
QUICK_FAULTS = ("drop_before", "drop_after", "rate_limit_429_bare", "quote_expired")
FAULTS = tuple(name for name in EVERY_FAULT if not name.startswith("notice_"))
SEEDS = range(1, 6) if ALL else range(1, 2)

DECIDE_NOTHING = ("drop_before", "error_500_before", "clock_skew", "rate_limit_429", "rate_limit_429_bare")
LOST_FOR_GOOD = {("conversion", fault) for fault in DECIDE_NOTHING}
"""Nothing happened, and nothing can show it: no absence is evidence for a conversion."""


def always() -> list[Trial]:
    """Every request that moves money, and every quote, meets the fault; then it goes away."""
    quick = {"fiat_payout": FAULTS[::3], "payout": FAULTS[1::3]}  # `sometimes` has the other third
    some = ("drop_before", "drop_after")
    return [Trial(kind, fault) for kind in NAMES for fault in (FAULTS if ALL else quick.get(kind, some))]


def sometimes() -> list[Trial]:
    """Half of them do, drawn from the seed; and the service repeats itself in three ways."""
    repeats = ("repeat_acts", "repeat_answers_first") if ALL else ("repeat_answers_first",)
    return [
        Trial(kind, fault, 0.5, seed, repeat)
        for kind in (NAMES if ALL else QUICK[:1])
        for fault in (FAULTS if ALL else FAULTS[2::3])
        for seed in SEEDS
        for repeat in repeats
    ]


@pytest.mark.parametrize("trial", always(), ids=lambda trial: f"{trial.kind}-{trial.fault}")
def test_a_fault_that_strikes_every_request_leads_to_one_effect_and_the_truth(
    trial: Trial, tmp_path: Path, keys: tuple[str, str]
) -> None:
    verdict, problems = run_trial(trial, tmp_path, keys)
    assert problems == []
    rows = 3
    if trial.fault == "flip_final":
        assert (verdict.states, verdict.effects) == ({"failed": rows}, rows)
    elif (trial.kind, trial.fault) in LOST_FOR_GOOD:
        assert set(verdict.states) <= {"settled", "unknown"}
    elif trial.fault == "quote_expired" and trial.kind == "confirmation":
        assert verdict.states == {"settled": rows}  # these quotes were asked before anything went wrong
    else:
        assert (verdict.states, verdict.effects) == ({"settled": rows}, rows)


@pytest.mark.parametrize(
    "trial", sometimes(), ids=lambda trial: f"{trial.kind}-{trial.fault}-{trial.seed}-{trial.repeat}"
)
def test_a_fault_that_strikes_some_requests_leads_to_one_effect_and_the_truth(
    trial: Trial, tmp_path: Path, keys: tuple[str, str]
) -> None:
    verdict, problems = run_trial(trial, tmp_path, keys)
    assert problems == []
    may_wait = (trial.kind, trial.fault) in LOST_FOR_GOOD
    ends = {"settled"} | ({"failed"} if trial.fault == "flip_final" else set()) | ({"unknown"} if may_wait else set())
    assert set(verdict.states) <= ends


def cancelled() -> list[Trial]:
    """A person cancels what never left after the faulty start, which every request met, or half of them."""
    faults = FAULTS if ALL else QUICK_FAULTS
    rates = (1.0, 0.5) if ALL else (0.5,)
    return [
        Trial(kind, fault, rate, cancels=True)
        for kind in (NAMES if ALL else QUICK)
        for fault in faults
        for rate in rates
    ]


@pytest.mark.parametrize("trial", cancelled(), ids=lambda trial: f"{trial.kind}-{trial.fault}-{trial.rate}")
def test_what_is_cancelled_after_a_fault_never_leaves_and_the_rest_has_one_effect(
    trial: Trial, tmp_path: Path, keys: tuple[str, str]
) -> None:
    verdict, problems = run_trial(trial, tmp_path, keys)
    assert problems == []
    may_wait = (trial.kind, trial.fault) in LOST_FOR_GOOD
    ends = {"settled", "cancelled"} | ({"failed"} if trial.fault == "flip_final" else set())
    assert set(verdict.states) <= ends | ({"unknown"} if may_wait else set())
    assert verdict.effects == verdict.states.get("settled", 0) + verdict.states.get("failed", 0)


@pytest.mark.parametrize("kind", NAMES[:-1] if ALL else QUICK)
def test_refused_connections_leave_every_row_unsent_until_the_service_is_back(
    kind: str, tmp_path: Path, keys: tuple[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    payments = make_kind(kind)
    for _ in range(2):
        desk = open_short_desk(f"http://127.0.0.1:{port}", tmp_path, keys[0])
        payments.start(desk, tmp_path)
        assert {order.state.outcome for order in desk.ledger.orders()} == {"not_sent"}
        assert not any(order.doubtful for order in desk.ledger.orders())
        desk.close()
    settings = SandboxSettings(
        partner_id=PARTNER_ID, public_key=keys[1], settle_seconds=0, port=port, faults={"repeat_acts": 1.0}
    )
    with running_sandbox(settings) as sandbox:
        desk = open_short_desk(sandbox.base_url, tmp_path, keys[0])
        payments.start(desk, tmp_path)
        desk.close()
        verdict = judge(f"sqlite:///{tmp_path / 'ledger.db'}", sandbox.orders(), payments.rows)
    assert (verdict.faults, verdict.states, verdict.effects) == ([], {"settled": 3}, 3)
