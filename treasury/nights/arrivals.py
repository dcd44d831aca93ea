"""Both ends of money that came in, as far as a ledger keeps them: where to as a keyed hash, from whom masked."""

from collections.abc import Mapping
from typing import Any

from treasury.ledger.cipher import LedgerKey
from treasury.ledger.snapshots import address_hash
from treasury.masking import mask
from treasury.provider.fields import is_blank
from treasury.provider.operation import Reply
from treasury.provider.orders import TransactionRecord
from treasury.texts import cut_text


def ends_of(key: LedgerKey, reply: Reply) -> dict[str, str | None]:
    """Return `to` and `sender` of a transaction that came in, by its details (public fact 4.1, `extra_info`)."""
    details = (reply.details or {}) if isinstance(reply, TransactionRecord) else {}
    sender = _text(details, "sourceAddress")
    to = address_hash(key, _text(details, "destinationAddress"), _text(details, "destinationTag"))
    return {"to": to, "sender": None if sender is None else mask(cut_text(sender))}


def _text(details: Mapping[str, Any], name: str) -> str | None:
    value = details.get(name)
    return None if is_blank(value) or isinstance(value, dict | list) else str(value)
