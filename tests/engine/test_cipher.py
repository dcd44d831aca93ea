"""Payloads: encrypted for the row that they are stored at, and readable nowhere else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import update

from tests.engine.intents import commit
from treasury.errors import ConfigurationError, WrongLedgerKey
from treasury.ledger import schema
from treasury.ledger.cipher import LedgerKey
from treasury.ledger.ledger import Ledger

PAYLOAD = {"account_no": "123456789012", "name": "Jörg Example"}
KEY = Fernet.generate_key()


def bound(account: str, key: bytes = KEY) -> LedgerKey:
    made = LedgerKey(key)
    made.bind_to(account)
    return made


def test_a_payload_is_read_at_its_own_place_alone() -> None:
    stored = bound("one").encrypt(PAYLOAD, "orders", "run", "a", "payout")
    assert bound("one").decrypt(stored, "orders", "run", "a", "payout") == PAYLOAD
    for place in (("orders", "run", "b", "payout"), ("orders", "run,a", "payout"), ("plans", "run", "a", "payout"), ()):
        with pytest.raises(WrongLedgerKey, match="moved or changed"):
            bound("one").decrypt(stored, *place)
    for other in (bound("two"), bound("one", Fernet.generate_key())):
        with pytest.raises(WrongLedgerKey):
            other.decrypt(stored, "orders", "run", "a", "payout")


def test_each_byte_of_a_payload_counts_and_no_two_are_alike() -> None:
    key = bound("one")
    stored = key.encrypt(PAYLOAD, "orders")
    assert stored != key.encrypt(PAYLOAD, "orders")
    for at in range(len(stored)):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises(WrongLedgerKey):
            key.decrypt(changed, "orders")
    for cut in range(len(stored)):
        with pytest.raises(WrongLedgerKey):
            key.decrypt(stored[:cut], "orders")


def test_what_an_older_ledger_holds_is_read() -> None:
    stored = Fernet(KEY).encrypt(b'{"account_no": "123456789012"}')
    assert bound("one").decrypt(stored, "orders", "run", "a", "payout") == {"account_no": "123456789012"}


@pytest.mark.parametrize("content", [b"short", b"!" * 44, b""])
def test_a_file_without_a_key_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"key file /keys/ledger\.key holds no key, which is 32 bytes"):
        LedgerKey.of(content, Path("/keys/ledger.key"))


@pytest.mark.both_databases
def test_a_payload_that_was_put_on_another_row_is_not_read(open_ledger: Callable[..., Ledger]) -> None:
    ledger = open_ledger()
    one, other = commit(ledger, "a", "b")
    table = schema.orders
    moved: Any = update(table).where(table.c.id == other.id).values(payload=one.payload)
    ledger.write(lambda connection: connection.execute(moved).rowcount)
    assert ledger.payload(one)["account_no"] == "123456789012"
    [changed] = ledger.orders(reference="b")
    with pytest.raises(WrongLedgerKey, match="nothing was sent"):
        ledger.payload(changed)
    assert (ledger.kept_payload(changed), ledger.kept_payload(one)) == (None, ledger.payload(one))
