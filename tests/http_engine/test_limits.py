"""The contract of the HTTP engine, continued: how much of an answer is taken, and for how long."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.http_engine.servers import ANSWER, HEAD, Conversation, RawServer, reset
from treasury.provider.engine import NOT_WHOLE, TOO_LATE, Engine, EngineLimits, HttpAnswer, NoResponse
from treasury.provider.httpx_engine import Httpx
from treasury.provider.pyreqwest_engine import Reqwest

ENGINES: dict[str, Callable[..., Engine]] = {"httpx": Httpx, "reqwest": Reqwest}
LIMITS = EngineLimits(max_bytes=10_000, exchange_seconds=0.8)
PEAK_MB = 300


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    opened = ENGINES[request.param](4, 5.0, LIMITS)
    yield opened
    opened.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Conversation, int], None]], RawServer]]:
    with ExitStack() as running:

        def start(script: Callable[[Conversation, int], None]) -> RawServer:
            server = RawServer(script)
            running.callback(server.close)
            return server

        yield start


def drip(one: Conversation, content: bytes, seconds: float = 0.1) -> None:
    """One byte after the other, until the other end has enough."""
    for place in range(len(content)):
        one.connection.sendall(content[place : place + 1])
        time.sleep(seconds)


def _announced(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 300000000\r\n\r\n", b"{")
    time.sleep(0.2)


def _one_too_many(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n", b" " * 10_001)


def _without_length(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b" " * 200_000)


def _endless_chunks(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"")
    while True:
        one.connection.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")


def _body_byte_by_byte(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"")
    drip(one, b" " * 5_000)


def _head_byte_by_byte(one: Conversation, _: int) -> None:
    one.read()
    drip(one, b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 5_000)


def _hints_without_end(one: Conversation, _: int) -> None:
    one.read()
    while True:
        one.connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        time.sleep(0.01)


def _one_huge_header(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 20_000_000 + b"\r\nContent-Length: 2\r\n\r\n", b"{}")


def _a_header_without_end(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"HTTP/1.1 200 OK\r\n", b"")
    while True:
        one.connection.sendall(b"X-Many: " + b"x" * 1000 + b"\r\n")


BEYOND = [
    _announced,
    _one_too_many,
    _without_length,
    _endless_chunks,
    _body_byte_by_byte,
    _head_byte_by_byte,
    _hints_without_end,
    _one_huge_header,
    _a_header_without_end,
]


@pytest.mark.parametrize("script", BEYOND, ids=lambda script: script.__name__.strip("_"))
def test_an_answer_beyond_the_limits_is_lost_in_time_and_its_connection_dropped(
    engine: Engine, serve: Callable[..., RawServer], script: Callable[[Conversation, int], None]
) -> None:
    server = serve(lambda one, number: script(one, number) if number == 0 else (one.read(), one.answer()))
    began = time.monotonic()
    with pytest.raises(NoResponse):
        engine.post(server.base_url, b"{}")
    assert time.monotonic() - began < 3 * LIMITS.exchange_seconds
    assert _post_anew(engine, server.base_url).body == ANSWER
    assert server.connections == 2


def _silent(one: Conversation, _: int) -> None:
    one.read()
    time.sleep(2 * LIMITS.exchange_seconds)


def _closed_without_a_word(one: Conversation, _: int) -> None:
    one.read()


def _reset_halfway(one: Conversation, _: int) -> None:
    one.read()
    one.answer(body=b"{")
    reset(one.connection)


def _no_http(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"220 mail.example.com ESMTP\r\n\r\n")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (_silent, TOO_LATE),
        (_body_byte_by_byte, TOO_LATE),
        (_closed_without_a_word, NOT_WHOLE),
        (_reset_halfway, NOT_WHOLE),
        (_no_http, NOT_WHOLE),
    ],
    ids=lambda value: getattr(value, "__name__", "").strip("_"),
)
def test_why_there_is_no_answer_is_said_in_words(
    engine: Engine, serve: Callable[..., RawServer], script: Callable[[Conversation, int], None], said: str
) -> None:
    """A library's names of its errors ("RemoteProtocolError") stood in the reasons of rows."""
    with pytest.raises(NoResponse) as raised:
        engine.post(serve(script).base_url, b"{}")
    assert str(raised.value) == said


def _post_anew(engine: Engine, url: str) -> HttpAnswer:
    """Send a request after the server closed a connection whose whole answer had come: the engine may have kept it,
    and learn only by this request that it is closed."""
    try:
        return engine.post(url, b"{}")
    except NoResponse:
        return engine.post(url, b"{}")


def test_an_answer_of_just_so_many_bytes_is_taken_and_its_connection_kept(
    engine: Engine, serve: Callable[..., RawServer]
) -> None:
    def script(one: Conversation, _: int) -> None:
        for _ in range(2):
            one.read()
            one.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", b" " * 10_000)

    server = serve(script)
    assert [len(engine.post(server.base_url, b"{}").body) for _ in range(2)] == [10_000, 10_000]
    assert server.connections == 1


@pytest.mark.parametrize(
    "header",
    [
        b"Retry-After: " + b"9" * 5000,
        b"Retry-After: \xff\xfe",
        b"Date: \xe9t\xe9",
        b"X-Odd: \xff\x80",
        b"Content-Encoding: gzip",
        b"\r\n".join(b"X-%d: %d" % (number, number) for number in range(60)),
    ],
    ids=lambda header: header[:14].decode("latin-1").encode("ascii", "replace").decode(),
)
def test_odd_headers_do_not_keep_an_answer_from_being_read(
    engine: Engine, serve: Callable[..., RawServer], header: bytes
) -> None:
    server = serve(lambda one, _: (one.read(), one.answer(HEAD[:-2] + header + b"\r\n\r\n")))
    answer = engine.post(server.base_url, b"{}")
    assert (answer.status, answer.body) == (200, ANSWER)
    assert "retry-after" not in answer.headers or answer.headers["retry-after"].isascii()


def test_an_answer_is_not_asked_for_packed(engine: Engine, serve: Callable[..., RawServer]) -> None:
    server = serve(lambda one, _: (one.read(), one.answer()))
    engine.post(server.base_url, b"{}")
    assert b"gzip" not in server.seen.lower()


PROBE = """
import re, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from treasury.provider.engine import EngineLimits, NoResponse
from treasury.provider.httpx_engine import Httpx
from treasury.provider.pyreqwest_engine import Reqwest
engine = {engine}(4, 20.0, EngineLimits())
for _ in range(3):
    try:
        engine.post({url!r}, b"{{}}")
    except NoResponse as lost:
        assert "1,000,000 bytes" in str(lost), lost
    else:
        raise AssertionError("taken")
engine.close()
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(int(peak[1]) // 1024)
"""


@pytest.mark.parametrize("name", ["Httpx", "Reqwest"])
def test_an_answer_of_300_mb_takes_little_memory(name: str, serve: Callable[..., RawServer]) -> None:
    piece = b"x" * 1_000_000

    def script(one: Conversation, _: int) -> None:
        one.read()
        one.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"")
        for _ in range(300):
            one.connection.sendall(b"f4240\r\n" + piece + b"\r\n")

    program = PROBE.format(root=sys.path[0], engine=name, url=serve(script).base_url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < PEAK_MB / 2
