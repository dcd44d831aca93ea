"""Facts that two processes see for the first time at the same moment: one records them, and neither is stopped."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.meanwhile import about_to_commit
from treasury.ledger.evidence import saw_status, seen_statuses
from treasury.ledger.ledger import Ledger
from treasury.ledger.seen_card_users import card_users, saw_card_user
from treasury.provider.card_users import CardUserRecord

pytestmark = [pytest.mark.both_databases, pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)]


@pytest.mark.parametrize(
    "see",
    [
        lambda ledger: saw_status(ledger, "payout", 3),
        lambda ledger: saw_card_user(ledger, "u-1", CardUserRecord(user_id="7", kyc_status="passed")),
    ],
    ids=["a status", "a card user"],
)
def test_it_stops_neither(
    open_ledger: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch, see: Callable[[Ledger], Any]
) -> None:
    one, other = open_ledger(), open_ledger()
    with about_to_commit(one, lambda: see(one), monkeypatch) as go_on:
        threading.Timer(0.3, go_on.set).start()
        see(other)
    assert len(seen_statuses(other, "payout")) + len(card_users(other)) == 1
