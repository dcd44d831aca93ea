"""Serves `/metrics` beside `treasury serve` and `treasury listen`, on a port of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treasury.errors import ConfigurationError, InputError
from treasury.payments.desk import Desk

LOOPBACK = "127.0.0.1"


@contextmanager
def serving_metrics(where: str | None, find_desk: Callable[[], Desk]) -> Iterator[None]:
    """Serve the figures of a ledger for Prometheus as long as the block lasts; not where `where` is None.

    `where`: PORT on loopback, or HOST:PORT. Raises `InputError` for anything else, `ConfigurationError` for an address
    that cannot be used.
    """
    if where is None:
        yield
        return
    from prometheus_client import start_http_server

    from treasury.nights.metrics import registry_of

    host, _, port = where.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        raise InputError(f"--metrics is a port, or HOST:PORT (got {where})")
    registry = registry_of(find_desk)
    try:
        server, thread = start_http_server(int(port), host or LOOPBACK, registry)
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be used for --metrics: {error.strerror or error}") from None
    print(f"metrics at http://{host or LOOPBACK}:{server.server_port}/metrics", flush=True)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
