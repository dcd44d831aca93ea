"""Tests of what must not change by itself: requests on the wire, results, plans and reports of three stories, to the
byte.

Each story runs at a clock that stands still, with real HTTP to the sandbox. `GOLDEN=write` writes the files of `golden`
anew: then the change of them is read line by line before it is committed.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
from tests.engine import paying
from tests.engine.nights import ROWS, take
from tests.engine.recorded import Recorder
from tests.engine.rounds import policy, start
from tests.engine.runs import night, pay, sheet
from treasury.clock import Clock
from treasury.ledger.quotes import MAX_GENERATIONS, reference_of
from treasury.payments.desk import Desk

D = Decimal
KEPT = Path(__file__).parent / "golden"
SAMPLE = Path(data.__file__).parent / "beneficiaries.csv"
RATES = "max_rate_age_seconds = 86400"


class Story:
    """A desk, what it asked the service for, and the comparison with what is kept."""

    def __init__(self, desk: Desk, recorder: Recorder, folder: Path) -> None:
        self.desk, self._recorder, self._folder = desk, recorder, folder

    def named(self, text: str) -> str:
        """Replace what hangs on the port of this start: request ids, order numbers, ids of breaks, hashes, paths."""
        names: dict[str, str] = {}
        for order in self.desk.ledger.orders():
            row = f"{order.run_key}/{order.row_ref}"
            numbers = {f"{order.order_no}": f"NO({row})", f"{order.confirmation}": f"CONFIRMS({row})"}
            names |= {
                reference_of(self.desk.ledger, order, g): f"ID({row}, {g})" for g in range(1, MAX_GENERATIONS + 1)
            }
            for quote in self.desk.ledger.quotes([order.id]):
                numbers[f"{quote.quote}"] = f"QUOTE({row}, {quote.generation})"
            names |= {number: name for number, name in numbers.items() if number != "None" and number not in names}
        for found, name in names.items():
            text = text.replace(f"{found}", name)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text.replace(str(self._folder), "HOME"))
        for pattern in (r"\bB-[0-9a-f]{12}\b", r"\b[0-9a-f]{64}\b"):
            for number, found in enumerate(dict.fromkeys(re.findall(pattern, text)), 1):
                text = text.replace(found, f"HASH-{number}")
        return text

    def same(self, name: str, text: str) -> None:
        """Compare a text with the one that is kept."""
        file, shown = KEPT / name, self.named(text)
        if os.environ.get("GOLDEN") == "write":
            file.write_text(shown)
        assert shown == file.read_text(), f"{file} changed: read the difference, then GOLDEN=write"

    def same_files(self, name: str, folder: Path, *files: str) -> None:
        """Compare files of a folder, and all requests so far."""
        self.same(f"{name}.wire", self._recorder.text(self.named))
        for file in files:
            text = (folder / file).read_text()
            if file == "orders.csv":  # its rows are sorted by request id
                text = "".join(sorted(self.named(text).splitlines(keepends=True)))
            self.same(f"{name}.{file}", text)


@pytest.fixture
def tell(start_sandbox: Any, open_desk: Any, clock: Clock, tmp_path: Path) -> Iterator[Callable[..., Story]]:
    """Opens a desk whose requests are kept, one at a time."""
    opened: list[Recorder] = []

    def open_one(**settings: Any) -> Story:
        opened.append(Recorder(start_sandbox(**settings).base_url, clock))
        return Story(open_desk(opened[-1].base_url, in_flight=1), opened[-1], tmp_path)

    yield open_one
    for each in opened:
        each.close()


def test_a_payment_run(tell: Callable[..., Story], tmp_path: Path) -> None:
    story = tell(settle_seconds=1)
    plan = paying.plan_of(story.desk, SAMPLE, "sample")
    story.same("pay.plan", json.dumps(plan.as_dict(), indent=1, ensure_ascii=False, default=list) + "\n")
    pay(story.desk, SAMPLE, tmp_path / "out", "sample", seconds=20)
    story.same_files("pay", tmp_path / "out", "results.csv")


def test_a_rebalancing_of_two_rounds(tell: Callable[..., Story], tmp_path: Path) -> None:
    story = tell(settle_seconds=1, balances={"USDT": D(600), "BTC": D(1), "DOGE": D(0)})
    rules = policy(tmp_path, RATES, BTC=("0.2", "0.4", "0.6"), DOGE=("1000", "2000", "4000"))
    start(story.desk, rules, tmp_path / "out", seconds=20)
    story.same_files("rebalance", tmp_path / "out", "results.csv", "decisions.json")


def test_two_nights(tell: Callable[..., Story], tmp_path: Path) -> None:
    story = tell(settle_seconds=1)
    pay(story.desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=20)
    night(story.desk, tmp_path / "1")
    take(story.desk, "by-hand", "25")
    night(story.desk, tmp_path / "2", files=True)
    story.same_files("night", tmp_path / "2", "orders.csv", "reconciliation.md", "reconciliation.json")
