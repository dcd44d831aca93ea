"""Confirmations whose fate is unknown: services that act late, show late, or show a payment as if it were a quote."""

import json
import shutil
import threading
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.crash.payments import QUOTED, fiat_payout
from tests.engine import paying
from tests.ibans import german_iban
from tests.listening import Answer, Listening
from tests.matrix.faulty import SHORT_SERVICE, open_short_desk
from tests.moved_clock import MovedClock
from treasury.orders.states import Event
from treasury.payments import execution
from treasury.payments.resolving import resolve_as_not_sent, resolve_as_sent
from treasury.provider.service_rules import ServiceRules
from treasury.sandbox import generate_key_pair

LIFE, MARGIN, WINDOW = 0.4, 0.6, 0.2
"""Seconds: a quote's life, the margin after it, and how far apart two absences must be."""
ROWS = 3
PERSON = {"by": "Ada Example", "why": "the service's support says so"}


class SlowToConfirm:
    """Quotes, and confirms without an answer the first time; a confirmation that is repeated acts again."""

    def __init__(self, mode: str, clock: MovedClock) -> None:
        self.mode = mode
        self.clock = clock
        self.refuses = False
        """True when the first confirmation is refused with 400 instead of getting no answer."""
        self.shows_11_for = 1.2
        """Seconds for which a payment is shown as a quote, where the mode says so; then as in progress for as long."""
        self.effects: dict[str, list[float]] = {}
        """Payee -> when money moves, or moved."""
        self._quotes: dict[str, dict[str, Any]] = {}
        self._payee: dict[str, str] = {}
        self._lost: set[str] = set()
        self._guard = threading.Lock()
        self._listening = Listening(self._reply, clock)
        self.base_url = self._listening.base_url

    def paid(self) -> list[int]:
        """How often money has moved by now, payee by payee."""
        return [sum(at <= self.clock.wall() for at in moves) for moves in self.effects.values()]

    def _reply(self, path: str, content: bytes) -> Answer:
        with self._guard:
            body = json.loads(content)
            found = {"quote": self._quote, "create": self._create, "query": self._query}[path.rsplit("/", 1)[1]](body)
        return None if found is None else (200, json.dumps(found).encode(), {})

    def _quote(self, body: Mapping[str, Any]) -> dict[str, Any]:
        reference = body["request_id"]
        now = int(self.clock.wall() * 1000)
        self._payee[f"Q-{reference}"] = body["individual_beneficiary"]["account_no"]
        self.effects.setdefault(self._payee[f"Q-{reference}"], [])
        later = sum(payee == self._payee[f"Q-{reference}"] for payee in self._payee.values()) > 1
        self._quotes[reference] = {
            "request_id": reference,
            "order_no": f"Q-{reference}",
            "pay_amount": body["pay_amount"],
            "pay_currency": "USDT",
            "receive_amount": "91.00" if later else "90.00",
            "receive_currency": "EUR",
            "exchange_rate": "0.91" if later else "0.9",
            "transaction_time": now,
            "expire_time": now + int(LIFE * 1000),
        }
        return {"code": 200, "data": self._quotes[reference]}

    def _create(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        number = body["order_no"]
        payee = self._payee[number]
        first = payee not in self._lost
        self._lost.add(payee)
        moves = self.effects[payee]
        if not (first and self.mode.startswith("never")):
            late = self._quotes[number[2:]]["expire_time"] / 1000 + MARGIN * 0.7  # however late the request came
            moves.append(late if first and self.mode == "acts late" else self.clock.wall())
        self._quotes[number[2:]]["confirmed"] = moves[-1] if moves else None
        if first:
            return {"code": 400, "message": "INVALID_REQUEST"} if self.refuses else None
        return {"code": 200, "data": {"order_no": number, "status": 22}}

    def _query(self, body: Mapping[str, Any]) -> dict[str, Any]:
        quote = self._quotes.get(body.get("request_id", ""))
        absent = {"code": 7000, "message": "ORDER_NOT_EXIST"}
        if quote is None:
            return absent
        moved = quote.get("confirmed")
        age = -1.0 if moved is None else self.clock.wall() - moved
        if self.mode == "shows 11, then 12":
            status = 11 if age < self.shows_11_for else 12 if age < 2 * self.shows_11_for else 99
        elif age < 0 and self.mode == "never, shown as 11":
            status = 11
        elif age < (0.1 if self.mode == "lags" else 0.0):
            return absent
        else:
            status = 99
        return {"code": 200, "data": {**quote, "status": status}}

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()


@pytest.fixture(scope="module")
def key() -> str:
    return generate_key_pair()[0]


def outcomes(slow: SlowToConfirm, folder: Path, key: str, seconds: float, **more: Any) -> set[str]:
    """Start the run again and again for so long; nobody is ever paid twice. What its rows are then."""
    kind = fiat_payout(ROWS)
    until = slow.clock.wall() + seconds
    while True:
        desk = open_short_desk(slow.base_url, folder, key, WINDOW, clock=slow.clock, **settings(more))
        kind.start(desk, folder)
        found = {order.state.value for order in desk.ledger.orders()}
        desk.close()
        assert max(slow.paid()) <= 1
        if found == {"settled"} or slow.clock.wall() > until:
            return found
        slow.clock.move(0.1)


def settings(more: Mapping[str, Any]) -> dict[str, Any]:
    return {"quote_margin_seconds": MARGIN, "service": ServiceRules(), **more}


@pytest.mark.parametrize("mode", ["acts late", "lags", "shows 11, then 12", "never, absent"])
def test_whatever_becomes_of_a_lost_confirmation_its_row_is_paid_once(mode: str, tmp_path: Path, key: str) -> None:
    service = SlowToConfirm(mode, MovedClock())
    try:
        assert outcomes(service, tmp_path, key, 12.0) == {"settled"}
        service.clock.move(LIFE)
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def test_what_may_be_a_payment_waits_for_a_person_who_is_believed_once_the_quote_has_ended(
    tmp_path: Path, key: str
) -> None:
    service = SlowToConfirm("never, shown as 11", MovedClock())
    try:
        kind = fiat_payout(ROWS)
        desk = open_short_desk(
            service.base_url, tmp_path, key, WINDOW, clock=service.clock, **settings({"quote_margin_seconds": 300.0})
        )
        kind.start(desk, tmp_path)
        [decision, *_] = resolve_as_not_sent(desk, "fiat", **PERSON)
        assert not decision.done
        assert "confirmed until" in decision.says
        desk.close()
        assert outcomes(service, tmp_path, key, LIFE + MARGIN + 1.0) == {"unknown"}
        desk = open_short_desk(service.base_url, tmp_path, key, WINDOW, clock=service.clock, **settings({}))
        assert "treasury resolve" in str(desk.ledger.orders()[0].reason)
        assert all(decision.done for decision in resolve_as_not_sent(desk, "fiat", **PERSON))
        desk.close()
        assert outcomes(service, tmp_path, key, 8.0) == {"settled"}
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def test_an_account_that_never_shows_11_for_a_payment_needs_no_person(tmp_path: Path, key: str) -> None:
    service = SlowToConfirm("never, shown as 11", MovedClock())
    try:
        assert outcomes(service, tmp_path, key, 12.0, service=SHORT_SERVICE) == {"settled"}
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def test_a_person_is_not_believed_while_the_service_shows_a_payment(tmp_path: Path, key: str) -> None:
    service = SlowToConfirm("lags", MovedClock())
    try:
        desk = open_short_desk(service.base_url, tmp_path, key, WINDOW, clock=service.clock, **settings({}))
        for ids in paying.commit(desk, sheet_of(tmp_path), "fiat"):
            execution.send_orders(desk, "fiat", ids)
        assert {order.state.value for order in desk.ledger.orders()} == {"unknown"}
        service.clock.move(LIFE + MARGIN + 0.2)
        decisions = resolve_as_not_sent(desk, "fiat", **PERSON)
        assert {decision.done for decision in decisions} == {False}
        assert {order.state.value for order in desk.ledger.orders()} == {"settled"}
        desk.close()
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def sheet_of(folder: Path) -> Path:
    """The sheet of the rows, as `fiat_payout` writes it."""
    rows = [
        {"row_ref": f"row-{n}", **QUOTED, "pay_amount": str(100 + n), "account_no": german_iban(100 + n)}
        for n in range(ROWS)
    ]
    file = folder / "fiat.csv"
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.costly("two ledgers, and quotes that come to their end")
@pytest.mark.parametrize("first_answer", ["lost", "refused with 400"])
def test_an_older_ledger_finds_what_was_paid_under_a_later_quote(first_answer: str, tmp_path: Path, key: str) -> None:
    """The copy knows of a confirmation that did not act; since then another quote was paid."""
    service = SlowToConfirm("never, absent", MovedClock())
    service.refuses = first_answer != "lost"
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    try:
        desk = open_short_desk(service.base_url, home, key, WINDOW, clock=service.clock, **settings({}))
        for ids in paying.commit(desk, sheet_of(home), "fiat"):
            execution.send_orders(desk, "fiat", ids)
        assert {order.state.value for order in desk.ledger.orders()} == {"unknown"}
        desk.close()
        shutil.copytree(home, copy)
        service.clock.move(LIFE + MARGIN + 1.1)  # a service shows whole seconds
        if service.refuses:
            desk = open_short_desk(service.base_url, home, key, WINDOW, clock=service.clock, **settings({}))
            assert all(decision.done for decision in resolve_as_not_sent(desk, "fiat", **PERSON))
            desk.close()
        assert outcomes(service, home, key, 8.0) == {"settled"}
        assert outcomes(service, copy, key, 3.0) == {"held"}
        desk = open_short_desk(service.base_url, copy, key, WINDOW, clock=service.clock, **settings({}))
        assert all(decision.done for decision in resolve_as_sent(desk, "fiat", **PERSON))
        taken = {(order.state.value, order.receive_amount) for order in desk.ledger.orders()}
        assert taken == {("settled", Decimal(91))}
        desk.close()
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def test_what_acts_after_a_person_said_that_it_did_not_is_found_at_the_next_start(tmp_path: Path, key: str) -> None:
    service = SlowToConfirm("shows 11, then 12", MovedClock())
    service.shows_11_for = 3600.0
    try:
        desk = open_short_desk(service.base_url, tmp_path, key, WINDOW, clock=service.clock, **settings({}))
        for ids in paying.commit(desk, sheet_of(tmp_path), "fiat"):
            execution.send_orders(desk, "fiat", ids)
        for _ in range(20):  # a service shows whole seconds, and this machine may be busy
            service.clock.move(1.0)
            if all(decision.done for decision in resolve_as_not_sent(desk, "fiat", **PERSON)):  # wrongly
                break
        desk.close()
        service.shows_11_for = 0.0
        assert outcomes(service, tmp_path, key, 1.0) == {"held"}
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def test_a_row_that_is_held_under_one_quote_is_taken_over_under_the_one_that_was_paid(tmp_path: Path, key: str) -> None:
    service = SlowToConfirm("never, shown as 11", MovedClock())
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    try:
        desk = open_short_desk(service.base_url, home, key, WINDOW, clock=service.clock, **settings({}))
        [ids] = paying.commit(desk, sheet_of(home), "fiat")
        desk.close()
        shutil.copytree(home, copy)
        desk = open_short_desk(service.base_url, home, key, WINDOW, clock=service.clock, **settings({}))
        execution.send_orders(desk, "fiat", ids)
        service.clock.move(LIFE + MARGIN + 1.1)  # a service shows whole seconds
        assert all(decision.done for decision in resolve_as_not_sent(desk, "fiat", **PERSON))
        desk.close()
        assert outcomes(service, home, key, 8.0) == {"settled"}
        desk = open_short_desk(service.base_url, copy, key, WINDOW, clock=service.clock, **settings({}))
        for order in desk.ledger.orders():  # as a start does that asks under its own reference alone
            quoted = desk.submission.query(order)
            assert quoted is not None
            desk.submission.hold_known(order, order.generation, quoted, "asked before the run sends")
        refused = resolve_as_not_sent(desk, "fiat", **PERSON)
        assert {(decision.done, "under another quote" in decision.says) for decision in refused} == {(False, True)}
        assert all(decision.done for decision in resolve_as_sent(desk, "fiat", **PERSON))
        assert {order.state.value for order in desk.ledger.orders()} == {"settled"}
        desk.close()
        assert service.paid() == [1] * ROWS
    finally:
        service.close()


def test_a_row_that_a_person_said_was_sent_ends_with_the_quote_that_was_paid(tmp_path: Path, key: str) -> None:
    """In progress on a person's word; the service shows it paid under a later quote, which an older ledger misses."""
    service = SlowToConfirm("never, absent", MovedClock())
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    try:
        desk = open_short_desk(service.base_url, home, key, WINDOW, clock=service.clock, **settings({}))
        for ids in paying.commit(desk, sheet_of(home), "fiat"):
            execution.send_orders(desk, "fiat", ids)
        for order in desk.ledger.orders():
            desk.ledger.step(order, Event.RESOLVE_SENT, cause="Ada Example: on the telephone", reason=None)
        desk.close()
        shutil.copytree(home, copy)
        service.clock.move(LIFE + MARGIN + 1.1)  # a service shows whole seconds
        desk = open_short_desk(service.base_url, home, key, WINDOW, clock=service.clock, **settings({}))
        assert all(decision.done for decision in resolve_as_not_sent(desk, "fiat", **PERSON))
        desk.close()
        assert outcomes(service, home, key, 8.0) == {"settled"}
        desk = open_short_desk(service.base_url, copy, key, WINDOW, clock=service.clock, **settings({}))
        said = resolve_as_not_sent(desk, "fiat", **PERSON)
        assert {(decision.done, decision.says) for decision in said} == {
            (False, "the service shows it: settled; it is not sent again")
        }
        taken = {(order.state.value, order.receive_amount) for order in desk.ledger.orders()}
        assert taken == {("settled", Decimal(91))}
        desk.close()
        assert service.paid() == [1] * ROWS
    finally:
        service.close()
