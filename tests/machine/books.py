"""The oracle of the histories: what left, and what people had said by then. It shares no code with the engine.

A payment tells its run and row in its e-mail address, so that nothing has to be asked of the ledger to judge it.
"""

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.listening import Answer, Listening

Place = tuple[str, str]
"""Run key and row reference."""

NO_LIMIT = 1_000_000
DUPLICATE_DAYS = 25
IN_FLIGHT = 4


@dataclass(frozen=True)
class Rules:
    """A record of what people allow."""

    limit: int = NO_LIMIT
    """The most that a day may debit."""
    approve_above: int = NO_LIMIT
    stopped: bool = False

    def forbid(self, today: Decimal, total: Decimal, approved: bool) -> str | None:
        """Why a payment may not leave now; None when it may."""
        if self.stopped:
            return "left under a stop"
        if today > self.limit:
            return f"{today} on its day, under a limit of {self.limit}"
        return "left without an approval" if total > self.approve_above and not approved else None


@dataclass(frozen=True)
class Payment:
    """A payment that acted."""

    day: int
    payee: str
    amount: Decimal
    place: Place


@dataclass(frozen=True)
class Memory:
    """A record of what a copy of the ledger can know: how much had left, the rules, and the rows that never left by
    then."""

    left: int
    rules: Rules
    cancelled: frozenset[Place]
    ended: frozenset[str]
    rows: frozenset[Place]
    waiting: frozenset[Place]


@dataclass
class Books:
    """A record of what left, and what people said."""

    day: int = 0
    rules: Rules = Rules()
    left: list[Payment] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    cancelled: set[Place] = field(default_factory=set)
    """Rows of which a person was told that they are cancelled."""
    ended: set[str] = field(default_factory=set)
    """Runs whose waiting plan was cancelled before they began."""
    released: set[Place] = field(default_factory=set)
    """Rows that a person released although they look like another payment."""
    held: set[Place] = field(default_factory=set)
    """Rows that an older ledger brought back: nothing of them leaves until a person releases it."""
    approved: set[str] = field(default_factory=set)
    total_of: dict[str, Decimal] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    """Payments that the ledger cannot know since an older copy of it was put back, by their number in `left`."""
    guard: threading.RLock = field(default_factory=threading.RLock)
    _said: Rules | None = None
    """A decision that somebody is saying right now, in another process: from when on it counts is not known yet."""
    _before: Rules = Rules()
    _on_their_way: int = 0
    """Payments that may have been marked before the last word was on disk, and arrive after it."""

    # --- what people say ---

    def is_saying(self, rules: Rules, starts: int) -> None:
        """Somebody begins to say something while so many starts are on their way."""
        with self.guard:
            self._said, self._on_their_way = rules, starts * IN_FLIGHT

    def said(self, rules: Rules) -> None:
        """It is said: what is not marked by now is judged by it."""
        with self.guard:
            self._before, self.rules, self._said = self.rules, rules, None

    def all_arrived(self) -> None:
        """Nothing is on its way any more."""
        self._on_their_way, self._said = 0, None

    def told_cancelled(self, places: Sequence[Place], ended: str | None) -> None:
        """A person was told that these rows, and this waiting plan, are cancelled."""
        with self.guard:
            gone = {each.place for each in self.left}
            self.wrong += [f"{place} was called cancelled, and had left" for place in places if place in gone]
            self.cancelled |= set(places)
            self.ended |= set() if ended is None else {ended}

    def told_released(self, place: Place, kind: str) -> None:
        """A person released a row, whatever was said of it before."""
        self.held.discard(place)
        self.cancelled.discard(place)
        if kind == "duplicate":
            self.released.add(place)

    # --- copies of the ledger ---

    def remember(self, ledger: Path) -> Memory:
        """Return what a copy of the ledger knows, its rows read with plain SQL."""
        with closing(sqlite3.connect(ledger)) as copy:
            found = copy.execute("SELECT run_key, row_ref, state FROM orders").fetchall()
        rows = frozenset((run_key, row_ref) for run_key, row_ref, _ in found)
        waiting = frozenset((run_key, row_ref) for run_key, row_ref, state in found if state in ("prepared", "held"))
        return Memory(len(self.left), self.rules, frozenset(self.cancelled), frozenset(self.ended), rows, waiting)

    def put_back(self, memory: Memory, *, same_file: bool) -> None:
        """The copy is the ledger again: newer stops, policies and runs are forgotten, newer cancellations are not.

        Over the same file only the machine's token tells, which counts what left, and since then what was cancelled.
        A row that the copy does not know at all may begin anew: whoever starts its sheet says so.
        """
        told = not same_file or len(self.left) > memory.left or (self.cancelled - memory.cancelled and memory.left > 0)
        self.rules = memory.rules
        self.forgotten |= set(range(memory.left, len(self.left)))
        self.ended = set(memory.ended)
        if told:
            self.held |= memory.waiting
            self.cancelled &= memory.rows
        else:
            self.cancelled &= memory.cancelled

    # --- what leaves ---

    def pay(self, payee: str, amount: Decimal, place: Place) -> None:
        """A payment acts: is it one that may?"""
        with self.guard:
            known = [each for number, each in enumerate(self.left) if number not in self.forgotten]
            today = sum((each.amount for each in known if each.day == self.day), amount)
            total, approved = self.total_of[place[0]], place[0] in self.approved
            why = self.rules.forbid(today, total, approved)
            if why is not None and self._is_late(today, total, approved):
                why = None
            same = [
                each
                for each in known
                if (each.payee, each.amount) == (payee, amount) and self.day - each.day < DUPLICATE_DAYS
            ]
            # Who released one of two knows of the other; of one run, either may leave first.
            alike = [each.place for each in same if not {each.place, place} & self.released]
            found = {
                why or "": why is not None,
                "left twice": any(each.place == place for each in self.left),
                f"is a duplicate of {alike[:1]}": bool(alike),
                "left although it was cancelled": place in self.cancelled or place[0] in self.ended,
                "left although an older ledger brought it back": place in self.held,
            }
            self.wrong += [f"{place}: {what}" for what, holds in found.items() if holds]
            self.left.append(Payment(self.day, payee, amount, place))

    def _is_late(self, today: Decimal, total: Decimal, approved: bool) -> bool:
        """Tell whether a payment is as the rules allowed that were in force when it may have been marked."""
        if self._said is not None and self._said.forbid(today, total, approved) is None:
            return True
        if self._on_their_way <= 0 or self._before.forbid(today, total, approved) is not None:
            return False
        self._on_their_way -= 1
        return True


class Service:
    """Pays at once, and shows what it paid. Processes of people tell it, too, what they did."""

    def __init__(self) -> None:
        self.books = Books()
        self.known: dict[str, dict[str, Any]] = {}
        self.hears: Any = lambda _: None
        self.listening = Listening(self._reply)

    def _reply(self, path: str, content: bytes) -> Answer:
        body: Mapping[str, Any] = json.loads(content)
        if path == "/said":
            self.hears(body)
            return 200, b"{}", {}
        reference = str(body["request_id"])
        if path.endswith("/payout"):
            run_key, row_ref = body["email"].partition("@")[0].split(".")
            self.books.pay(body["account_no"], Decimal(body["amount"]), (run_key, row_ref))
            self.known[reference] = {"order_no": f"N-{reference}", "request_id": reference, "status": 99}
        found = self.known.get(reference)
        answer = {"code": 7000, "message": "ORDER_NOT_EXIST"} if found is None else {"code": 200, "data": found}
        return 200, json.dumps(answer).encode(), {}
