"""Many processes, one run: every row is paid once, and whoever comes second says who holds it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.engine import paying
from tests.moved_clock import RUNS
from tests.proofs import tries
from treasury.orders.states import Event, Hold, State

pytestmark = pytest.mark.both_databases

STARTS = tries("STARTS", 3, 8)
ROWS = tries("START_ROWS", 60, 1_000)

ENGINE = """
import sys
from pathlib import Path
from tests.engine import paying
from treasury.payments.desk import Desk
from treasury.errors import RunHeld
from treasury.provider.client import Account
from treasury.payments import execution
from treasury.settings import Settings

base_url, key_file, ledger_url, home, file, run_key = sys.argv[1:]
home = Path(home)
settings = Settings(home, base_url, "900001", None, None, ledger_url, home / "ledger.key", resend_after_seconds=0.5)
desk = Desk(Account(base_url, "900001", Path(key_file).read_text()), settings)
print("ready", flush=True)
sys.stdin.readline()
try:
    with desk.hold(run_key):
        chunks = paying.commit(desk, Path(file), run_key)
        for ids in chunks:
            execution.send_orders(desk, run_key, ids)
        print("sent", flush=True)
except RunHeld as held:
    print(held)
    sys.exit(6)
"""

HEADER = (
    "row_ref,route,amount,currency,settle_currency,payout_method,account_no,account_name,country,bank_code,phone,email"
)


def sheet(folder: Path, rows: int = ROWS) -> Path:
    lines = (
        f"r{n},direct,1,USDT_TRC20,IDR,bank_transfer,1234{n:05d}1,Any Person,ID,1000120,0812000,p@b.example"
        for n in range(rows)
    )
    file = folder / "rows.csv"
    file.write_text("\n".join([HEADER, *lines]) + "\n")
    return file


def start_all(arguments: list[list[str]]) -> list[tuple[int, str, str]]:
    """Start engines that wait for each other, and let them go at once."""
    engines = [
        subprocess.Popen(
            [sys.executable, "-c", ENGINE, *each],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in arguments
    ]
    for engine in engines:
        assert engine.stdout is not None
        assert engine.stdout.readline() == "ready\n", engine.communicate()[1]
    ended = []
    for engine in engines:
        assert engine.stdin is not None
        engine.stdin.write("go\n")
        engine.stdin.flush()
    for engine in engines:
        out, err = engine.communicate(timeout=300)
        ended.append((engine.returncode, out, err))
    return ended


@RUNS
@pytest.mark.costly("processes at once")
def test_eight_starts_of_one_run_pay_each_row_once(
    start_sandbox: Any, ledger_url: str, keys: tuple[str, str], tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    (tmp_path / "private_key.pem").write_text(keys[0])
    common = [sandbox.base_url, str(tmp_path / "private_key.pem"), ledger_url, str(tmp_path), str(sheet(tmp_path))]
    ended = start_all([[*common, "run"]] * STARTS)
    assert [code for code, _, _ in ended].count(0) >= 1
    assert {code for code, _, _ in ended} <= {0, 6}, ended
    for code, out, err in ended:
        assert "locked" not in out + err
        assert (code == 6) == ("is held by" in out)
    orders = sandbox.orders()
    assert len(orders) == ROWS
    assert {order["effects"] for order in orders} == {1}


@RUNS
@pytest.mark.costly("processes at once")
def test_three_runs_of_one_list_in_one_ledger_pay_it_once(
    start_sandbox: Any, ledger_url: str, keys: tuple[str, str], tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    (tmp_path / "private_key.pem").write_text(keys[0])
    common = [sandbox.base_url, str(tmp_path / "private_key.pem"), ledger_url, str(tmp_path), str(sheet(tmp_path))]
    ended = start_all([[*common, f"run{number}"] for number in range(3)])
    assert {code for code, _, _ in ended} == {0}, ended
    orders = sandbox.orders()
    assert len(orders) == ROWS
    assert {order["effects"] for order in orders} == {1}


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("after", range(1, 4))
def test_what_leaves_while_another_run_is_judged_is_seen_as_its_duplicate(
    after: int, open_desk: Any, ledger_url: str, tmp_path: Path
) -> None:
    """Its state moves between statements of the judgement, each of which PostgreSQL lets see another moment."""
    one, other = open_desk("http://127.0.0.1:9"), open_desk("http://127.0.0.1:9")
    [[first]] = paying.commit(one, sheet(tmp_path, rows=1), "one")
    asked: list[str] = []

    def leaves(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "alike" in statement and statement.startswith("SELECT"):
            asked.append(statement)
            if len(asked) == after:
                [order] = one.ledger.orders(ids=[first])
                one.ledger.step(order, Event.SEND)

    event.listen(Engine, "after_cursor_execute", leaves)
    try:
        paying.commit(other, sheet(tmp_path, rows=1), "other")
    finally:
        event.remove(Engine, "after_cursor_execute", leaves)
    assert len(asked) >= after, "it never left"
    [row] = other.ledger.orders(run_key="other")
    assert (row.state, row.hold_kind) == (State.HELD, Hold.DUPLICATE), asked
