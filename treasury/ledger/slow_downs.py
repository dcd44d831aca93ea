"""A service's 429, told to the other processes of a ledger: the service counts the requests of all of them together."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from treasury.errors import TreasuryError
from treasury.ledger import schema
from treasury.ledger.database import serialize
from treasury.ledger.ledger import Ledger
from treasury.provider.pacing import CALM_SECONDS, SlowDown

KEY = "slowed_down"
"""Of `meta`: when a process slowed down last, until when nothing is sent (Unix ms), and its requests a second."""


@dataclass
class SlowDowns:
    """Tells of a 429 and hears of those of others, by one row of the ledger."""

    ledger: Ledger
    _known: str = ""
    """The last that was told or heard."""

    def tell(self, pause: float, rate: float) -> None:
        """Tell the other processes that this one slowed down to `rate` requests a second, after `pause` seconds."""
        with suppress(TreasuryError):  # a ledger that is away ends the run at the next step of an order
            self._known = self.ledger.write(lambda connection: self._write(connection, pause, rate))

    def _write(self, connection: Connection, pause: float, rate: float) -> str:
        serialize(connection)
        now, of_it = self.ledger.now(), schema.meta.c.key == KEY
        kept = _read(connection.execute(select(schema.meta.c.value).where(of_it)).scalar(), now)
        left = max(pause, 0.0 if kept is None else kept.pause)
        said = json.dumps([now, now + round(left * 1000), rate])
        connection.execute(delete(schema.meta).where(of_it))
        connection.execute(insert(schema.meta).values(key=KEY, value=said))
        return said

    def hear(self) -> SlowDown | None:
        """Return the newest that another process told; None where there is none, or it was heard before."""
        found = list[Any]()
        with suppress(TreasuryError):
            found = self.ledger.read(select(schema.meta.c.value).where(schema.meta.c.key == KEY))
        if not found or found[0].value == self._known:
            return None
        self._known = found[0].value
        return _read(self._known, self.ledger.now())


def _read(said: str | None, now: int) -> SlowDown | None:
    """Read what was told; None for what is long over, was told by a clock that is ahead, or cannot be read."""
    try:
        at, until, rate = json.loads(said or "")
        age, pause = (now - at) / 1000, max(0.0, (until - now) / 1000)
        counts = abs(age) < CALM_SECONDS or (age > 0 and pause)
        return SlowDown(pause, float(rate)) if counts else None
    except (ValueError, TypeError, OverflowError):
        return None
