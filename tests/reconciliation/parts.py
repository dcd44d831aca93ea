"""Both sides of orders in parts, as a report reads them."""

from collections.abc import Iterator, Sequence

import pandas as pd

from treasury.reconciliation.report import ReconciliationInput, Report, build_report
from treasury.reconciliation.sides import Parts


def in_parts(both_sides: pd.DataFrame, size: int = 3) -> Parts:
    """Read these orders, so many in a part: few, so that what concerns each other is in several."""
    whole = both_sides.sort_values("request_id", ignore_index=True)

    def read(_columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        for start in range(0, len(whole), size):
            yield whole.iloc[start : start + size]

    return read


def build_with_orders(night: ReconciliationInput) -> tuple[Report, pd.DataFrame]:
    """Build a report; returns its orders, too."""
    kept: list[pd.DataFrame] = []
    report = build_report(night, kept.append)
    return report, pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=["request_id", "class"])
