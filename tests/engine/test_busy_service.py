"""A service that is busy: it rejects nobody, and the same command is started again."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.answers import BUSY
from treasury.cards.provisioning import provision_user
from treasury.payments.desk import Desk
from treasury.sheets.card_users_sheet import CardUserRow

ROW = CardUserRow(line=2, user_xid="u-1", email="ann@example.com", user_name=None, level_name=None)
QUERY, CREATE = "/v1/carduser/query", "/v1/carduser/create-with-kyc-link"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        *((answer, "unknown") for answer in BUSY),
        ((200, {"code": 400, "message": "INVALID_REQUEST"}), "rejected"),
        ((403, {"code": 403, "message": "FORBIDDEN"}), "rejected"),
    ],
)
@pytest.mark.parametrize("path", [QUERY, CREATE])
def test_it_rejects_no_card_user(
    open_desk: Callable[..., Desk], service: Any, path: str, answer: Any, outcome: str
) -> None:
    service.plan(QUERY, *([answer] * 8 if path == QUERY else [(200, {"code": 7000, "message": "NOT"})] * 2))
    service.plan(CREATE, answer)
    assert provision_user(open_desk(service.base_url), ROW)["outcome"] == outcome


@pytest.mark.parametrize(
    "answer", [(200, {"code": 202224, "message": "DOUBLE"}), (400, {"code": 400, "message": "no"})]
)
def test_a_card_user_whom_another_start_created_meanwhile_is_not_rejected(
    open_desk: Callable[..., Desk], service: Any, answer: Any
) -> None:
    """Two machines provision one sheet: both find that it is absent, and one of them creates it."""
    there = (200, {"code": 200, "data": {"user_xid": "u-1", "user_id": "7", "kyc_status": "1"}})
    service.plan(QUERY, (404, {"code": 404, "message": "no"}), there)
    service.plan(CREATE, answer)
    service.plan("/v1/carduser/kyc-link", (200, {"code": 200, "data": {"user_xid": "u-1", "link": "https://u-1"}}))
    found = provision_user(open_desk(service.base_url), ROW)
    assert (found["outcome"], found["link"], found["user_id"]) == ("existing", "https://u-1", "7")


@pytest.mark.parametrize(
    ("code", "hint"),
    [(406, "look at the key"), (401, "look at the key"), (412, "look at the clock"), (400, "proposes no_such_user")],
)
def test_a_question_that_is_refused_for_whoever_asks_names_key_or_clock(
    open_desk: Callable[..., Desk], service: Any, code: int, hint: str
) -> None:
    service.plan(QUERY, *([(200, {"code": code, "message": "no"})] * 8))
    found = provision_user(open_desk(service.base_url), ROW)
    assert hint in found["reason"], found
    assert ("no_such_user" in found["reason"]) is (code == 400)
