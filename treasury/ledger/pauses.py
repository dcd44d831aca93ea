"""A pause that the service asked one process for (429 with `Retry-After`), told to the others of a ledger."""

import json
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection

from treasury.errors import TreasuryError
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.ledger.migrations import meta_value, set_meta

KEY = "pause"
"""Of `meta`: when a pause was asked for, and when it ends, Unix ms."""

CLOCKS_DIFFER_MS = 60_000
"""A pause that was told by a clock further ahead than this is none: somebody set one of the clocks."""


@dataclass
class Pauses:
    """Tells of a pause and hears of those of others, by one row of the ledger."""

    ledger: Ledger
    _known: str = ""
    """The last that was told or heard."""

    def tell(self, seconds: float) -> None:
        """Tell the others that the service asked for a pause of so long from now on; one that ends later stays."""
        with suppress(TreasuryError):  # a ledger that is away ends the run at the next step of an order
            self._known = self.ledger.write(lambda connection: self._write(connection, seconds))

    def _write(self, connection: Connection, seconds: float) -> str:
        serialize(connection)
        now = self.ledger.now()
        left = max(seconds, _left(meta_value(connection, KEY), now))
        told = json.dumps([now, now + round(left * 1000)])
        set_meta(connection, {KEY: told})
        return told

    def hear(self) -> float:
        """Return the seconds that are left of a pause; zero for none, and for one that was heard of before."""
        found: str | None = None
        with suppress(TreasuryError):
            found = self.ledger.look(lambda connection: meta_value(connection, KEY))
        if found is None or found == self._known:
            return 0.0
        self._known = found
        return _left(self._known, self.ledger.now())


def _left(told: str | None, now: int) -> float:
    """Return the seconds that are left; zero for a pause that is over, of another clock, or cannot be read."""
    try:
        at, until = json.loads(told or "")
        return max(0.0, (until - now) / 1000) if at <= now + CLOCKS_DIFFER_MS else 0.0
    except (ValueError, TypeError, OverflowError):
        return 0.0
