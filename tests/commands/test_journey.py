"""How far it is from a row to its result: what of ours a payment of two rows runs, and what of it only once."""

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands.office import Office
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT / package}/" for package in ("flows", "tasks", "blocks", "treasury"))
SANDBOX = f"{ROOT / 'treasury' / 'sandbox'}/"

MOST_FUNCTIONS, MOST_FILES = 1_187, 135
"""As many as there are today, and some of a busy machine: whoever adds one takes one away. 450 in 70 are meant."""

ONCE = (
    ("treasury/sheets/reading.py", "read_sheet"),
    ("treasury/pay/payout_plans.py", "make_plan"),
    ("treasury/payments/desk.py", "Desk.__init__"),
    ("treasury/ledger/cipher.py", "LedgerKey.load"),
    ("treasury/ledger/holder.py", "MachineLock._open_file"),
)
"""File and function: the sheet is read, the plan made, the desk opened, the run held on this machine."""


def test_a_payment_of_two_rows_reads_plans_and_holds_once(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    office = open_office(open_sandbox().base_url)
    first = office.sheet(("z", "7", "12345670009"), name="first.csv")
    assert office.run("pay", first, "--run-key", "first", "--yes", "--follow", "20").code == 0  # imports what it takes
    rows = office.sheet(("a", "10", "12345670001"), ("b", "20", "12345670002"))
    calls: Counter[tuple[str, str]] = Counter()

    def count(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and not code.co_filename.startswith(SANDBOX):
            calls[str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        ended = office.run("pay", rows, "--run-key", "two", "--yes", "--follow", "20")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert (ended.code, ended.last) == (0, "2 settled"), ended.out + ended.err
    assert {each: calls[each] for each in ONCE} == dict.fromkeys(ONCE, 1)
    files = {file for file, _ in calls}
    lines = sum(len((ROOT / file).read_bytes().splitlines()) for file in files)
    print(f"{len(calls)} functions in {len(files)} files of {lines} lines")
    assert len(calls) <= MOST_FUNCTIONS
    assert len(files) <= MOST_FILES
