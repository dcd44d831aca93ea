"""`treasury listen`, in a process of its own or in the test's, and what it kept."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import select

from flows.commands.listening import listening_at, receiving
from tests.commands.office import PATIENCE, Office, eventually
from treasury.ledger import schema


def trusting(office: Office, key: str) -> Office:
    office.environ["TREASURY_PLATFORM_KEY_FILE"] = str(office.file("platform.pem", key))
    return office


@contextmanager
def listening(office: Office, port: int = 0) -> "Iterator[tuple[Any, str]]":
    """A listener in a process of its own, and its address."""
    with office.running("listen", "--port", port) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        yield process, line.split()[2].rstrip(";")


@contextmanager
def listening_here(office: Office, port: int = 0) -> Iterator[tuple[str, Callable[[], Mapping[str, int]]]]:
    """A listener in a thread of this process: its address, and what it counted. Its ledger is opened for it alone."""
    with closing(office.desk()) as desk, listening_at("127.0.0.1", port) as door, receiving(desk) as (server, counts):
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, name="listener")
        thread.start()
        try:
            eventually(lambda: server.started, PATIENCE)
            yield f"http://127.0.0.1:{door.getsockname()[1]}", counts
        finally:
            server.should_exit = True
            thread.join()


def kept(office: Office) -> list[Any]:
    desk = office.desk()
    try:
        return desk.ledger.read(select(schema.notifications).order_by(schema.notifications.c.id))
    finally:
        desk.close()
