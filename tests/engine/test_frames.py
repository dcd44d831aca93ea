"""The files of a report, read as frames."""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.engine.runs import night, pay, sheet
from treasury.errors import InputError
from treasury.frames import read_orders
from treasury.reports.machine import ORDER_COLUMNS
from treasury.reports.order_frames import AMOUNTS

ROWS = (("a", "10.50", "12345670001"), ("b", "12345678901.123456", "12345670044"), ("c", "30", "12345670022"))


def test_orders_are_read_as_they_were_compared(open_desk: Any, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    pay(desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=5)
    night(desk, tmp_path / "1", files=True)
    orders = read_orders(tmp_path / "1" / "orders.csv").set_index("row_ref").sort_index()
    assert list(orders["amount"]) == [Decimal("10.50"), Decimal("12345678901.123456"), Decimal("30")]
    assert {type(each) for name in AMOUNTS for each in orders[name]} == {Decimal, type(None)}
    assert orders.groupby("state", observed=True)["amount"].sum()["settled"] == Decimal("10.50")
    assert isinstance(orders["class"].dtype, pd.CategoricalDtype)
    assert orders["created_at"].dt.tz is not None
    assert orders["final_at"].isna()["c"]


PARQUET = """
import sys
from pandas.testing import assert_frame_equal
from treasury.frames import read_orders
from treasury.reports import order_frames
from treasury.reports.order_frames import AMOUNTS, write_parquet
order_frames.PART = 2  # of three orders: two parts
source, target = sys.argv[1:]
write_parquet(source, target)
orders, again = read_orders(source), read_orders(target)
for name in AMOUNTS:
    assert [*again[name]] == [*orders[name]] and {*map(type, again[name])} <= {*map(type, orders[name])}, name
kept = [name for name in orders if name not in AMOUNTS]
assert_frame_equal(again[kept], orders[kept], check_dtype=False, check_categorical=False)
assert [*map(str, again.dtypes[kept])] == [*map(str, orders.dtypes[kept])]
"""


@pytest.mark.proof
def test_a_parquet_file_gives_the_same_frame(open_desk: Any, start_sandbox: Any, tmp_path: Path) -> None:
    installed = tmp_path / "pyarrow"
    uv = Path(sys.executable).parent / "uv"
    online = {name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT_")}  # not of tests
    into = ("--native-tls", "--quiet", "--target", installed, "--no-deps")
    subprocess.run([uv, "pip", "install", *into, "pyarrow>=17"], env=online, check=True)
    desk = open_desk(start_sandbox(settle_seconds=1).base_url)
    pay(desk, sheet(tmp_path, *ROWS), tmp_path / "out", seconds=5)
    night(desk, tmp_path / "1", files=True)
    files = [tmp_path / "1" / "orders.csv", tmp_path / "orders.parquet"]
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    subprocess.run([sys.executable, "-c", PARQUET, *files], env=environ, check=True)


def test_what_is_no_orders_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("request_id\n1\n")
    with pytest.raises(InputError, match="lacks the columns run_key"):
        read_orders(file)
    file.write_text(",".join(ORDER_COLUMNS) + "\n")
    assert read_orders(file).empty
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(InputError, match="cannot be read"):
            read_orders(tmp_path / name)
