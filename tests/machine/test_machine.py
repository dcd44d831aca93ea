"""Submit, crash, resume, ask, settle, flip, in any order: at most one effect a payment, and a truthful state.

The oracle is the service's own dictionary of what it did (`honest_books`); it shares no code with the engine.
"""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import stamina
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.machine.honest_books import MOODS, HonestBooks, Truth
from tests.machine.intents import PAYEES, all_intents
from tests.moved_clock import MovedClock
from tests.proofs import tries
from treasury.errors import IllegalTransition, NotConnected, OutcomeUnknown, Refused
from treasury.ledger.intents import commit_plan
from treasury.orders.records import Order
from treasury.orders.states import Event, State
from treasury.payments.desk import Desk
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.sandbox import generate_key_pair
from treasury.settings import Settings

RUN = "run"
BOOKS = HonestBooks()
RULES = ServiceRules(unconfirmed_statuses=frozenset({11}))
"""These books show 11 for quotes that nobody confirmed, and for nothing else."""
ACCOUNT = Account(BOOKS.base_url, "900001", generate_key_pair()[0], rules=RULES)
EXPECTED = (NotConnected, Refused, OutcomeUnknown, IllegalTransition)
"""Errors that a run takes as one order's own trouble."""

ROWS = st.sampled_from(list(PAYEES))


class MoneyMachine(RuleBasedStateMachine):
    """One run of five payments."""

    def __init__(self) -> None:
        super().__init__()
        BOOKS.clear()
        self.folder = tempfile.TemporaryDirectory(prefix="treasury-machine-")
        self.desks: list[Desk] = []
        self.snapshots: dict[str, Order] = {}
        self.open()
        commit_plan(self.desk.ledger, RUN, "test", {}, "0" * 64, all_intents())

    def open(self) -> None:
        home = Path(self.folder.name)
        settings = Settings(
            home, BOOKS.base_url, "900001", None, None, f"sqlite:///{home / 'ledger.db'}", home / "key", 0
        )
        self.desk = Desk(ACCOUNT, replace(settings, in_flight=2))
        self.desk.client.pace.too_many = lambda *_: None  # type: ignore[method-assign]  # nobody waits for minutes here
        self.desks.append(self.desk)

    def order(self, row: str) -> Order:
        return next(order for order in self.desk.ledger.orders(run_key=RUN) if order.row_ref == row)

    @initialize(shows=st.booleans())
    def choose(self, shows: bool) -> None:
        BOOKS.shows_conversions = shows

    # --- what the engine does ---

    @rule(row=ROWS, moods=st.lists(st.sampled_from(MOODS), max_size=3))
    def submit(self, row: str, moods: list[str]) -> None:
        BOOKS.moods = list(moods)
        with suppress(*EXPECTED), self.desk.hold(RUN):
            self.desk.submission.submit(self.order(row))
        BOOKS.moods = []

    @rule(row=ROWS)
    def ask(self, row: str) -> None:
        with suppress(*EXPECTED), self.desk.hold(RUN):
            self.desk.submission.ask(self.order(row))

    @rule(row=ROWS)
    def remember(self, row: str) -> None:
        """Another thread reads an order, and is slow."""
        self.snapshots[row] = self.order(row)

    @rule(row=ROWS, moods=st.lists(st.sampled_from(MOODS), max_size=2))
    def submit_what_was_remembered(self, row: str, moods: list[str]) -> None:
        """The other thread goes on with what it read long ago."""
        if row in self.snapshots:
            BOOKS.moods = list(moods)
            with suppress(*EXPECTED), self.desk.hold(RUN):
                self.desk.submission.submit(self.snapshots[row])
            BOOKS.moods = []

    @rule(row=ROWS)
    def learn_what_was_remembered(self, row: str) -> None:
        """A sweep, which does not hold the run, asked about what it read long ago."""
        if row in self.snapshots:
            with suppress(*EXPECTED):
                self.desk.submission.apply(self.snapshots[row], self.desk.submission.query(self.snapshots[row]))

    # --- what happens to its process ---

    @rule()
    def die(self) -> None:
        """Nobody closes anything; the next process finds what is on disk."""
        self.open()

    @rule(row=ROWS, acted=st.booleans())
    def die_on_the_way(self, row: str, acted: bool) -> None:
        """Marked as sending, and dead before the request left, or after it acted and before that was recorded."""
        order = self.order(row)
        quoted = "quote" in self.desk.ledger.payload(order) if order.payload is not None else False
        if order.state is not State.PREPARED or (quoted and order.confirmation is None):
            return
        order = self.desk.ledger.step(order, Event.SEND)
        if acted:
            with suppress(*EXPECTED):
                self.desk.client.send(self.desk.submission._operation(order))
        self.open()

    # --- what happens at the service ---

    @rule(row=ROWS, status=st.sampled_from((22, 99, 44, 88)))
    def move_on(self, row: str, status: int) -> None:
        """It settles, fails or closes, or flips after all."""
        BOOKS.end(PAYEES[row], status)

    @rule(fail=st.booleans())
    def questions(self, fail: bool) -> None:
        BOOKS.questions_fail = fail

    # --- what must hold ---

    @invariant()
    def no_payment_is_made_twice(self) -> None:
        assert {row: truth.effects for row, truth in BOOKS.truth.items() if truth.effects > 1} == {}

    @invariant()
    def the_ledger_says_what_is_true(self) -> None:
        orders = {order.row_ref: order for order in self.desk.ledger.orders(run_key=RUN)}
        assert set(orders) == set(PAYEES)
        for row, order in orders.items():
            truth = BOOKS.truth.get(PAYEES[row], Truth())
            told = order.state.outcome
            if told in ("not_sent", "rejected"):
                assert truth.effects == 0, (row, told)
            if told == "in_progress":
                assert truth.effects == 1, row
            if (final := {"settled": 99, "failed": 44, "closed": 88}.get(told)) is not None:
                assert truth.effects == 1, row
                assert final in truth.shown, row

    def teardown(self) -> None:
        """The trouble ends; a few calm starts later every payment is where the service says it is."""
        try:
            BOOKS.moods, BOOKS.questions_fail = [], False
            for row in PAYEES:
                truth = BOOKS.truth.get(PAYEES[row])
                if truth is not None and truth.status == 22:
                    truth.status = 99
            self.open()
            # An hour later: what was confirmed and lost is waited for until its quote has ended.
            self.desk.ledger.clock = ahead = MovedClock(None)
            ahead.move(3_600)
            for _ in range(4):
                for row in PAYEES:
                    with suppress(*EXPECTED), self.desk.hold(RUN):
                        self.desk.submission.submit(self.order(row))
                        BOOKS.end(PAYEES[row], BOOKS.truth[PAYEES[row]].status) if PAYEES[row] in BOOKS.truth else None
                    for truth in BOOKS.truth.values():
                        truth.status = 99 if truth.status == 22 else truth.status
                    with suppress(*EXPECTED), self.desk.hold(RUN):
                        self.desk.submission.ask(self.order(row))
            self.no_payment_is_made_twice()
            self.the_ledger_says_what_is_true()
            for row in PAYEES:
                self.ends_well(row, self.order(row))
        finally:
            for desk in self.desks:
                desk.close()
            self.folder.cleanup()

    def ends_well(self, row: str, order: Order) -> None:
        truth = BOOKS.truth.get(PAYEES[row], Truth())
        if truth.effects == 0:
            lost_for_good = row == "trade" and order.state is State.UNKNOWN
            assert order.state is State.REJECTED or lost_for_good, (row, order.state)
            return
        hidden = row == "trade" and not BOOKS.shows_conversions
        if not hidden:
            assert {99: "settled", 44: "failed", 88: "closed"}[truth.status] == order.state.outcome, row


@pytest.mark.costly("ten histories")
def test_any_history_ends_with_one_effect_and_the_truth() -> None:
    stamina.set_testing(True, attempts=1)
    try:
        run_state_machine_as_test(MoneyMachine, settings=_settings())
    finally:
        stamina.set_testing(False)


def _settings() -> Any:
    return settings(
        max_examples=tries("EXAMPLES", 10, 200),
        stateful_step_count=18,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
