"""One Prefect server and one PostgreSQL server for all processes of a test run, each started when one asks for it.

So is the database that a first start of Prefect makes: one that is copied saves four seconds of migrations.

Both take seconds to start, and pytest-xdist's workers end one before the other: the controller holds them, and they end
with the controller, Prefect's also when that is killed.
"""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import httpx

from flows.commands.prefect_server import free_port
from tests import parts
from tests.commands.office import eventually
from treasury.concurrency.children import child

ADDRESS = "TESTS_SERVERS"
"""Environment variable: the port of the process that starts the servers. Workers inherit it."""

START_SECONDS = 120

MEMORY, ROOM = Path("/dev/shm"), 6 << 30
"""A file system in memory, and the bytes that must be free there for the files of a run."""

IN_MEMORY = "sqlite+aiosqlite:///file::memory:?cache=shared&uri=true&check_same_thread=false"


def use_memory() -> None:
    """Let this process and those that it starts keep temporary files in memory, where there is room.

    A test that commits often costs a tenth less processor time. That a payment is on the disk before its request leaves
    is seen in the calls to the system (`tests/crash/test_durable.py`), on any file system.
    """
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is found out anew


def answers(url: str) -> bool:
    """Return True if a server answers there with 200."""
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def await_server(name: str) -> str:
    """Return what was asked for, once it is there.

    `prefect`: the address of its API. `postgresql`: a URL of its database `postgres`. `prefect.db`: the file of a
    database of Prefect's in which nothing has run.
    """
    with socket.create_connection(("127.0.0.1", int(os.environ[ADDRESS])), 2 * START_SECONDS) as asks:
        asks.sendall(name.encode())
        asks.shutdown(socket.SHUT_WR)
        with asks.makefile() as said:
            address = said.read()
    assert address, f"the server {name} did not start"
    return address


class Servers:
    """Held by the first process: the ports from the beginning, a server from the first question about it on."""

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
        self._addresses: dict[str, str] = {}
        self._thread = threading.Thread(target=self._answer, name="servers of the tests", daemon=True)
        self._thread.start()

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables that every process of the run needs before it imports Prefect."""
        return {ADDRESS: str(self._asked.getsockname()[1]), "PREFECT_API_URL": self._url}

    def close(self) -> None:
        """End the servers that were started."""
        self._closing.set()
        self._asked.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._running.close()
        self._asked.close()
        self._reserved.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self) -> None:
        starts: dict[str, Callable[[], str]] = {
            "prefect": self._start_prefect,
            "postgresql": self._start_postgresql,
            "prefect.db": self._make_database,
        }
        while True:
            try:
                asks, _ = self._asked.accept()
            except OSError:  # it was shut
                return
            with asks:
                name = asks.recv(100).decode()
                if name not in self._addresses:
                    self._addresses[name] = starts[name]()
                asks.sendall(self._addresses[name].encode())

    def _start_postgresql(self) -> str:
        return self._running.enter_context(parts.postgresql_server())

    def _make_database(self) -> str:
        home = self._folder / "fresh"
        home.mkdir()
        code = "import asyncio, prefect.server.database as d; asyncio.run(d.provide_database_interface().create_db())"
        environ = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        made = subprocess.run([sys.executable, "-c", code], env=environ | {"PREFECT_HOME": str(home)}, check=False)
        if made.returncode:
            return ""
        with closing(sqlite3.connect(home / "prefect.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return str(home / "prefect.db")

    def _start_prefect(self) -> str:
        arguments = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1"]
        arguments += ["--port", str(self._port), "--log-level", "critical", "--lifespan", "on"]
        environ = os.environ | {
            "PREFECT_UI_ENABLED": "0",
            "PREFECT__SERVER_EPHEMERAL": "1",
            "PREFECT__SERVER_FINAL": "1",
            # No test has an automation; task runs are written in one statement for many, and await_recorded waits.
            "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "0",
            "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
            "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
            "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "500",
            "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
            # One connection: at a file, the requests of several workers wait for SQLite's locks, by polling.
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": IN_MEMORY,
        }
        environ["PREFECT_HOME"] = str(self._folder / "prefect")
        process = self._running.enter_context(child("uvicorn", arguments, environ))

        def over() -> bool:
            return process.poll() is not None or self._closing.is_set()

        try:
            eventually(lambda: answers(f"{self._url}/health") or over(), START_SECONDS, every=0.3)
        except AssertionError:
            return ""
        return "" if over() else self._url
