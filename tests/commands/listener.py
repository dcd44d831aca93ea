"""`treasury listen` in a process of its own, and what it kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select

from tests.commands.office import Office
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


def kept(office: Office) -> list[Any]:
    desk = office.desk()
    try:
        return desk.ledger.read(select(schema.notifications).order_by(schema.notifications.c.id))
    finally:
        desk.close()
