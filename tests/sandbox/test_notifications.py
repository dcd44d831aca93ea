"""Notifications: signed, delivered on loopback only, tried again on the sandbox's clock."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.listening import Answer, Listening
from tests.sandbox.builders import START, client_of, eventually, payout, settings, withdraw
from treasury.errors import NotTrusted
from treasury.provider.card_users import CreateCardUserWithKycLink
from treasury.provider.client import Client
from treasury.provider.signing import load_public_key, read_notification
from treasury.sandbox import Behaviour, RunningSandbox, SandboxClock, running_sandbox
from treasury.sandbox.notices import is_loopback


class Receiver:
    """A server that keeps what it is sent and answers `status`."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.status = 200
        self.listening = Listening(self._reply)
        self.url = f"{self.listening.base_url}/hook"

    def _reply(self, _: str, body: bytes) -> Answer:
        self.bodies.append(body)
        return self.status, b"", {}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that listens while the test runs."""
    receiver = Receiver()
    yield receiver
    receiver.listening.close()


def notifications(sandbox: RunningSandbox) -> list[dict[str, Any]]:
    """Return what the sandbox says of its notifications."""
    shown: list[dict[str, Any]] = httpx.get(f"{sandbox.base_url}/sandbox/notifications").json()
    return shown


def test_each_change_of_status_is_notified_and_signed(
    sandbox: RunningSandbox, teller: Client, receiver: Receiver
) -> None:
    order = teller.send(payout("n-1", notify_url=receiver.url))
    sandbox.advance(1)
    eventually(lambda: len(receiver.bodies) == 1)
    sandbox.advance(2)
    eventually(lambda: len(receiver.bodies) == 2)
    pem = httpx.get(f"{sandbox.base_url}/sandbox/platform-key").text
    assert pem == sandbox.platform_key
    key = load_public_key(pem)
    first, last = (read_notification(body, key) for body in receiver.bodies)
    assert [first["status"], last["status"]] == [22, 99]
    assert (last["request_id"], last["order_no"], last["order_type"]) == ("n-1", order.order_no, "payout")
    assert (last["order_amount"], last["fee_amount"], last["actual_amount"]) == ("50", "0.5", "49.5")
    assert last["finish_time"] == "1790000003000"
    with pytest.raises(NotTrusted):
        read_notification(receiver.bodies[0].replace(b"n-1", b"n-2"), key)


def test_attempts_follow_the_plan_until_http_200(sandbox: RunningSandbox, teller: Client, receiver: Receiver) -> None:
    receiver.status = 503
    teller.send(withdraw("n-1", notify_url=receiver.url))
    sandbox.advance(3)
    eventually(lambda: len(receiver.bodies) == 1)
    for minutes, count in ((1.9, 1), (0.1, 2), (2, 3), (4, 4)):
        sandbox.advance(minutes * 60)
        eventually(lambda count=count: len(notifications(sandbox)[0]["attempts"]) == count)  # type: ignore[misc]
    receiver.status = 200
    sandbox.advance(8 * 60)
    eventually(lambda: notifications(sandbox)[0]["state"] == "delivered")
    assert notifications(sandbox)[0]["attempts"] == ["HTTP 503"] * 4 + ["HTTP 200"]


def test_after_seven_attempts_it_gives_up(sandbox: RunningSandbox, teller: Client) -> None:
    teller.send(withdraw("n-1", notify_url="http://127.0.0.1:1/nobody"))
    sandbox.advance(65 * 60)
    eventually(lambda: notifications(sandbox)[0]["state"] == "given up")
    assert notifications(sandbox)[0]["attempts"] == ["ConnectError"] * 7


@pytest.mark.parametrize("told", [False, True])
def test_the_end_of_an_identity_check_is_told_where_the_service_does_so(receiver: Receiver, told: bool) -> None:
    """Also under the signature: its `data` is nested."""
    how = settings(notify_url=receiver.url, behaviour=Behaviour(kyc_notified=told))
    with running_sandbox(how, SandboxClock(start=START)) as sandbox, client_of(sandbox) as client:
        made = client.send(CreateCardUserWithKycLink(user_xid="u-1", email="a@example.com"))
        assert httpx.post(f"{made.link}/approve", follow_redirects=True).is_success
        if told:
            eventually(lambda: len(receiver.bodies) == 1)
            said = read_notification(receiver.bodies[0], load_public_key(sandbox.platform_key))
            assert said["data"] == {"userId": int(made.user_id or ""), "kycStatus": "3", "kycLevel": "1"}
        assert len(notifications(sandbox)) == told


@pytest.mark.parametrize(
    ("fault", "statuses", "states", "distrusted"),
    [
        ("none", [22, 99], ["delivered"] * 2, 0),
        ("notice_lost", [], ["lost"] * 2, 0),
        ("notice_repeated", [22, 22, 99, 99], ["delivered"] * 2, 0),
        ("notice_reordered", [99, 22], ["delivered"] * 2, 0),
        ("notice_forged", [22, 99], ["delivered"] * 4, 2),
    ],
)
def test_notifications_are_lost_repeated_reordered_and_forged_on_purpose(
    receiver: Receiver, fault: str, statuses: list[int], states: list[str], distrusted: int
) -> None:
    heard, wrong = [], 0
    how = settings(settle_seconds=3, faults={} if fault == "none" else {fault: 1.0})
    with running_sandbox(how, SandboxClock(start=START)) as sandbox, client_of(sandbox) as client:
        client.send(payout("n-1", notify_url=receiver.url))
        for seconds in (1, 2, 60):
            sandbox.advance(seconds)
            eventually(lambda: not [each for each in notifications(sandbox) if is_due(each, sandbox)])
        assert [each["state"] for each in notifications(sandbox)] == states
        key = load_public_key(sandbox.platform_key)
    for body in receiver.bodies:
        try:
            heard.append(read_notification(body, key)["status"])
        except NotTrusted:
            wrong += 1
    assert (heard, wrong) == (statuses, distrusted)


def is_due(notice: dict[str, Any], sandbox: RunningSandbox) -> bool:
    return notice["due_at"] is not None and notice["due_at"] <= sandbox.clock.now()


def test_a_forged_notification_that_is_refused_is_not_sent_again(receiver: Receiver) -> None:
    receiver.status = 401
    how = settings(faults={"notice_forged": 1.0})
    with running_sandbox(how, SandboxClock(start=START)) as sandbox, client_of(sandbox) as client:
        client.send(withdraw("n-1", notify_url=receiver.url))
        sandbox.advance(3)
        eventually(lambda: [each["state"] for each in notifications(sandbox)] == ["given up", "waiting"])


def test_nothing_is_sent_off_the_machine(sandbox: RunningSandbox, teller: Client) -> None:
    teller.send(withdraw("n-1", notify_url="http://203.0.113.7/hook"))
    sandbox.advance(3)
    assert [(notice["state"], notice["attempts"]) for notice in notifications(sandbox)] == [("undeliverable", [])]


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:9/x", True),
        ("http://localhost/x", True),
        ("http://[::1]:9/x", True),
        ("http://127.0.0.1.example.com/x", False),
        ("http://10.0.0.1/x", False),
        ("http://example.com@203.0.113.7/x", False),
        ("https://127.0.0.1/x", False),
        ("file:///etc/passwd", False),
        ("http://[::1", False),
    ],
)
def test_only_plain_http_on_loopback_counts(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback
