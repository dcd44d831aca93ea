"""Many items take turns in one thread: who waits gives way, an error stops the handing out, nothing stays half done."""

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from treasury.concurrency.turns import Deliver, WorkerThreads, await_result, run_concurrently


def soon(result: Any = None, error: BaseException | None = None, seconds: float = 0.01) -> Any:
    """Wait for something that is delivered from another thread."""

    def begin(deliver: Deliver) -> None:
        threading.Timer(seconds, deliver, (result, error)).start()

    return await_result(begin)


def once(event: threading.Event) -> None:
    """Wait for an event of another thread or turn."""
    await_result(lambda deliver: threading.Thread(target=lambda: deliver(event.wait(10), None), daemon=True).start())


def test_results_are_in_the_order_of_the_items_whatever_the_order_they_end_in() -> None:
    assert run_concurrently(lambda item: soon(item * 2, seconds=0.05 - item / 100), range(5), 5) == [0, 2, 4, 6, 8]
    assert run_concurrently(str, [], 5) == []


def test_all_work_is_done_in_one_thread_that_is_not_ours() -> None:
    threads = set(run_concurrently(lambda item: soon(item) or threading.get_ident(), [0] * 20, 4))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_so_many_are_under_way_at_once_and_no_more() -> None:
    under_way, most = [0], [0]

    def work(_: int) -> None:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        soon()
        under_way[0] -= 1

    run_concurrently(work, range(30), 7)
    assert most == [7]


def test_one_that_waits_lets_the_others_go_on() -> None:
    waiting: list[Deliver] = []

    def work(item: int) -> str:
        if item == 0:
            return str(await_result(waiting.append))
        waiting.pop()("woken by the second", None)
        return "went on"

    assert run_concurrently(work, [0, 1], 2) == ["woken by the second", "went on"]


def test_an_error_that_is_delivered_is_raised_where_it_is_waited_for() -> None:
    def work(item: int) -> str:
        try:
            soon(error=KeyError(item))
        except KeyError as error:
            return f"caught {error}"
        return "nothing was raised"

    assert run_concurrently(work, [1, 2], 2) == ["caught 1", "caught 2"]
    with pytest.raises(KeyError):
        soon(error=KeyError("in a thread that takes no turns"))


def test_an_error_stops_the_handing_out_and_lets_what_is_under_way_end() -> None:
    begun: list[int] = []
    ended: list[int] = []
    all_wait, first_failed = threading.Event(), threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if len(begun) == 4:
            all_wait.set()
        once(all_wait if item == 0 else first_failed)
        if item == 0:
            first_failed.set()
            raise ValueError("the first one")
        ended.append(item)

    with pytest.raises(ValueError, match="the first one"):
        run_concurrently(work, range(100), 4)
    assert sorted(begun) == [0, 1, 2, 3]
    assert sorted(ended) == [1, 2, 3]


def test_an_interruption_that_comes_as_the_work_ends_waits_for_nothing_more() -> None:
    """Prefect ends a task of a thread that takes too long by an error that arrives once the thread waits no more."""
    caught: list[BaseException] = []

    def interrupted() -> None:
        try:
            run_concurrently(lambda item: soon(item, seconds=0.2), [0], 1)
        except TimeoutError as error:
            caught.append(error)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    time.sleep(0.05)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeoutError))
    thread.join(5)
    assert not thread.is_alive()
    assert [type(each) for each in caught] == [TimeoutError]


def test_worker_threads_are_no_more_than_said() -> None:
    hands = WorkerThreads(2)
    under_way, most, threads = [0], [0], set()
    guard = threading.Lock()

    def long(item: int) -> int:
        with guard:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            threads.add(threading.get_ident())
        time.sleep(0.01)
        with guard:
            under_way[0] -= 1
        return item + 1

    def work(item: int) -> tuple[int, int]:
        return hands.do(long, item), threading.get_ident()

    results = run_concurrently(work, range(10), 10)
    assert [result for result, _ in results] == list(range(1, 11))
    assert most == [2]
    assert len(threads) == 2
    assert results[0][1] not in threads
    assert hands.do(threading.get_ident) == threading.get_ident()  # nobody takes turns here: it is done here
    with pytest.raises(ZeroDivisionError):
        run_concurrently(lambda item: hands.do(lambda: 1 // item), [0], 1)
    hands.close()


def test_items_are_looked_for_when_it_is_their_turn() -> None:
    """However many there are, no more of them are there than are under way."""
    looked_at, max_ahead, done = [0], [0], [0]

    def items() -> Iterator[int]:
        for item in range(50):
            looked_at[0] += 1
            max_ahead[0] = max(max_ahead[0], looked_at[0] - done[0])
            yield item

    def work(item: int) -> int:
        soon()
        done[0] += 1
        return item

    assert run_concurrently(work, items(), 4) == list(range(50))
    assert max_ahead == [4]


def test_an_error_of_the_items_themselves_is_raised_and_what_is_under_way_ends() -> None:
    ended: list[int] = []

    def items() -> Iterator[int]:
        yield from range(6)
        raise OSError("could not be read")

    with pytest.raises(OSError, match="could not be read"):
        run_concurrently(lambda item: ended.append(soon(item)), items(), 3)
    assert sorted(ended) == list(range(6))


@pytest.mark.parametrize("most", [1, 4])
def test_work_that_raises_stop_iteration_is_not_taken_for_the_end(most: int) -> None:
    with pytest.raises(StopIteration):
        run_concurrently(lambda item: next(iter(())) if item == 2 else soon(item), range(5), most)


def test_more_turns_than_items_do_each_item_once() -> None:
    begun: list[int] = []
    assert run_concurrently(begun.append, range(3), 128) == [None] * 3
    assert begun == [0, 1, 2]
