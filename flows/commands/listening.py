"""`treasury listen`."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx

from flows.commands.common import DONE, configured_desk
from flows.commands.metrics import serving_metrics
from treasury.errors import ConfigurationError, InputError, TreasuryError
from treasury.payments.desk import Desk
from treasury.settings import read_key_file

if TYPE_CHECKING:
    from uvicorn import Server

PORT = 4280
"""The port that `treasury listen` takes without `--port`, unless TREASURY_NOTIFY_URL is an address of this machine."""

LOOK_SECONDS = 30.0
"""Notifications that could not be taken up are tried again after so long."""


def listen(*, port: int | None = None, host: str = "127.0.0.1", metrics: str | None = None) -> int:
    """Receive the platform's notifications until Ctrl-C, and ask the service about what each names.

    A notification sets no state: the service's answer to a signed question does. The platform sends again what was not
    answered with 200, and a notification is answered only once it is on disk.

    Parameters
    ----------
    port:
        The port; 0 takes a free one. Left out: that of TREASURY_NOTIFY_URL where it is an address of this machine,
        else 4280.
    host:
        The address to listen on. On another than 127.0.0.1, a proxy that does TLS belongs before it.
    metrics:
        A port for Prometheus (`/metrics`), or HOST:PORT; 0 takes a free one. Left out: no metrics.

    """
    desk = configured_desk()
    measured = serving_metrics(metrics, lambda: desk)
    chosen = _own_port(desk.settings.notify_url) if port is None else port
    with receiving(desk) as (server, counts), measured, listening_at(host, chosen) as door:
        print(f"listening on http://{host}:{door.getsockname()[1]}; Ctrl-C ends it", flush=True)
        # uvicorn shuts down in order, restores this handler and raises the signal again.
        for ends in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ends) is not signal.SIG_IGN:  # `nohup` ignores one
                signal.signal(ends, lambda *_: signal.raise_signal(signal.SIGINT))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[door])
    if desk.ledger.is_lost:
        raise ConfigurationError("the ledger was lost, or another one is in its place: start `treasury listen` again")
    print(", ".join(f"{counts().get(each, 0)} {each}" for each in ("kept", "repeated", "refused")))
    return DONE


@contextmanager
def receiving(desk: Desk) -> Iterator[tuple["Server", Callable[[], Mapping[str, int]]]]:
    """Make the server that receives an account's notifications, and what counts them; take up what is kept meanwhile.

    Raises `InputError` where no platform key is connected.
    """
    import uvicorn

    from treasury.ledger.notifications import keep_notifications
    from treasury.listening import Listener, Sender
    from treasury.provider.signing import load_public_key

    if desk.settings.platform_key_file is None:
        raise InputError("no platform key is connected: `treasury connect ... --platform-key FILE` names its file")
    key = load_public_key(read_key_file(desk.settings.platform_key_file, "platform key"))
    sender = Sender(key, desk.account.rules, desk.account.partner_id)
    waiting, ended = threading.Event(), threading.Event()

    def keep(bodies: Sequence[Mapping[str, Any]]) -> int:
        try:
            return keep_notifications(desk.ledger, bodies)
        finally:
            server.should_exit = server.should_exit or desk.ledger.is_lost

    listener = Listener(sender, keep, waiting.set)
    config = uvicorn.Config(
        listener.build_app(),
        access_log=False,
        log_config=None,
        log_level="error",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    taker = threading.Thread(target=_take_up, args=(desk, waiting, ended), name="notifications")
    taker.start()
    try:
        yield server, listener.counts
    finally:
        ended.set()
        waiting.set()
        taker.join()


def _own_port(notify_url: str | None) -> int:
    """The port of an address of this machine; of another one, which is a proxy's, the usual port."""
    url = httpx.URL(notify_url or "")
    return url.port or 80 if url.scheme == "http" and url.host in ("127.0.0.1", "localhost") else PORT


def listening_at(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises `ConfigurationError` when the address cannot be used."""
    try:
        return socket.create_server((host, port), backlog=2048, reuse_port=False)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"{host}:{port} cannot be listened on: {error}") from None


def _take_up(desk: Desk, waiting: threading.Event, ended: threading.Event) -> None:
    """Take up notifications as they come, those of before first."""
    from treasury.nights.notified import LOG, take_up_notifications

    while not ended.is_set():
        waiting.clear()
        try:
            if take_up_notifications(desk):
                continue
        except TreasuryError as error:
            LOG.warning("notifications wait: %s", error)
        except Exception:
            LOG.exception("notifications wait")
        waiting.wait(LOOK_SECONDS)
