"""The orders of a report as a pandas frame: read from `orders.csv`, written as Parquet."""

from decimal import Decimal
from pathlib import Path

import pandas as pd

from treasury.errors import InputError
from treasury.money import parse_amount
from treasury.reports.machine import ORDER_COLUMNS, TIMES

CATEGORIES = ("run_key", "operation", "class", "state", "answer", "status")
CURRENCIES = tuple(name for name in ORDER_COLUMNS if name.endswith("currency"))
AMOUNTS = tuple(name for name in ORDER_COLUMNS if name.endswith(("amount", "fee", "rate")))


def read_orders(path: Path | str) -> pd.DataFrame:
    """Read `orders.csv` or `orders.parquet` of a reconciliation: one row per order, both sides, in the file's order.

    Amounts, fees and rates are exact `Decimal` (None where the file has none); currencies, run keys, operations,
    classes, states, answers and statuses are categories; times are UTC timestamps; all else is text.
    Raises `InputError` for another file. A Parquet file takes `pip install 'treasury-flows[parquet]'`.
    """
    if Path(path).suffix == ".parquet":
        return _read_parquet(path)
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as orders.csv: {error}") from None
    if missing := [name for name in ORDER_COLUMNS if name not in frame.columns]:
        raise InputError(f"{path} is no orders.csv: it lacks the columns {', '.join(missing)}")
    for name in AMOUNTS:
        frame[name] = pd.Series([_amount(text) for text in frame[name]], index=frame.index, dtype=object)
    for name in TIMES:
        frame[name] = pd.to_datetime(frame[name].replace("", None), utc=True)
    kinds = dict.fromkeys((*CATEGORIES, *CURRENCIES), "category")
    return frame.replace("", None).astype(kinds)


def _read_parquet(path: Path | str) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as orders.parquet: {error}") from None


def write_parquet(orders: Path, out: Path) -> None:
    """Write an `orders.csv` as Parquet: amounts as decimals with all digits, words as categories, times as UTC."""
    read_orders(orders).to_parquet(out, index=False)


def _amount(text: str) -> Decimal | None:
    return parse_amount(text.removeprefix("'")) if text else None
