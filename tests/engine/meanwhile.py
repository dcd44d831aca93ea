"""Others that write while a statement or a transaction of a test is under way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event

from treasury.ledger import database as ledger_database
from treasury.ledger.ledger import Ledger


@contextmanager
def at_statement(text: str, act: Callable[[], Any], *, number: int = 1, before: bool = True) -> Iterator[None]:
    """Act once, at the statement of this number among those that hold a text: before it is executed, or after it."""
    seen: list[str] = []

    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if text in statement:
            seen.append(statement)
            if len(seen) == number:
                act()

    name = "before_cursor_execute" if before else "after_cursor_execute"
    event.listen(Engine, name, look)
    try:
        yield
    finally:
        event.remove(Engine, name, look)


@contextmanager
def about_to_commit(
    ledger: Ledger, write: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Event]:
    """Write, and wait with the commit until the event that this yields is set, or the block ends."""
    wrote, go_on = threading.Event(), threading.Event()

    def wait(name: str) -> None:
        if name == "writer.before" and threading.current_thread() is ledger._writer._thread:
            wrote.set()
            go_on.wait(10)

    monkeypatch.setattr(ledger_database, "crash_point", wait)
    thread = threading.Thread(target=write)
    thread.start()
    wrote.wait(10)
    try:
        yield go_on
    finally:
        go_on.set()
        thread.join()


@contextmanager
def meanwhile(text: str, act: Callable[[], Any]) -> Iterator[None]:
    """Act in another thread after the first statement that holds a text; that waits for it a while, as it may wait for
    what the statement locked."""
    acting: list[threading.Thread] = []

    def begin() -> None:
        acting.append(threading.Thread(target=act))
        acting[0].start()
        acting[0].join(0.5)

    with at_statement(text, begin, before=False):
        yield
    assert acting
    acting[0].join()
