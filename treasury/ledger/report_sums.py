"""The sums of a report, as the ledger keeps them: each later report goes on from them."""

import functools
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from treasury.reconciliation.balances import Flows
from treasury.reconciliation.order_statement import StatementLine


class ReportSums(BaseModel):
    """The sums of a report, and what it went by."""

    model_config = ConfigDict(frozen=True)

    lines: tuple[StatementLine, ...] = ()
    flows: Mapping[str, Flows] = {}
    """By currency."""
    counted: Mapping[str, tuple[int | None, str]] = {}
    """Table -> the id of the last row that it counted, and a digest of those since the report before."""
    follows: int | None = None
    """The sweep of the report that it follows."""
    fee_on_top: frozenset[str] | None = None
    """Operations whose fee it took to be on top; None where nobody can say."""
    number: int = 0
    """Its place among the reports of all books that hold the same last step of the journal. No clock says that: one
    may be set back."""
    not_asked: int = 0
    by_age: str | None = None
    shared: Mapping[str, str | None] = {}


@functools.lru_cache(maxsize=400)
def read_sums(statement: str) -> ReportSums:
    """Read the sums of a report (`reports.statement`). Those that somebody made unreadable by hand come to nothing: the
    next report is made all the same, and tells it."""
    try:
        return ReportSums.model_validate_json(statement)
    except ValidationError:
        return ReportSums()
