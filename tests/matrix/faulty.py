"""One kind of payment against one fault: a start with the fault, starts without it, a sweep, and the comparison."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.crash.kinds import kind_of
from tests.crash.oracle import Verdict, judge
from tests.crash.payments import PARTNER_ID, Kind, ask_quotes, hurry
from tests.crash.sheets import SHEETS, customers_pay, judge_results
from tests.moved_clock import MovedClock
from treasury.clock import MACHINE, Clock
from treasury.nights import sweep
from treasury.orders.states import State
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.provider.client import Account, Client
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.scope import Scope
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, running_sandbox
from treasury.sending.submission import Submission
from treasury.settings import Settings, read_settings

TIMEOUT_SECONDS = 0.25
"""Shorter than a `slow` answer takes."""
LAG_SECONDS = 0.3
RESEND_AFTER = 0.02
AFTER_THE_LAG = 0.5
STARTS = 4
STARTS_OF_QUOTES = 20
"""Starts of what waits for a quote's end, which a service shows in whole seconds."""
QUOTE_SECONDS = 0.5
"""A lost confirmation is waited for until its quote has ended; a quote that was asked elsewhere has to last."""


@dataclass(frozen=True)
class Trial:
    """A record of what goes wrong, how often, and what the service does with a repeated reference."""

    kind: str
    fault: str
    rate: float = 1.0
    seed: int = 1
    repeat: str = "repeat_acts"
    """The fault under which a second transmission shows: as a second effect, unless a test says otherwise."""
    cancels: bool = False
    """True when a person cancels, after the faulty start, every run and call of it."""


def run_trial(trial: Trial, folder: Path, keys: tuple[str, str]) -> tuple[Verdict, list[str]]:
    """Run it; the verdict and what breaks the promise."""
    faults: dict[str, float] = {}
    settings = SandboxSettings(
        partner_id=PARTNER_ID,
        public_key=keys[1],
        seed=trial.seed,
        settle_seconds=0.0,
        faults=faults,
        slow_seconds=2 * TIMEOUT_SECONDS,
        read_lag_seconds=LAG_SECONDS,
        flip_seconds=0.05,
        quote_seconds=60.0 if trial.kind == "confirmation" else QUOTE_SECONDS,
    )
    clock = MovedClock()
    with running_sandbox(settings, SandboxClock(clock)) as sandbox:
        numbers: list[str] = []
        if trial.kind == "confirmation":
            with Client(Account(sandbox.base_url, PARTNER_ID, keys[0]), clock=clock) as client:
                numbers = ask_quotes(client)
        kind = kind_of(trial.kind, numbers)
        ledger_url = f"sqlite:///{folder / 'ledger.db'}"
        calm = {trial.repeat: 1.0, **({"flip_final": trial.rate} if trial.fault == "flip_final" else {})}
        calm |= {"read_lag": trial.rate} if trial.fault == "read_lag" else {}
        faults |= {**calm, trial.fault: trial.rate}
        _start(sandbox.base_url, kind, folder, keys[0], trial.fault, clock)
        during = [] if trial.fault == "flip_final" else judge(ledger_url, _sent(sandbox), kind.rows).faults
        cancelled = _cancel(sandbox.base_url, folder, keys[0], clock) if trial.cancels else []
        faults.clear()
        faults |= calm
        for start in range(STARTS_OF_QUOTES if trial.kind == "fiat_payout" else STARTS):
            if start >= STARTS:
                clock.move(QUOTE_SECONDS / 2)
            if trial.kind in SHEETS:
                customers_pay(sandbox)
                clock.move(2 * AFTER_THE_LAG)  # what was not shown so long may be asked for again
            _start(sandbox.base_url, kind, folder, keys[0], trial.fault, clock)
            if not judge(ledger_url, _sent(sandbox), kind.rows, cancelled).waiting and trial.kind not in SHEETS:
                break
        if trial.fault == "flip_final":
            clock.move(0.06)
        _sweep(sandbox, folder, keys[0], clock)
        verdict = judge(ledger_url, _sent(sandbox), kind.rows, cancelled)
        if trial.kind in SHEETS:
            customers_pay(sandbox)
            _start(sandbox.base_url, kind, folder, keys[0], trial.fault, clock)  # its results say what the sweep found
            verdict.faults += judge_results([trial.kind], folder, sandbox.orders())[0]
        if len(cancelled) != verdict.states.get("cancelled", 0):
            verdict.faults.append(f"{len(cancelled)} rows were cancelled, the ledger says {verdict.states}")
        return verdict, [f"while it lasted: {fault}" for fault in during] + verdict.faults


def _sent(sandbox: RunningSandbox) -> list[dict[str, Any]]:
    """Return the orders of the service that stand in the ledger; invoices do not."""
    return [order for order in sandbox.orders() if order["order_type"] != "pay"]


SHORT_SERVICE = ServiceRules(unconfirmed_statuses=frozenset({11}))
"""The sandbox shows 11 for a quote that nobody confirmed; here its payouts are at their end at the next look."""


def open_short_desk(
    base_url: str,
    folder: Path,
    private_key: str,
    resend_after: float = RESEND_AFTER,
    *,
    ledger_url: str | None = None,
    service: ServiceRules = SHORT_SERVICE,
    clock: Clock = MACHINE,
    **more: Any,
) -> Desk:
    """A desk whose waits are short, with the engine that TREASURY_HTTP_ENGINE chooses."""
    settings = Settings(
        home=folder,
        base_url=base_url,
        partner_id=PARTNER_ID,
        private_key_file=None,
        platform_key_file=None,
        ledger_url=ledger_url or f"sqlite:///{folder / 'ledger.db'}",
        ledger_key_file=folder / "ledger.key",
        resend_after_seconds=resend_after,
        **{"quote_margin_seconds": 0.05, **more},
    )
    account = Account(base_url, PARTNER_ID, private_key, rules=service)
    desk = Desk(account, replace(settings, in_flight=4), clock=clock)
    desk.client.close()
    engine = read_settings().http_engine
    desk.client = Client(account, connections=4, timeout_seconds=TIMEOUT_SECONDS, engine=engine, clock=clock)
    hurry(desk)
    desk.submission = Submission(
        desk.client, desk.ledger, desk.settings.evidence(service), found_known=desk.begin_epoch
    )
    return desk


def _start(base_url: str, kind: Kind, folder: Path, private_key: str, fault: str, clock: Clock) -> None:
    resend_after = AFTER_THE_LAG if fault in ("read_lag", "slow") else RESEND_AFTER
    desk = open_short_desk(base_url, folder, private_key, resend_after, clock=clock)
    try:
        kind.start(desk, folder)
    finally:
        desk.close()


def _cancel(base_url: str, folder: Path, private_key: str, clock: Clock) -> list[tuple[str, str]]:
    """A person cancels every run; the rows of which the person is told that they are cancelled."""
    desk = open_short_desk(base_url, folder, private_key, clock=clock)
    try:
        waiting = [order for order in desk.ledger.orders() if order.state is State.PREPARED and not order.doubtful]
        runs = sorted({order.run_key for order in desk.ledger.orders()})
        by = {"by": "Ada Example", "why": "a trial"}
        decided = [each for run_key in runs for each in cancel(desk, f"run:{run_key}", **by).decisions]
        done = {(each.order.run_key, each.order.row_ref) for each in decided if each.done}
        assert done == {(order.run_key, order.row_ref) for order in waiting}  # all that never left, and nothing else
        return sorted(done)
    finally:
        desk.close()


def _sweep(sandbox: RunningSandbox, folder: Path, private_key: str, clock: Clock) -> None:
    """The nightly sweep: the ledger catches up with what the service shows."""
    desk = open_short_desk(sandbox.base_url, folder, private_key, clock=clock)
    try:
        for ids in sweep.open_parts(desk, sweep.start_or_resume_sweep(desk, Scope())).values():
            sweep.ask_orders(desk, ids)
    finally:
        desk.close()
