"""Works on many items at once in one thread.

The work is plain sequential code. Each item's work runs in a greenlet, which switches to another item's whenever it
waits: for an answer, for a signature, for its step to be on disk. One thread therefore makes all decisions, requests
and steps that are ready together are handed on together, and no thread has to wake another for each of them. In a
thread that is not driven this way the same code blocks.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")
U = TypeVar("U")

Deliver = Callable[[Any, BaseException | None], None]
"""Delivers a result, or the error instead; may be called from any thread."""


class _Turns:
    """Drives the work of many items in one thread."""

    def __init__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> None:
        self._work = work
        self._items: Iterator[tuple[int, Any]] = iter(enumerate(items))
        self._inbox: queue.SimpleQueue[tuple[greenlet, Any, BaseException | None]] = queue.SimpleQueue()
        self.results: dict[int, Any] = {}
        self.errors: list[BaseException] = []
        """After the first error, an interruption included, no further item is begun."""
        self._is_over = False
        """True when no further item is begun."""

    def drive(self, most: int) -> None:
        """Work on all items, `most` at once. An item that was begun is always finished."""
        under_way = 0
        while under_way < most and not self._is_over:
            turn = _Turn(self)
            turn.switch()
            under_way += not turn.dead
        while under_way:
            waiting, result, error = self._inbox.get()
            if error is None:
                waiting.switch(result)
            else:
                waiting.throw(error)
            under_way -= waiting.dead

    def take_items(self) -> None:
        """Work on one item after the other. A greenlet is reused, because making one costs 50 us."""
        try:
            while not self.errors and (taken := next(self._items, None)) is not None:
                place, item = taken
                self.results[place] = self._work(item)
        except BaseException as error:  # raised again by whoever asked for the work
            self.errors.append(error)
        self._is_over = True

    def wait(self, begin: Callable[[Deliver], None]) -> Any:
        """Inside an item's work: switch to other items until `begin` delivers."""
        turn = getcurrent()
        begin(lambda result, error: self._inbox.put((turn, result, error)))
        driver = turn.parent
        assert driver is not None
        return driver.switch()


class _Turn(greenlet):
    """A greenlet that works on one item after the other."""

    def __init__(self, turns: _Turns) -> None:
        super().__init__(turns.take_items)
        self.turns = turns


def run_concurrently(work: Callable[[T], U], items: Iterable[T], most: int) -> list[U]:
    """Do `work` for each item, `most` at once; results in the order of the items.

    An item is taken from `items` when its work is about to begin; taking it may take time, but must not wait as work
    does. After the first error, an interruption included, no further item is begun; items under way are finished, then
    the error is raised.
    """
    turns = _Turns(work, items)
    over: queue.SimpleQueue[None] = queue.SimpleQueue()

    def drive() -> None:
        try:
            turns.drive(most)
        finally:
            for _ in range(2):  # Race: an interruption may arrive right after the first was taken
                over.put(None)

    # A daemon: a second interruption ends the process at once, and what is under way becomes unknown. It is not joined:
    # Python 3.11 takes a thread whose joining was interrupted for one that has ended.
    threading.Thread(target=drive, name="treasury-turns", daemon=True).start()
    try:
        over.get()
    except BaseException as error:
        turns.errors.insert(0, error)
        over.get()
    if turns.errors:
        raise turns.errors[0]
    return [turns.results[place] for place in range(len(turns.results))]


def await_result(begin: Callable[[Deliver], None]) -> Any:
    """Wait until `begin` delivers, while other items proceed. Raises the error that is delivered."""
    turn = getcurrent()
    if isinstance(turn, _Turn):
        return turn.turns.wait(begin)
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
    begin(lambda result, error: done.put((result, error)))
    result, error = done.get()
    if error is not None:
        raise error
    return result


class WorkerThreads:
    """Worker threads for calls that take long: at most `most`, started only as they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...], Deliver] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._threads = self._busy = 0

    def do(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the function in a worker while other items proceed; outside of driven work, call it in this thread."""
        if not isinstance(getcurrent(), _Turn):
            return function(*arguments)
        result: T = await_result(lambda deliver: self._give(function, arguments, deliver))
        return result

    def close(self) -> None:
        """Let the threads end once their work is done."""
        with self._guard:
            threads, self._threads = self._threads, 0
        for _ in range(threads):
            self._work.put(None)

    def _give(self, function: Callable[..., Any], arguments: tuple[Any, ...], deliver: Deliver) -> None:
        with self._guard:
            self._busy += 1
            more = self._threads < min(self._busy, self._most)
            self._threads += more
        if more:
            threading.Thread(target=self._run, name="treasury-worker", daemon=True).start()
        self._work.put((function, arguments, deliver))

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            function, arguments, deliver = given
            try:
                result, error = function(*arguments), None
            except BaseException as raised:  # raised again where it is waited for
                result, error = None, raised
            with self._guard:
                self._busy -= 1
            deliver(result, error)
