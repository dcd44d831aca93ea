"""Doing the same work for many items at once, with the pipe kept full."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from treasury.desk import Desk

T = TypeVar("T")
U = TypeVar("U")


def in_parallel(desk: Desk, work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """Do `work` for each item, as many at once as the desk allows; results in the order of the items.

    The first error, an interruption included, stops the handing out; what is under way is finished, then it is raised.
    Threads draw from one sequence: an executor's future for each item costs more than its bookkeeping is worth.
    """
    waiting = list(items)
    places = iter(range(len(waiting)))  # drawing from it is atomic
    results: dict[int, U] = {}
    errors: list[BaseException] = []

    def draw() -> None:
        for place in places:
            if errors:
                return
            try:
                results[place] = work(waiting[place])
            except BaseException as error:  # raised again below, in the thread that asked
                errors.append(error)

    count = min(desk.in_flight, len(waiting))
    # Daemons: a second interruption ends the process at once, and what is under way becomes unknown.
    threads = [threading.Thread(target=draw, name=f"treasury-{number}", daemon=True) for number in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        errors.insert(0, error)
        for thread in threads:
            if thread.is_alive():
                thread.join()
    if errors:
        raise errors[0]
    return [results[place] for place in range(len(waiting))]
