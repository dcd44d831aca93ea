"""Commands on machines that somebody else set up: a company's proxy, streams that are closed, homes with odd names."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox


@contextmanager
def a_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that leads nowhere: its address, and what it was asked for."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threads.submit(refuse)
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        finally:
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.prefect
@pytest.mark.costly("an embedded Prefect server")
def test_a_companys_proxy_is_asked_for_nothing_of_this_machine(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """The embedded server was asked for by way of the proxy, with its password, and never found."""
    office = open_office(open_sandbox().base_url, own_prefect=True)
    sheet = office.sheet(("a", "1.00", "12345670001"))
    with a_proxy() as (proxy, asked):
        named = dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"), proxy)
        ended = office.process("pay", sheet, "--run-key", "p", "--yes", NO_PROXY="example.com", **named)
    assert (ended.code, ended.last, asked) == (0, "1 settled", [])
