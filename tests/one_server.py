"""One Prefect server for all processes of a test run: the first process starts it when one of them asks for it.

It takes seconds to start, and pytest-xdist's workers end one before the other: the controller holds it, and it ends
with the controller, also when that is killed.
"""

import os
import shutil
import socket
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import httpx

from flows.commands.prefect_server import free_port
from tests.commands.office import eventually
from treasury.concurrency.children import child

ADDRESS = "TESTS_PREFECT_SERVER"
"""Environment variable: the port of the process that starts the server. Workers inherit it."""

START_SECONDS = 120
STARTED, FAILED = b"started", b"failed"


def answers(url: str) -> bool:
    """Whether something answers there."""
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def await_server() -> str:
    """The address of the server's API, once it answers."""
    with socket.create_connection(("127.0.0.1", int(os.environ[ADDRESS])), START_SECONDS + 30) as asks:
        assert asks.recv(100) == STARTED, "Prefect's server did not start"
    return os.environ["PREFECT_API_URL"]


class OneServer:
    """What the first process holds: the port from the beginning, the server from the first question on."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="treasury-tests-server-"))
        # Bound and not listened at, so nobody else gets it until the server starts.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", free_port()))
        self._port = self._reserved.getsockname()[1]
        self._url = f"http://127.0.0.1:{self._port}/api"
        self._asked = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._running = ExitStack()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="one Prefect server", daemon=True)
        self._thread.start()

    @property
    def environ(self) -> dict[str, str]:
        """What every process of the run has to know before it imports Prefect."""
        return {ADDRESS: str(self._asked.getsockname()[1]), "PREFECT_API_URL": self._url}

    def close(self) -> None:
        """End the server, if it was ever started."""
        self._closing.set()
        self._asked.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._running.close()
        self._asked.close()
        self._reserved.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self) -> None:
        started = None
        while True:
            try:
                asks, _ = self._asked.accept()
            except OSError:  # it was shut
                return
            with asks:
                started = self._start() if started is None else started
                asks.send(STARTED if started else FAILED)

    def _start(self) -> bool:
        arguments = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1"]
        arguments += ["--port", str(self._port), "--log-level", "critical", "--lifespan", "on"]
        environ = os.environ | {
            "PREFECT_UI_ENABLED": "0",
            "PREFECT__SERVER_EPHEMERAL": "1",
            "PREFECT__SERVER_FINAL": "1",
            "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
        }
        environ["PREFECT_HOME"] = str(self._folder / "prefect")
        process = self._running.enter_context(child("uvicorn", arguments, environ))

        def over() -> bool:
            return process.poll() is not None or self._closing.is_set()

        try:
            eventually(lambda: answers(f"{self._url}/health") or over(), START_SECONDS)
        except AssertionError:
            return False
        return not over()
