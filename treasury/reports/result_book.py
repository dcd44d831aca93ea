"""`results.xlsx`: the rows of `results.csv` to filter and sum, and their totals per outcome and currency."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from treasury.files import write_bytes
from treasury.money import exact
from treasury.orders.states import OUTCOMES
from treasury.reports.plain_book import PlainBook

WIDTHS = {"request_id": 32, "reason": 30, "order_no": 22, "next_action": 50, "payee_name": 26, "reference": 24}

TOTALS = ("outcome", "currency", "rows", "amount")


class ResultBook:
    """A workbook that takes rows as they pass by and keeps none of them."""

    def __init__(self) -> None:
        self._book = PlainBook()
        self._totals = _Totals()

    def over(self, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """These rows, each written as it passes."""
        return self._book.over("Results", columns, self._totals.over(rows), WIDTHS)

    def finish(self, path: Path) -> None:
        """Write the totals, and the file."""
        for _ in self._book.over("Totals", TOTALS, self._totals.lines(), dict.fromkeys(TOTALS, 18)):
            pass
        write_bytes(path, self._book.finish())


class _Totals:
    """Rows and amounts per outcome and currency of what passes by."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)

    def over(self, rows: Iterable[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
        """These rows, each counted as it passes."""
        for row in rows:
            self._take(row)
            yield row

    @exact
    def _take(self, row: Mapping[str, object]) -> None:
        key = str(row.get("outcome") or ""), str(row.get("currency") or "")
        self._counts[key] += 1
        amount = row.get("amount")
        if isinstance(amount, Decimal):
            self._sums[key] += amount

    def lines(self) -> Iterator[Mapping[str, object]]:
        """The totals, in the order in which people want to read outcomes."""
        order = {outcome: place for place, outcome in enumerate(OUTCOMES)}
        for key in sorted(self._counts, key=lambda key: (order.get(key[0], len(order)), key[1])):
            yield dict(zip(TOTALS, (*key, self._counts[key], self._sums.get(key)), strict=True))
