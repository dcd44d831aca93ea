"""The contract of the HTTP engine: one transmission, whatever happens; and "never connected" is told apart from "lost".

An engine that replays a request on a stale connection, follows a 307 or calls a reset "could not connect" pays twice.
Every engine that is offered passes this file: see ENGINES.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.http_engine.servers import ANSWER, HEAD, Conversation, ForwardingProxy, RawServer, reset
from treasury.errors import NotConnected, OutcomeUnknown, Refused, TreasuryError
from treasury.provider import client as client_module
from treasury.provider import httpx_engine, pyreqwest_engine
from treasury.provider.client import Account, Client
from treasury.provider.engine import LIMITS, Engine, EngineLimits, NoResponse
from treasury.provider.httpx_engine import Httpx
from treasury.provider.orders import Withdraw
from treasury.provider.pyreqwest_engine import Reqwest
from treasury.sandbox import generate_key_pair

MARK = b"only-once-4711"
OPERATION = Withdraw(
    request_id=MARK.decode(), currency="USDT_TRC20", address="TXYZ1111", amount="100", customer_ref_id="c-1"
)


Script = Callable[[Conversation, int], object]
Serve = Callable[[Script], RawServer]
ENGINES: dict[str, Callable[..., Engine]] = {"httpx": Httpx, "reqwest": Reqwest}


@pytest.fixture(scope="module")
def private_key() -> str:
    return generate_key_pair()[0]


@pytest.fixture(params=list(ENGINES))
def open_client(
    request: pytest.FixtureRequest, private_key: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Client]]:
    """Opens a client over the engine in question."""
    with ExitStack() as opened:

        def open_one(
            base_url: str, proxy: str | None = None, timeout_seconds: float = 0.7, limits: EngineLimits = LIMITS
        ) -> Client:
            engine = ENGINES[request.param]
            monkeypatch.setattr(client_module, "open_engine", lambda *given, **_: engine(*given, proxy))
            account = Account(base_url, "900001", private_key)
            return opened.enter_context(Client(account, connections=4, timeout_seconds=timeout_seconds, limits=limits))

        yield open_one


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:

        def start(script: Script) -> RawServer:
            server = RawServer(script)
            running.callback(server.close)
            return server

        yield start


def outcome(client: Client) -> type[Exception] | None:
    """How the caller is told that it went."""
    try:
        client.send(OPERATION)
    except TreasuryError as error:
        return type(error)
    return None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


# --- never connected -------------------------------------------------------------------------------------------------


def test_a_refused_connection_is_never_connected(open_client: Callable[..., Client]) -> None:
    assert outcome(open_client(f"http://127.0.0.1:{free_port()}")) is NotConnected


def test_a_name_that_does_not_resolve_is_never_connected(open_client: Callable[..., Client]) -> None:
    assert outcome(open_client("https://does-not-exist.invalid")) is NotConnected


def test_a_server_that_speaks_no_tls_is_never_connected(open_client: Callable[..., Client], serve: Serve) -> None:
    def script(one: Conversation, _: int) -> None:
        one.connection.recv(65536)
        one.connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = serve(script)
    assert outcome(open_client(f"https://127.0.0.1:{server.port}", timeout_seconds=5)) is NotConnected
    assert server.transmissions(MARK) == 0


# --- connected, then lost --------------------------------------------------------------------------------------------


def _after_accept(one: Conversation, _: int) -> None:
    time.sleep(0.05)
    reset(one.connection)


def _after_head(one: Conversation, _: int) -> None:
    one.read_head()
    reset(one.connection)


def _after_body(one: Conversation, _: int) -> None:
    one.read()
    reset(one.connection)


def _closed_after_body(one: Conversation, _: int) -> None:
    one.read()


def _half_head(one: Conversation, _: int) -> None:
    one.read()
    one.answer(HEAD[:30], b"")
    time.sleep(0.05)
    reset(one.connection)


def _half_body(one: Conversation, _: int) -> None:
    one.read()
    one.answer(HEAD, ANSWER[: len(ANSWER) // 2])
    time.sleep(0.05)
    reset(one.connection)


def _short_body(one: Conversation, _: int) -> None:
    one.read()
    one.answer(HEAD, ANSWER[:-1])


def _rubbish(one: Conversation, _: int) -> None:
    one.read()
    one.answer(b"\x16\x03\x01 this is no HTTP\r\n\r\n", b"")


def _silence(one: Conversation, _: int) -> None:
    one.read()
    time.sleep(1.2)


LOST = {
    "reset after the connection was accepted": _after_accept,
    "reset after the head was read": _after_head,
    "reset after the body was read": _after_body,
    "closed after the body was read": _closed_after_body,
    "reset after half the answer's head": _half_head,
    "reset after half the answer's body": _half_body,
    "closed one byte before the end": _short_body,
    "an answer that is no HTTP": _rubbish,
    "no answer in time": _silence,
}


@pytest.mark.parametrize("script", LOST.values(), ids=LOST)
def test_what_was_connected_and_lost_is_unknown_and_left_once(
    open_client: Callable[..., Client], serve: Serve, script: Callable[[Conversation, int], None]
) -> None:
    server = serve(script)
    assert outcome(open_client(server.base_url)) is OutcomeUnknown
    assert server.transmissions(MARK) <= 1
    assert server.connections == 1


# --- redirects -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(open_client: Callable[..., Client], serve: Serve, status: int) -> None:
    target = serve(lambda one, _: (one.read(), one.answer()))

    def script(one: Conversation, _: int) -> None:
        one.read()
        one.answer(
            f"HTTP/1.1 {status} Elsewhere\r\nLocation: {target.base_url}/\r\nContent-Length: 0\r\n\r\n".encode(), b""
        )

    server = serve(script)
    assert outcome(open_client(server.base_url)) in (OutcomeUnknown, Refused)
    assert (server.transmissions(MARK), target.connections) == (1, 0)


# --- connections that went stale -------------------------------------------------------------------------------------


def test_a_connection_that_was_closed_while_idle_is_not_used(open_client: Callable[..., Client], serve: Serve) -> None:
    def script(one: Conversation, _: int) -> None:
        one.read()
        one.answer()

    server = serve(script)
    client = open_client(server.base_url)
    assert outcome(client) is None
    time.sleep(0.1)
    assert outcome(client) is None
    assert (server.transmissions(MARK), server.connections) == (2, 2)


@pytest.mark.parametrize("end", [reset, socket.socket.close], ids=["reset", "closed"])
@pytest.mark.parametrize("stage", ["head", "body"])
def test_a_kept_connection_that_ends_as_the_next_request_arrives_is_unknown(
    open_client: Callable[..., Client], serve: Serve, stage: str, end: Callable[[socket.socket], None]
) -> None:
    """Here an engine is tempted: the connection was stale, so it "may" send again. It may not."""

    def script(one: Conversation, number: int) -> None:
        one.read()
        one.answer()
        if number == 0:
            head = one.read_head()
            if stage == "body":
                one.read_body(head)
            end(one.connection)

    server = serve(script)
    client = open_client(server.base_url)
    assert outcome(client) is None
    assert outcome(client) is OutcomeUnknown
    assert server.connections == 1
    assert server.transmissions(MARK) <= 2


def test_a_race_between_an_idle_close_and_the_next_request_never_sends_twice(
    open_client: Callable[..., Client], serve: Serve
) -> None:
    """The server closes an idle connection at about the instant the next request leaves, many times over."""

    def script(one: Conversation, _: int) -> None:
        one.read()
        one.answer()
        time.sleep(0.003)

    server = serve(script)
    client = open_client(server.base_url)
    ended = []
    for n in range(60):
        ended.append(outcome(client))
        time.sleep(0.002 + (n % 10) * 0.0003)
    assert set(ended) <= {None, OutcomeUnknown}
    answered = ended.count(None)
    assert answered <= server.transmissions(MARK) <= len(ended)


# --- proxies ---------------------------------------------------------------------------------------------------------


def test_a_request_through_a_proxy_leaves_once(open_client: Callable[..., Client], serve: Serve) -> None:
    server = serve(lambda one, _: (one.read(), one.answer()))
    proxy = ForwardingProxy()
    assert outcome(open_client(server.base_url, proxy=proxy.base_url)) is None
    assert (server.transmissions(MARK), proxy.forwarded) == (1, 1)
    proxy.close()


def test_a_proxy_that_is_down_is_never_connected(open_client: Callable[..., Client], serve: Serve) -> None:
    server = serve(lambda one, _: (one.read(), one.answer()))
    assert outcome(open_client(server.base_url, proxy=f"http://127.0.0.1:{free_port()}")) is NotConnected
    assert server.connections == 0


def test_a_proxy_that_loses_the_request_leaves_it_unknown(open_client: Callable[..., Client], serve: Serve) -> None:
    server = serve(lambda one, _: (one.read(), one.answer()))
    proxy = serve(_after_body)
    assert outcome(open_client(server.base_url, proxy=proxy.base_url)) is OutcomeUnknown
    assert (proxy.transmissions(MARK), server.connections) == (1, 0)


def test_a_proxy_of_the_environment_is_not_used_by_surprise(
    private_key: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is told its proxy; one that happens to stand in the environment does not see payments."""
    server = serve(lambda one, _: (one.read(), one.answer()))
    proxy = ForwardingProxy()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.base_url)
    with Client(Account(server.base_url, "900001", private_key), timeout_seconds=2) as client:
        assert outcome(client) is None
    assert (server.transmissions(MARK), proxy.forwarded) == (1, 0)
    proxy.close()


# --- many at once ----------------------------------------------------------------------------------------------------


def test_many_threads_over_few_connections_send_each_request_once(
    open_client: Callable[..., Client], serve: Serve
) -> None:
    def script(one: Conversation, _: int) -> None:
        for _ in range(5):
            body = one.read()
            if not body:
                return
            one.answer()

    server = serve(script)
    client = open_client(server.base_url, timeout_seconds=10)
    told: list[type[Exception] | None] = []
    threads = [threading.Thread(target=lambda: told.extend(outcome(client) for _ in range(10))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 80
    assert told.count(None) <= server.transmissions(MARK) <= 80
    assert json.loads(ANSWER)["code"] == 200


# --- how an engine may be wrong about "never connected" --------------------------------------------------------------


def test_a_connection_that_is_not_taken_in_time_is_never_connected(
    open_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (httpx_engine, pyreqwest_engine):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 0.4)
    with socket.socket() as listener, ExitStack() as taken:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):  # the queue is full: what comes now waits for ever
            waiting = taken.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        assert outcome(open_client(f"http://127.0.0.1:{address[1]}", timeout_seconds=5)) is NotConnected


@pytest.mark.parametrize("words", ["client error (SendRequest)", "client error (connect)", "Connect", ""])
def test_other_words_than_the_one_kind_of_error_are_lost(words: str) -> None:
    """A later pyreqwest may say it otherwise: then nothing is sent again blindly."""
    from pyreqwest.exceptions import ConnectError

    def fails() -> None:
        raise ConnectError("error sending request", {"causes": [{"message": words}] if words else None})

    class Request:
        def build_streamed(self) -> "Request":
            return self

        async def __aenter__(self) -> None:
            fails()

        async def __aexit__(self, *_: object) -> None:
            pass

    engine = Reqwest(1, 1.0)
    with pytest.raises(NoResponse):
        engine._send(Request)
    engine.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server that speaks TLS and answers once; its address, and the authority that vouches for it."""
    authority, own = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                while (data := connection.recv(65536)) and not data.endswith(b"}"):
                    pass  # closing before all of it was read would reset the connection
                connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{"code":"200"}')

        threading.Thread(target=take, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", authority


def test_a_certificate_that_nobody_vouches_for_is_never_connected(
    open_client: Callable[..., Client], secure: tuple[str, Path]
) -> None:
    assert outcome(open_client(secure[0], timeout_seconds=3)) is NotConnected


def test_an_authority_in_ssl_cert_file_vouches_for_a_service(
    open_client: Callable[..., Client], secure: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, authority = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert open_client(url, timeout_seconds=3).send(OPERATION).envelope == {"code": "200"}


def certificates(folder: Path) -> tuple[Path, Path]:
    """An authority's certificate, and a key with a certificate for 127.0.0.1 that it signed."""

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key: rsa.RSAPrivateKey, *extensions: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        built = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name("Example Authority"))
        built = built.public_key(key.public_key()).serial_number(x509.random_serial_number())
        built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        built = built.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
        built = built.add_extension(issuer, critical=False)  # Python 3.13 refuses a certificate without it
        for extension in extensions:
            is_critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            built = built.add_extension(extension, critical=is_critical)
        signed = built.sign(authority, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)

    authority, own = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    text = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    files = folder / "authority.pem", folder / "server.pem"
    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    uses = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*uses, "encipher_only", "decipher_only"), False)
    signs = x509.KeyUsage(key_cert_sign=True, crl_sign=False, **never)
    files[0].write_bytes(certificate("Example Authority", authority, is_authority, signs))
    files[1].write_bytes(text + certificate("127.0.0.1", own, here))
    return files
