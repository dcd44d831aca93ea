"""A service that answers a byte at a time holds neither a payout nor an interruption for longer than an exchange."""

import signal
import threading
import time
from collections.abc import Callable

import pytest

from tests.commands.office import Office
from tests.http_engine.servers import Conversation, RawServer

FIELDS = (
    '{"request_id": "r-1", "payout_method": "bank_transfer", "account_no": "12345670001998", '
    '"account_name": "Erika Mustermann", "country": "ID", "bank_code": "1", "settle_currency": "IDR", '
    '"amount": "5", "currency": "USDT", "phone": "081200004711", "email": "p@example.com"}'
)
NOT_KNOWN = b'{"code":7000,"message":"ORDER_NOT_EXIST"}'
SECONDS = 1.5


SENT = b"POST /v1/order/payout "


def drip() -> Callable[[Conversation, int], None]:
    """A service that knows no order until it was sent one; then every answer comes a byte at a time, for ever."""
    was_sent = threading.Event()

    def play(one: Conversation, _: int) -> None:
        while head := one.read_head():
            if head.startswith(b"GET"):
                one.answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"")
                continue
            one.read_body(head)
            if head.startswith(SENT):
                was_sent.set()
            if was_sent.is_set():
                break
            one.answer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(NOT_KNOWN), NOT_KNOWN)
        one.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"")
        while True:
            one.connection.sendall(b" ")
            time.sleep(0.1)

    return play


def test_a_payout_that_is_answered_byte_by_byte_is_unknown(open_office: Callable[..., Office]) -> None:
    server = RawServer(drip())
    office = open_office(server.base_url, prefect=False, TREASURY_EXCHANGE_SECONDS=str(SECONDS))
    began = time.monotonic()
    with office.start("call", "payout", "--json", FIELDS, "--yes") as process:
        out, err = process.communicate(timeout=60)
    server.close()
    assert process.returncode == 4, err
    assert out.strip().splitlines()[-1] == "unknown: r-1"
    assert time.monotonic() - began < 30
    assert server.seen.count(SENT) == 1
    assert server.seen.count(b'"request_id":"r-1"') == 3  # the payout, and a question before it and after it


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_waits_no_longer_than_an_exchange(
    open_office: Callable[..., Office], ends: signal.Signals
) -> None:
    """Ctrl-C, a system that stops a service or a container, and a terminal that is closed."""
    server = RawServer(drip())
    office = open_office(server.base_url, prefect=False, TREASURY_EXCHANGE_SECONDS=str(SECONDS))
    with office.start("call", "payout", "--json", FIELDS, "--yes") as process:
        while SENT not in server.seen:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(ends)
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
    server.close()
    assert process.returncode == 1
    assert "nothing is lost" in err
    assert time.monotonic() - began < SECONDS + 4


def test_limits_that_make_no_sense_are_told(open_office: Callable[..., Office]) -> None:
    office = open_office("http://127.0.0.1:9", prefect=False)
    for name, value in (
        ("TREASURY_MAX_REPLY_BYTES", "12"),
        ("TREASURY_MAX_REPLY_BYTES", "1e6"),
        ("TREASURY_EXCHANGE_SECONDS", "0"),
        ("TREASURY_EXCHANGE_SECONDS", "nan"),
        ("TREASURY_EXCHANGE_SECONDS", "99999"),
    ):
        ended = office.run("runs", **{name: value})
        assert ended.code == 2
        assert name in ended.err
