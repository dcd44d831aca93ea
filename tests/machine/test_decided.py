"""Random histories of what people decide: nothing leaves that was not allowed, and all that was allowed still can.

The oracle knows the service's side alone: what left, when, and which policy, stops, cancellations and releases a person
had said by then. `HISTORIES=2000` runs so many (`make histories`).
"""

import json
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.runs import sheet
from tests.listening import Answer, Listening
from treasury.errors import ApprovalNeeded, InputError, Stopped
from treasury.ledger.approvals import approve_plan
from treasury.ledger.policies import adopt_policy
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.planning.policy import parse_policy
from treasury.provider.client import Account
from treasury.runs import execution, payouts
from treasury.runs.cancelling import cancel
from treasury.runs.desk import Desk
from treasury.runs.resolving import release_orders
from treasury.sandbox import generate_key_pair
from treasury.settings import Settings

HISTORIES = int(os.environ.get("HISTORIES", "40"))
STEPS = 14
DAY = 86_400
PAYEES = [f"1234567{number:04d}" for number in range(4)]
AMOUNTS = ("10", "20", "40")
LIMITS = (60, 100, 200)
NO_LIMIT = 1_000_000
PERSON = {"by": "Ada Example", "why": "a history"}


@dataclass
class Books:
    """What left, and what people had said by then."""

    day: int = 0
    limit: int | None = None
    approve_above: int = NO_LIMIT
    stopped: bool = False
    left: list[tuple[int, str, Decimal, str]] = field(default_factory=list)
    """Day, payee, amount, reference."""
    wrong: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)
    run_of: dict[str, str] = field(default_factory=dict)
    total_of: dict[str, Decimal] = field(default_factory=dict)

    def pay(self, payee: str, amount: Decimal, reference: str) -> None:
        """A payment acts: is it one that may?"""
        same = [each for each in self.left if each[1:3] == (payee, amount) and self.day - each[0] < 25]
        today = sum((each[2] for each in self.left if each[0] == self.day), amount)
        run = self.run_of.get(reference, "")
        if any(each[3] == reference for each in self.left):
            self.wrong.append(f"{reference} left twice")
        # Who released one of two knows of the other; of one run, either may leave first.
        alike = [each for each in same if not {each[3], reference} & self.released]
        if alike:
            self.wrong.append(f"{reference} is a duplicate of {alike[0][3]}")
        if self.limit is not None and today > self.limit:
            self.wrong.append(f"{reference}: {today} on day {self.day} under a limit of {self.limit}")
        if self.stopped:
            self.wrong.append(f"{reference} left under a stop")
        if reference in self.cancelled:
            self.wrong.append(f"{reference} left although it was cancelled")
        if self.total_of.get(run, Decimal(0)) > self.approve_above and run not in self.approved:
            self.wrong.append(f"{reference} of {run} left without an approval")
        self.left.append((self.day, payee, amount, reference))


class Service:
    """Pays at once, and shows what it paid."""

    def __init__(self) -> None:
        self.books = Books()
        self.known: dict[str, dict[str, Any]] = {}
        self.listening = Listening(self._reply)

    def _reply(self, path: str, content: bytes) -> Answer:
        body: Mapping[str, Any] = json.loads(content)
        reference = str(body["request_id"])
        if path.endswith("/payout"):
            self.books.pay(body["account_no"], Decimal(body["amount"]), reference)
            self.known[reference] = {"order_no": f"N-{reference}", "request_id": reference, "status": 99}
        found = self.known.get(reference)
        answer = {"code": 7000, "message": "ORDER_NOT_EXIST"} if found is None else {"code": 200, "data": found}
        return 200, json.dumps(answer).encode(), {}


class Office:
    """People at one ledger."""

    def __init__(self, service: Service, folder: Path, key: str) -> None:
        self.service, self.folder, self.key = service, folder, key
        self.books = service.books
        self.sheets: dict[str, Path] = {}
        self.desk = self._open()

    def _open(self) -> Desk:
        account = Account(self.service.listening.base_url, "900001", self.key)
        ledger = f"sqlite:///{self.folder / 'ledger.db'}"
        settings = Settings(self.folder, None, None, None, None, ledger, self.folder / "ledger.key", in_flight=4)
        desk = Desk(account, settings)
        clock = desk.ledger._clock
        desk.ledger._clock = lambda: clock() + self.books.day * DAY
        return desk

    def restart(self) -> None:
        """The program ends, and starts again."""
        self.desk.close()
        self.desk = self._open()

    def begin(self, run_key: str, rows: list[tuple[str, str, str]]) -> None:
        """Somebody has a new sheet, and starts it."""
        self.sheets[run_key] = sheet(self.folder, *rows, name=f"{run_key}.csv")
        self.books.total_of[run_key] = sum((Decimal(amount) for _, amount, _ in rows), Decimal(0))
        self.start(run_key)

    def start(self, run_key: str) -> None:
        """Start a run, as `treasury pay` does."""
        file = self.sheets[run_key]
        try:
            payouts.propose_payouts(self.desk, payouts.plan_of(self.desk, file, run_key), "maker")
            chunks = payouts.commit_payouts(self.desk, file, run_key)
        except (InputError, ApprovalNeeded):
            return
        for order in self.desk.ledger.orders(run_key=run_key):
            self.books.run_of[order.request_id] = run_key
        with suppress(Stopped):
            for ids in chunks:
                execution.send_orders(self.desk, run_key, ids)

    def cancel(self, run_key: str) -> None:
        """Somebody cancels a run."""
        with suppress(InputError):
            for decision in cancel(self.desk, run_key, **PERSON).decisions:
                if decision.done:
                    self.books.cancelled.add(decision.order.request_id)

    def release(self, run_key: str) -> None:
        """Somebody lets what is held be sent."""
        with suppress(InputError):
            for decision in release_orders(self.desk, run_key, None, **PERSON):
                if "duplicate" in str(decision.order.released):
                    self.books.released.add(decision.order.request_id)

    def approve(self, run_key: str) -> None:
        """Somebody else approves a run."""
        with suppress(InputError):
            approve_plan(self.desk.ledger, run_key, "Bert Example", "bert")
            self.books.approved.add(run_key)

    def adopt(self, limit: int, approve_above: int) -> None:
        """Somebody puts another policy in force."""
        table = {"max_per_day": {"USDT_TRC20": limit}, "one_approval_above": {"USDT_TRC20": approve_above}}
        policy = parse_policy({"payouts": table}, "policy.toml")
        adopt_policy(self.desk.ledger, policy, "policy.toml", by="Ada Example", os_user="ada")
        self.books.limit, self.books.approve_above = limit, approve_above

    def stop(self) -> None:
        """Somebody stops everything."""
        stop_sending(self.desk.ledger, "Ada Example", "a history")
        self.books.stopped = True

    def lift(self) -> None:
        """Somebody lets it go on."""
        self.books.stopped = False
        lift_stop(self.desk.ledger, "Ada Example")


@pytest.fixture(scope="module")
def key() -> str:
    return generate_key_pair()[0]


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.listening.close()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_only_what_was_allowed_leaves_and_all_of_it_can(seed: int, service: Service, tmp_path: Path, key: str) -> None:
    dice = random.Random(seed)
    office = Office(service, tmp_path, key)
    office.adopt(dice.choice(LIMITS), NO_LIMIT)
    for number in range(STEPS):
        runs = list(office.sheets) or ["none"]
        act = dice.choices(
            ["begin", "start", "cancel", "release", "approve", "adopt", "stop", "lift", "restart", "day"],
            [4, 3, 2, 2, 2, 1, 1, 2, 1, 1],
        )[0]
        if act == "begin":
            rows = [(f"r{each}", dice.choice(AMOUNTS), dice.choice(PAYEES)) for each in range(dice.randint(1, 4))]
            office.begin(f"run{number}", rows)
        elif act == "start" and office.sheets:
            office.start(dice.choice(runs))
        elif act in ("cancel", "release", "approve"):
            getattr(office, act)(dice.choice(runs))
        elif act == "adopt":
            office.adopt(dice.choice(LIMITS), dice.choice((50, NO_LIMIT)))
        elif act == "day":
            service.books.day += 1
        elif act in ("stop", "lift", "restart"):
            getattr(office, act)()
        assert service.books.wrong == []
    office.lift()
    for _ in range(3):
        office.adopt(NO_LIMIT, NO_LIMIT)
        for run_key in office.sheets:
            office.release(run_key)
            office.start(run_key)
    assert service.books.wrong == []
    left = {reference for *_, reference in service.books.left}
    for order in office.desk.ledger.orders():
        assert (order.request_id in left) != (order.request_id in service.books.cancelled), order
    office.desk.close()
