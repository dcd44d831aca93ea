"""The sheets whose rows are paid: how each is laid out and read."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treasury.errors import RowProblem
from treasury.orders.rows import WAYS, PayoutRow, Route, Way
from treasury.sheets import beneficiaries, qr_codes, withdrawals
from treasury.sheets.headers import Mappings
from treasury.sheets.reading import Layout, Sheet


class Reader(Protocol):
    """Reads a sheet; raises `InvalidSheet`."""

    def __call__(
        self,
        path: Path,
        *,
        sheet: str | None,
        leaving: Collection[RowProblem],
        mappings: Mappings,
        notify_url: str | None,
    ) -> Sheet[PayoutRow]:
        """Return its rows."""
        ...


@dataclass(frozen=True)
class PaymentSheet:
    """A sheet whose rows are paid."""

    way: Way
    """The way of its rows, which are of one kind."""
    layout: Layout
    read: Reader


def _beneficiaries(
    path: Path, *, sheet: str | None, leaving: Collection[RowProblem], mappings: Mappings, notify_url: str | None
) -> Sheet[PayoutRow]:
    del notify_url  # no column of it names one
    return beneficiaries.read_beneficiaries(path, sheet=sheet, leaving=leaving, mappings=mappings)


PAYOUTS = PaymentSheet(WAYS[Route.DIRECT], beneficiaries.LAYOUT, _beneficiaries)
WITHDRAWALS = PaymentSheet(WAYS[Route.WITHDRAWAL], withdrawals.LAYOUT, withdrawals.read_withdrawals)
QR_CODES = PaymentSheet(WAYS[Route.QR_CODE], qr_codes.LAYOUT, qr_codes.read_qr_codes)

SHEETS = {each.way.kind: each for each in (PAYOUTS, WITHDRAWALS, QR_CODES)}
"""Kind of a run -> the sheet that it pays."""
