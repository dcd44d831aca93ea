"""Both ends of a deposit as a report keeps them: an address as a keyed hash, a sender's last four characters."""

import json
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from treasury.ledger.ledger import Ledger
from treasury.ledger.receipts import credit_of
from treasury.ledger.snapshots import address_hash, expect_receipt, issued_addresses, keep_snapshot
from treasury.ledger.sweeps import RECEIPT
from treasury.nights.sweep import ends_of
from treasury.provider.orders import TransactionRecord

OpenLedger = Callable[..., Ledger]
ADDRESS = "0xAbC0000000000000000000000000000000001234"


def record(**details: Any) -> TransactionRecord:
    return TransactionRecord(metadata=json.dumps(details))


def test_an_address_is_one_in_any_letter_case_and_with_its_tag(open_ledger: OpenLedger) -> None:
    key = open_ledger().key
    found = ends_of(key, record(destinationAddress=ADDRESS.lower(), sourceAddress="TXYZ12345678904711"))
    assert found == {"to": address_hash(key, ADDRESS), "sender": "***4711"}
    tagged = ends_of(key, record(destinationAddress=ADDRESS, destinationTag=77))
    assert tagged == {"to": address_hash(key, ADDRESS, "77"), "sender": None}
    assert len({found["to"], tagged["to"]}) == 2


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"destinationAddress": None, "sourceAddress": "null"},
        {"destinationAddress": ["x"], "sourceAddress": {"a": 1}},
    ],
)
def test_what_names_no_end_is_none(open_ledger: OpenLedger, details: dict[str, Any]) -> None:
    assert ends_of(open_ledger().key, record(**details)) == {"to": None, "sender": None}
    assert ends_of(open_ledger().key, TransactionRecord(metadata="{")) == {"to": None, "sender": None}


def test_a_hostile_sender_is_cut_and_cleaned(open_ledger: OpenLedger) -> None:
    found = ends_of(open_ledger().key, record(sourceAddress="1234567890" * 9_000 + "\x1b[2J"))
    assert found["sender"] is not None
    assert len(found["sender"]) < 10
    assert "\x1b" not in found["sender"]


def test_addresses_are_known_from_when_they_were_issued(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    keep_snapshot(ledger, "deposit abc", None, {"plan_sha256": None, "address": ADDRESS, "tag": ""})
    expect_receipt(ledger, "i-1", {"currency": "ETH", "amount": "1", "receive_address": "0xother"})
    assert issued_addresses(ledger, ledger.now()) == {address_hash(ledger.key, ADDRESS)}
    assert issued_addresses(ledger, ledger.now() - 1_000_000) == set()


@pytest.mark.parametrize(("fee_currency", "credited"), [(None, "9"), ("USDT", "9"), ("ETH", "10")])
def test_a_fee_of_another_currency_is_no_part_of_what_a_pay_in_brought(fee_currency: str | None, credited: str) -> None:
    ours = {"operation": RECEIPT, "currency": "USDT", "amount": "10"}
    shown = {"status": 99, "seen_amount": "10", "seen_fee": "1", "seen_fee_currency": fee_currency}
    row = SimpleNamespace(ledger_side=json.dumps(ours), service_side=json.dumps(shown))
    assert credit_of(row) == ("USDT", Decimal(credited))
