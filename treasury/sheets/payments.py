"""The sheets whose rows are paid: how each is laid out and read."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treasury.errors import RowProblem
from treasury.planning.rows import PayoutRow, Route
from treasury.sheets import beneficiaries, qr_codes, withdrawals
from treasury.sheets.mappings import Mappings
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

    kind: str
    """The kind of a run that pays it."""
    table: str
    """The table of the policy that limits it."""
    layout: Layout
    read: Reader
    routes: tuple[Route, ...]


def _beneficiaries(
    path: Path, *, sheet: str | None, leaving: Collection[RowProblem], mappings: Mappings, notify_url: str | None
) -> Sheet[PayoutRow]:
    del notify_url  # no column of it names one
    return beneficiaries.read_beneficiaries(path, sheet=sheet, leaving=leaving, mappings=mappings)


PAYOUTS = PaymentSheet("payout", "payouts", beneficiaries.LAYOUT, _beneficiaries, (Route.DIRECT, Route.QUOTED))
WITHDRAWALS = PaymentSheet(
    "withdrawal", "withdrawals", withdrawals.LAYOUT, withdrawals.read_withdrawals, (Route.WITHDRAWAL,)
)
QR_CODES = PaymentSheet("scan-to-pay", "payouts", qr_codes.LAYOUT, qr_codes.read_qr_codes, (Route.QR_CODE,))

SHEETS = {each.kind: each for each in (PAYOUTS, WITHDRAWALS, QR_CODES)}
"""Kind of a run -> the sheet that it pays."""
