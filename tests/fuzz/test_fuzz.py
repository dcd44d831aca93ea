"""Any answer at all: JSON of any shape, headers, and bytes, on real HTTP; every run and every night ends in a report.

`make fuzz` tries 20,000 answers, `make test` some 500 of them. The number comes from FUZZ.
"""

import gc
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.hostile import SUCCESS
from tests.listening import Answer, Listening
from tests.proofs import tries
from treasury.errors import TreasuryError
from treasury.ledger.intents import commit_plan
from treasury.nights import sweep
from treasury.nights.reporting import report_sweep
from treasury.orders.records import Intent
from treasury.payments import execution
from treasury.payments.desk import Desk
from treasury.policy.model import Policy
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Account
from treasury.provider.engine import EngineLimits
from treasury.provider.operation import Effect
from treasury.provider.orders import QueryTransaction, Withdraw
from treasury.reconciliation.scope import Scope
from treasury.sandbox import generate_key_pair
from treasury.settings import Settings
from treasury.texts import UNSAFE

ANSWERS = tries("FUZZ", 100, 10_000)
BATCH = 100
"""Answers that one run, its nights and a few look-ups are given."""
ORDERS = 30
ROUND = 250
"""Answers that hypothesis makes before it starts anew: it remembers each of them."""
ROUNDS = range(max(1, ANSWERS // ROUND))
MAX_GROWTH_MB = 200
"""The memory that the whole file may add to its process, hypothesis and the service of the test with it."""
LOOKED_AT = "looked-at"
"""A reference that look-ups ask about."""

ODD = ["\x00", "\x1b]0;t\x07", "\ud800", "x" * 201, "y" * 50_000, "1e999999999", "0E-18", "-0", "NaN", "\u202e", "7000"]
TEXTS = st.text(st.characters(), max_size=30) | st.sampled_from(ODD)
NUMBERS = st.integers() | st.integers(-(10**300), 10**300) | st.floats(allow_nan=True)
MEMBERS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
NAMES = [
    "metadata",
    "reason",
    *sorted({name for each in CATALOGUE.values() for name in each.reply_type().model_fields}),
]
DATA = st.dictionaries(st.sampled_from(NAMES) | TEXTS, MEMBERS, max_size=6).map(lambda changes: SUCCESS | changes)
ENVELOPES = st.fixed_dictionaries(
    {"code": st.sampled_from([200, "200", 7000, 412, 202203, None]) | MEMBERS, "data": DATA | MEMBERS},
    optional={"message": MEMBERS},
)
SHAPES = st.one_of(
    DATA.map(lambda data: json.dumps({"code": 200, "data": data})),
    DATA.map(lambda data: json.dumps({"code": "200", "data": data}, ensure_ascii=False)),
    ENVELOPES.map(json.dumps),
    ENVELOPES.map(lambda value: json.dumps(value, ensure_ascii=False)),
    MEMBERS.map(json.dumps),
    st.integers(1, 100_000).map(lambda depth: '{"code":200,"data":' + "[" * depth),
    st.sampled_from(["1e200000000", "9" * 5_000, "-1E-9999999", '"\\ud800"', "{}", "[" * 9_000 + "]" * 9_000]).map(
        lambda number: json.dumps({"code": 200, "data": SUCCESS}).replace('"10.00"', number)
    ),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
BODIES = SHAPES | st.binary(max_size=200) | SHAPES.map(lambda content: content[: len(content) // 2])
HEADERS = st.dictionaries(
    st.sampled_from(["Retry-After", "Date", "Content-Encoding", "X-Odd", "Location", "Content-Type"]),
    st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=300),
    max_size=2,
)
STATUSES = st.sampled_from([*[200] * 12, 201, 204, 301, 400, 404, 429, 500, 503])


@pytest.fixture(scope="module")
def private_key() -> str:
    return generate_key_pair()[0]


class Service:
    """Gives the answers that it holds, in turn; of a payment that it was never sent it says that there is none."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.given = 0
        self._sent = {LOOKED_AT}
        self._guard = threading.Lock()

    def answer(self, path: str, content: bytes) -> Answer:
        with self._guard:
            reference = json.loads(content).get("request_id")
            if path == Withdraw.path:
                self._sent.add(reference)
            if not self.answers or (path == QueryTransaction.path and reference not in self._sent):
                return 200, b'{"code":7000,"message":"ORDER_NOT_EXIST"}', {}
            self.given += 1
            return self.answers.pop()


@pytest.fixture(scope="module")
def service() -> Service:
    return Service()


@pytest.fixture(scope="module")
def base_url(service: Service) -> Any:
    server = Listening(service.answer)
    yield server.base_url
    server.close()


def open_desk(folder: Path, base_url: str, private_key: str) -> Desk:
    """A desk whose exchanges are short, so that no question is asked twice."""
    where = Settings(folder, base_url, "1", None, None, f"sqlite:///{folder / 'ledger.db'}", folder / "key")
    limits = EngineLimits(exchange_seconds=2.0)
    desk = Desk(Account(base_url, "1", private_key), replace(where, in_flight=8, limits=limits))
    desk.client._limits = replace(limits, exchange_seconds=0.0)
    desk.client.pace.too_many = lambda *_: None  # type: ignore[method-assign]  # nobody waits for minutes here
    return desk


def intent(number: int) -> Intent:
    fields = {"currency": "USDT_TRC20", "address": f"TXYZ{number:030}", "amount": "10.00", "customer_ref_id": "c"}
    return Intent(f"r{number}", "withdraw", fields, fields, "USDT_TRC20", Decimal("10.00"))


waiting: list[tuple[int, bytes, Mapping[str, str]]] = []
told = {"answers": 0, "given": 0, "sent": 0, "nights": 0, "began_mb": 0}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, base_url: str, private_key: str) -> Iterator[Desk]:
    opened = open_desk(tmp_path_factory.mktemp("fuzz"), base_url, private_key)
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is forgotten: other tests share this process
    told["began_mb"] = memory_mb("VmRSS")
    yield opened
    opened.close()


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # large answers have large texts
@pytest.mark.parametrize("number", ROUNDS)
@settings(
    max_examples=min(ANSWERS, ROUND),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.generate],
)
@given(st.tuples(STATUSES, BODIES, st.just({}) | st.just({}) | HEADERS))
def test_no_answer_ends_a_run_a_night_or_a_report(
    desk: Desk, service: Service, number: int, answer: tuple[int, bytes, Mapping[str, str]]
) -> None:
    waiting.append(answer)
    if len(waiting) < BATCH:
        return
    answers, waiting[:] = list(waiting), []
    run_key = f"run-{number}-{told['answers']}"
    service.answers[:] = answers[:ORDERS]
    intents = [intent(row) for row in range(ORDERS)]
    commit_plan(desk.ledger, run_key, "payouts", {}, "", intents)
    execution.send_orders(desk, run_key, execution.open_orders(desk, run_key))
    told["sent"] += sum(order.sends > 0 for order in desk.ledger.orders(run_key=run_key))
    service.answers[:] = answers[ORDERS:-5]
    execution.follow_orders(desk, run_key, execution.open_orders(desk, run_key), 0)
    while service.answers:
        out = desk.settings.run_folder("night")
        report = one_night(desk, Scope(run_key=run_key), out)
        assert sum(report["counts"].values()) == ORDERS
        for file in filter(Path.is_file, out.iterdir()):
            assert file.suffix == ".xlsx" or not UNSAFE.search(file.read_text(encoding="utf-8"))
        told["nights"] += 1
    look_around(desk, service, answers[-5:])
    told["answers"] += len(answers)
    told["given"] = service.given
    gc.collect()  # garbage that waits for its collection is no growth


def one_night(desk: Desk, scope: Scope, out: Path) -> Mapping[str, Any]:
    sweep_id = sweep.start_or_resume_sweep(desk, scope)
    for ids in sweep.open_parts(desk, sweep_id).values():
        sweep.ask_orders(desk, ids)
    sweep.end_sweep(desk, sweep_id)
    return report_sweep(desk, sweep_id, out, Policy())


def look_around(desk: Desk, service: Service, answers: list[Any]) -> None:
    """Ask for everything that takes only a name; an answer is read, or is an error of ours."""
    fields = {
        "currency": "USDT",
        "symbol": "ETH-USDT",
        "side": "SELL",
        "amount": "1",
        "user_xid": "u",
        "request_id": LOOKED_AT,
    }
    readers = [each for each in CATALOGUE.values() if each.effect is Effect.READS]
    for number, one in enumerate(answers):
        operation = readers[(told["answers"] // BATCH * 5 + number) % len(readers)]
        service.answers[:] = [one]
        known = {name: fields[name] for name in operation.model_fields if name in fields}
        with suppress(TreasuryError):
            json.dumps(desk.client.send(operation(**known)).envelope, ensure_ascii=False, default=str).encode()


def test_the_answers_were_given_and_took_little_memory() -> None:
    grown = memory_mb("VmHWM") - told["began_mb"]
    counts = f"{told['given']:,} answers, {told['sent']:,} payments, {told['nights']:,} nights"
    print(f"{counts}; memory grew from {told['began_mb']} MB by {grown} MB at most")
    assert told["given"] >= ANSWERS * 9 // 10 - BATCH
    assert told["sent"] >= told["answers"] // BATCH * ORDERS // 2  # an answer may stop a run
    assert grown < MAX_GROWTH_MB


def memory_mb(name: str) -> int:
    """Return what the kernel says of this process: VmRSS now, VmHWM at the most."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024
