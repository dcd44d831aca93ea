"""No absence counts while the service does not show what it showed before either."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.listening import Answer, Listening
from treasury.call.calls import run_key_of_call, submit_operation
from treasury.clock import Clock
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.provider.orders import Withdraw
from treasury.sending.witnesses import Witnesses

OpenDesk = Callable[..., Desk]


class Forgetful:
    """Takes withdrawals, but for those that it never reads; while it forgets, its query finds nothing."""

    def __init__(self, clock: Clock) -> None:
        self.forgets = False
        self.never_reads: set[str] = set()
        self.taken: list[str] = []
        self.asked: list[str] = []
        self.listening = Listening(self._reply, clock)

    def _reply(self, path: str, content: bytes) -> Answer:
        body = json.loads(content)
        reference = body["request_id"]
        if path.endswith("withdraw"):
            if reference in self.never_reads:
                return None
            self.taken.append(reference)
        else:
            self.asked.append(reference)
            if self.forgets or reference not in self.taken:
                return 200, b'{"code": 7000, "message": "ORDER_NOT_EXIST"}', {}
        data = {"order_no": f"N-{reference}", "request_id": reference, "status": 22}
        return 200, json.dumps({"code": 200, "data": data}).encode(), {}


@pytest.fixture
def service(clock: Clock) -> Iterator[Forgetful]:
    forgetful = Forgetful(clock)
    yield forgetful
    forgetful.listening.close()


def withdrawal(reference: str) -> Withdraw:
    return Withdraw(
        request_id=reference, currency="USDT_TRC20", address=f"TXYZ{reference}", amount="5", customer_ref_id="c"
    )


def start_again(desk: Desk, reference: str) -> Any:
    run_key = run_key_of_call(withdrawal(reference))
    with desk.hold(run_key):
        execution.send_orders(desk, run_key, execution.open_orders(desk, run_key))
    return desk.ledger.orders(run_key=run_key)[0]


def test_an_absence_counts_only_while_a_known_order_is_shown(
    open_desk: OpenDesk, service: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treasury.sending.witnesses.BELIEVED_SECONDS", 0.0)  # each start is a sweep of its own
    desk = open_desk(service.listening.base_url, resend_after=0.0)
    assert submit_operation(desk, withdrawal("known")).state.outcome == "in_progress"
    service.never_reads.add("lost")
    service.forgets = True
    assert submit_operation(desk, withdrawal("lost")).state.outcome == "unknown"
    service.never_reads.clear()
    for _ in range(4):
        order = start_again(desk, "lost")
        assert (order.state.outcome, order.absent_since) == ("unknown", None)
    assert "does not show known either, which it showed before" in str(order.reason)
    assert service.taken == ["known"]
    service.forgets = False
    assert start_again(desk, "lost").absent_since is not None
    order = start_again(desk, "lost")
    assert (order.state.outcome, order.sends, service.taken) == ("in_progress", 2, ["known", "lost"])


def test_without_a_known_order_an_absence_counts(open_desk: OpenDesk, service: Forgetful) -> None:
    desk = open_desk(service.listening.base_url, resend_after=0.0)
    service.never_reads.add("lost")
    submit_operation(desk, withdrawal("lost"))
    service.never_reads.clear()
    start_again(desk, "lost")
    assert start_again(desk, "lost").state.outcome == "in_progress"


def test_the_witnesses_are_asked_once_a_minute(open_desk: OpenDesk, service: Forgetful) -> None:
    desk = open_desk(service.listening.base_url, resend_after=0.0)
    submit_operation(desk, withdrawal("known"))
    asked: list[str] = []
    witnesses = Witnesses(desk.ledger, lambda order: asked.append(order.request_id) is None)
    assert {witnesses.doubt("withdraw") for _ in range(50)} == {None}
    assert asked == ["known"]
    assert witnesses.doubt("conversion_execute") is None  # no absence of one is evidence
    lost: list[str] = []
    witnesses = Witnesses(desk.ledger, lambda order: lost.append(order.request_id) is not None)
    assert all("does not show known either" in str(witnesses.doubt("withdraw")) for _ in range(50))
    assert lost == ["known"]
    witnesses.forget()
    witnesses.doubt("withdraw")
    assert lost == ["known"] * 2
