"""The orders of a report as a pandas frame: read from `orders.csv`, written as Parquet."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from treasury.errors import InputError
from treasury.money import parse_amount
from treasury.reports.machine import ORDER_COLUMNS, TIMES

CATEGORIES = ("run_key", "operation", "class", "state", "answer", "status")
CURRENCIES = tuple(name for name in ORDER_COLUMNS if name.endswith("currency"))
AMOUNTS = tuple(name for name in ORDER_COLUMNS if name.endswith(("amount", "fee", "rate")))

PART = 100_000
"""Rows of `orders.csv` that are read at once."""


def read_orders(path: Path | str) -> pd.DataFrame:
    """Read `orders.csv` or `orders.parquet` of a reconciliation: one row per order, both sides, in the file's order.

    Amounts, fees and rates are exact `Decimal` (None where the file has none); currencies, run keys, operations,
    classes, states, answers and statuses are categories; times are UTC timestamps; all else is text.
    Raises `InputError` for another file. A Parquet file takes `pip install 'treasury-flows[parquet]'`.
    """
    if Path(path).suffix == ".parquet":
        return _read_parquet(path)
    return _typed(pd.concat(_read_csv(path), ignore_index=True))


def _read_csv(path: Path | str) -> Iterator[pd.DataFrame]:
    """Yield the rows of the file as text, a part at a time; of a file without rows one empty part."""
    try:
        with pd.read_csv(path, dtype=str, keep_default_na=False, chunksize=PART) as parts:
            for frame in parts:
                if missing := [name for name in ORDER_COLUMNS if name not in frame.columns]:
                    raise InputError(f"{path} is no orders.csv: it lacks the columns {', '.join(missing)}")
                yield frame
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as orders.csv: {error}") from None


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    for name in AMOUNTS:
        frame[name] = pd.Series([_amount(text) for text in frame[name]], index=frame.index, dtype=object)
    for name in TIMES:
        frame[name] = pd.to_datetime(frame[name].replace("", None), utc=True)
    kinds = dict.fromkeys((*CATEGORIES, *CURRENCIES), "category")
    return frame.replace("", None).astype(kinds)


def _amount(text: str) -> Decimal | None:
    return parse_amount(text.removeprefix("'")) if text else None


def _read_parquet(path: Path | str) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as orders.parquet: {error}") from None


def write_parquet(orders: Path, out: Path) -> None:
    """Write an `orders.csv` as Parquet, a part at a time: amounts as decimals with all digits, words as categories,
    times as UTC."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = _schema(orders)
    with ParquetWriter(out, schema) as writer:
        for part in _read_csv(orders):
            writer.write_table(pa.Table.from_pandas(_typed(part), schema, preserve_index=False))


def _schema(orders: Path) -> Any:
    """Return the Arrow types of the columns: of an amount as many digits as the file has before and after the point."""
    import pyarrow as pa

    whole, fraction = dict.fromkeys(AMOUNTS, 1), dict.fromkeys(AMOUNTS, 0)
    for part in _read_csv(orders):
        for name in AMOUNTS:
            sides = part[name].str.lstrip("'-").str.partition(".")
            whole[name] = max(whole[name], *sides[0].str.len(), 0)
            fraction[name] = max(fraction[name], *sides[2].str.len(), 0)

    def kind(name: str) -> Any:
        if name in AMOUNTS:
            digits = whole[name] + fraction[name]
            return (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, fraction[name])
        if name in TIMES:
            return pa.timestamp("us", "UTC")
        return pa.dictionary(pa.int32(), pa.string()) if name in (*CATEGORIES, *CURRENCIES) else pa.string()

    return pa.schema([(name, kind(name)) for name in ORDER_COLUMNS])
