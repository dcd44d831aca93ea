"""Masks what the service says about an order: cleaned, cut, and without the order's personal values.

A payment's personal values are deleted with its payload; their keyed hashes stay, so texts can still be masked.
"""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, select

from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.masking import IsPersonal, mask_known, mask_text, nobody, tokens_of
from treasury.orders.quoting import personal_values_of
from treasury.orders.records import Order
from treasury.texts import MAX_CODE, cut_text

MAX_HASHES = 300
"""Most words of one payment that are masked."""

MAX_REASON = 1_000
"""Most characters of a reason, our words included."""

MAX_PLAIN_CODE = 8
"""Most characters of a code that is kept unmasked."""

MIN_HASH = 40
"""Fewest characters of a transaction's hash; no account number is as long."""

_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")

_TEXTS = {"reason": MAX_REASON, "cause": MAX_REASON, "note": MAX_REASON, "code": MAX_CODE}
"""Column with a text of the service -> its most characters."""


OUR_WORDS = frozenset(
    (
        "a query",
        "the answer to the request",
        "an answer that decides nothing",
        "refused, and asked about first",
        "its quote was refused",
        "its process ended before the outcome was recorded",
    )
)
"""Causes that this program writes. They are not searched, because most steps have one of them."""

_NAMED = (schema.orders.c.personal, schema.orders.c.request_id, schema.orders.c.order_no, schema.orders.c.confirmation)

OWNER = select(*_NAMED).where(schema.orders.c.id == bindparam("order_id"))
"""The columns that mask the texts about an order."""

OWNER_OF_QUOTE = (
    select(*_NAMED, schema.quotes.c.request_id, schema.quotes.c.quote)
    .join_from(schema.quotes, schema.orders, schema.quotes.c.order_id == schema.orders.c.id)
    .where(schema.quotes.c.request_id == bindparam("quote_id"))
)
"""The columns that do, by the request id of one of its quotes."""


def holds_text(facts: Mapping[str, Any]) -> bool:
    """Tell whether any of these columns holds a text of the service."""
    return bool(facts.get("reason") or facts.get("cause") or facts.get("note") or facts.get("code"))


def personal_column(key: LedgerKey, operation: str, payload: Mapping[str, Any]) -> str | None:
    """The `personal` column of a payment: a short keyed hash of each personal value, and of each of its words."""
    tokens = {token for value in personal_values_of(operation, payload) for token in tokens_of(value)}
    hashes = sorted(key.short_hash(token) for token in sorted(tokens, key=len, reverse=True)[:MAX_HASHES])
    return json.dumps(hashes) if hashes else None


@dataclass(frozen=True)
class Words:
    """The words that texts about one order are masked by."""

    key: LedgerKey
    personal: str | None
    own: tuple[str | None, ...] = ()
    """Its ids, which stay as they are."""

    @classmethod
    def of(cls, key: LedgerKey, order: Order) -> "Words":
        """Those of an order."""
        return cls(key, order.personal, (order.request_id, order.order_no, order.confirmation))

    @classmethod
    def of_row(cls, key: LedgerKey, row: "Row[Any] | Sequence[Any] | None") -> "Words":
        """Those of a row of `OWNER` or `OWNER_OF_QUOTE`; of nobody when there is none."""
        return cls(key, None) if row is None else cls(key, row[0], tuple(row[1:]))

    def masked(self, text: str, most: int = MAX_REASON) -> str:
        """A text as it is kept."""
        if text in OUR_WORDS:
            return text
        return cut_text(mask_text(cut_text(text, most), self._is_personal, self.own), most)

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Columns of a step or note, as they are kept."""
        return {name: self._fact(name, value) for name, value in facts.items()}

    def also(self, own: str | None) -> "Words":
        """With another id of its own."""
        return self if own is None or own in self.own else Words(self.key, self.personal, (*self.own, own))

    def _fact(self, name: str, value: Any) -> Any:
        if not isinstance(value, str) or name not in _TEXTS:
            return value
        if name == "code" and len(value) <= MAX_PLAIN_CODE:
            return cut_text(value, MAX_CODE)
        return self.masked(value, _TEXTS[name])

    def detail(self, text: str) -> str:
        """A number or hash as the ledger keeps it; unlike in other texts, long runs of digits are not masked."""
        if _NUMBER.fullmatch(text) or (len(text) >= MIN_HASH and text.isalnum()):
            return mask_known(cut_text(text), self._is_personal)
        return self.masked(text)

    @functools.cached_property
    def _is_personal(self) -> IsPersonal:
        if not self.personal:
            return nobody
        hashes, short_hash = frozenset(json.loads(self.personal)), self.key.short_hash
        return lambda token: short_hash(token) in hashes
