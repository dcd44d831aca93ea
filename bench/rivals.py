"""Rivals that the product is measured beside: the signature alone, httpx as it comes, a Prefect task for each id."""

import asyncio
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from flows.commands.prefect_server import prefect_api
from treasury.provider.client import Account, Client
from treasury.provider.orders import QueryTransaction
from treasury.provider.signing import sign

THREADS = 32


def rate(work: Callable[[], object], count: int) -> float:
    """How many a second."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def signing(client: Client, count: int) -> float:
    """Signatures a second on all cores: the limit of everything that is signed."""
    fields, key = client.signed_body(QueryTransaction(request_id="tf-" + "a" * 26)), client.account.signing_key
    cores = os.cpu_count() or 1

    def work() -> None:
        for _ in range(count // cores):
            sign(fields, key)

    threads = [threading.Thread(target=work) for _ in range(cores)]

    def on_all_cores() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return rate(on_all_cores, count)


def _body(client: Client, request_id: str) -> bytes:
    return json.dumps(client.signed_body(QueryTransaction(request_id=request_id))).encode()


def httpx_threads(client: Client, ids: Sequence[str]) -> float:
    """One `httpx.Client`, a pool of threads."""
    import httpx

    url = client.account.base_url + QueryTransaction.path
    with httpx.Client(limits=httpx.Limits(max_connections=THREADS)) as http, ThreadPoolExecutor(THREADS) as pool:
        return rate(
            lambda: list(pool.map(lambda one: http.post(url, content=_body(client, one)).json(), ids)), len(ids)
        )


def httpx_async(client: Client, ids: Sequence[str]) -> float:
    """One `httpx.AsyncClient`, as many coroutines as there are threads elsewhere."""
    import httpx

    url = client.account.base_url + QueryTransaction.path

    async def ask_all() -> None:
        guard = asyncio.Semaphore(THREADS)
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=THREADS)) as http:

            async def ask(request_id: str) -> None:
                async with guard:
                    (await http.post(url, content=_body(client, request_id))).json()

            await asyncio.gather(*map(ask, ids))

    return rate(lambda: asyncio.run(ask_all()), len(ids))


def task_per_id(account: Account, ids: Sequence[str]) -> float:
    """The flow that most people would write: a task for each id, mapped. Prefect's start is not counted.

    In a process of its own: what Prefect goes on doing afterwards must not be beside other cases.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as own:
        return own.submit(_task_per_id, dataclasses.replace(account), list(ids)).result()


def _task_per_id(account: Account, ids: list[str]) -> float:
    with prefect_api(), Client(account) as client:
        return _map_tasks(client, ids)


def _map_tasks(client: Client, ids: list[str]) -> float:
    import httpx
    from prefect import flow, task

    url = client.account.base_url + QueryTransaction.path

    @task
    def ask(request_id: str) -> int:
        return httpx.post(url, content=_body(client, request_id)).status_code

    @flow
    def sweep(asked: list[str]) -> list[int]:
        found: list[int] = ask.map(asked).result()
        return found

    sweep(ids[:1])
    return rate(lambda: sweep(ids), len(ids))
