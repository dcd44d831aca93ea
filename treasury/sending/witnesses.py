"""Decides whether "no such order" counts now, by querying orders that the service showed before."""

from collections.abc import Callable

from treasury.errors import NotConnected, OutcomeUnknown, Refused
from treasury.ledger.evidence import last_shown
from treasury.ledger.ledger import Ledger
from treasury.orders.records import Order
from treasury.provider.catalogue import CATALOGUE

BELIEVED_SECONDS = 60.0
"""How long the witnesses' answer holds: a sweep, or a start of a run, queries them once a minute."""

WITNESSES = 3
"""Orders that are queried, latest first, until one is found."""


class Witnesses:
    """Orders of this ledger that the service has shown. While it shows none of them, what it does not show may be there
    all the same: a replica that lags, a query of another account, a look-up that is broken."""

    def __init__(self, ledger: Ledger, finds: Callable[[Order], bool]) -> None:
        """`finds` queries the service for an order and returns whether it was shown."""
        self._ledger = ledger
        self._finds = finds
        self._asked: dict[str, tuple[float, str | None]] = {}

    def forget(self) -> None:
        """Forget their answers, because another start or sweep begins."""
        self._asked.clear()

    def doubt(self, operation: str) -> str | None:
        """Why an absence of an order of this operation does not count now; None when it does."""
        asked_with = CATALOGUE[operation].asked_with
        same_query = [
            name for name, each in CATALOGUE.items() if each.asked_with is asked_with and each.absence_is_evidence
        ]
        if not same_query:
            return None
        asked_at, doubt = self._asked.get(same_query[0], (0.0, None))
        if not asked_at or self._ledger.clock.monotonic() - asked_at > BELIEVED_SECONDS:
            doubt = self._ask(same_query)
            self._asked[same_query[0]] = self._ledger.clock.monotonic(), doubt
        return doubt

    def _ask(self, operations: list[str]) -> str | None:
        known = last_shown(self._ledger, operations, WITNESSES)
        for order in known:
            try:
                if self._finds(order):
                    return None
            except (NotConnected, OutcomeUnknown, Refused) as error:
                return (
                    f"asked about again later: no order that the service showed before could be asked about ({error})"
                )
        if not known:
            return None
        return (
            f"asked about again later: the service does not show {known[0].request_id} either, which it showed before, "
            "so that it does not show this one says nothing"
        )
