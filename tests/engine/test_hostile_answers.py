"""One answer that nobody should give is one order that could not be asked; the run, the night and the report go on."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing as closed
from pathlib import Path
from typing import Any

import pytest

from tests.engine.hostile import HOSTILE, answer
from tests.engine.planned import PlannedService
from tests.engine.runs import night, pay, results, sheet
from treasury.call.calls import submit_operation
from treasury.cards.provisioning import provision_user
from treasury.errors import InputError
from treasury.ledger import schema
from treasury.ledger.seen_card_users import card_users, saw_card_user
from treasury.payments.desk import Desk
from treasury.provider.card_users import CardUserRecord
from treasury.provider.client import Client
from treasury.provider.engine import EngineLimits
from treasury.provider.orders import Withdraw
from treasury.sheets.card_users_sheet import CardUserRow
from treasury.texts import UNSAFE

OpenDesk = Callable[..., Desk]
PAYOUT, QUERY = "/v1/order/payout", "/v1/order/query"


def hurried(desk: Desk) -> Desk:
    """The desk with a client whose exchanges are short, so that what is asked again does not take long."""
    desk.client.close()
    limits = EngineLimits(exchange_seconds=3.0)
    desk.client = desk.submission._client = Client(desk.account, connections=8, limits=limits, clock=desk.clock)
    return desk


def accepted(body: Mapping[str, Any]) -> tuple[int, Any]:
    return answer(body, status=11)


def row(number: int) -> tuple[str, str, str]:
    """A row of a sheet; its account tells its number."""
    return (f"r{number}", "10.00", f"{12345670000 + number}")


NAMES = list(HOSTILE)
READ_ALL_THE_SAME = ("20,000 unknown members",)
FAILED = ("a lone surrogate in reason", "NUL and escapes in reason", "100,000 characters of reason")
"""Answers that say "failed", in words that are cut or cleaned."""
DETAILS = (
    "metadata nested 200,000 deep",
    "a fee of 1e200000000",
    "a fee of 200,000 digits",
)
"""Answers of which all that matters can be read."""


def classed(name: str) -> str:
    """The class of an order that settled, and is answered so the night after."""
    if name in READ_ALL_THE_SAME:
        return "matched"
    if name in FAILED:
        return "reversed_after_final"
    return "unreadable_metadata" if name in DETAILS else "query_failed"


def test_each_hostile_answer_is_one_row_of_the_report_and_fifty_others_are_matched(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = hurried(open_desk(service.base_url))
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, answer)
    pay(desk, sheet(tmp_path, *(row(number) for number in range(50 + len(NAMES)))), tmp_path / "out")
    orders = {order.row_ref: order.request_id for order in desk.ledger.orders()}
    bad = {orders[f"r{50 + place}"]: HOSTILE[name] for place, name in enumerate(NAMES)}
    service.plan(QUERY, lambda body: bad.get(body["request_id"], answer)(body))
    report = night(desk, tmp_path / "night", files=True)
    found = {each["row_ref"]: each["class"] for each in report["breaks"]}
    assert {name: found.get(f"r{50 + place}", "matched") for place, name in enumerate(NAMES)} == {
        name: classed(name) for name in NAMES
    }
    assert report["counts"]["matched"] == 50 + len(READ_ALL_THE_SAME)
    files = [file for file in (tmp_path / "night").iterdir() if file.is_file() and file.suffix != ".xlsx"]
    assert len(files) == 4
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not UNSAFE.search(text)
        assert len(text) < 1_000_000
    assert max(len(stored.service_side) for stored in desk.ledger.read(schema.answers.select())) < 5_000


def test_deep_metadata_among_fifty_answers_ends_in_a_report(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, answer)
    pay(desk, sheet(tmp_path, *(row(number) for number in range(51))), tmp_path / "out")
    [bad] = desk.ledger.orders(reference="r25")
    deep = HOSTILE["metadata nested 200,000 deep"]
    service.plan(QUERY, lambda body: (deep if body["request_id"] == bad.request_id else answer)(body))
    assert night(desk, tmp_path / "night", files=True)["counts"] == {"unreadable_metadata": 1, "matched": 50}


def test_a_payout_that_is_answered_so_is_known_or_unknown_and_the_run_ends(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = hurried(open_desk(service.base_url))

    def submitted(body: Mapping[str, Any]) -> Any:
        number = int(body["account_no"]) - 12345670000
        return HOSTILE[NAMES[number]](body) if number < len(NAMES) else accepted(body)

    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, submitted)
    service.plan(QUERY, answer)
    pay(desk, sheet(tmp_path, *(row(number) for number in range(len(NAMES) + 2))), tmp_path / "out")
    found = results(tmp_path / "out")
    assert len(found) == len(service.sent_to(PAYOUT)) == len(NAMES) + 2
    for place in range(len(NAMES) + 2):
        assert found[f"r{place}"]["outcome"] in (("settled", "failed") if place < len(NAMES) else ("settled",))
        assert len(found[f"r{place}"]["reason"]) <= 1_000
    assert not UNSAFE.search((tmp_path / "out" / "results.csv").read_text())


def test_a_fee_that_cannot_be_read_leaves_a_paid_payout_paid(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, lambda body: answer(body, fee_amount="1e200000000", arrive_amount="9" * 5_000))
    pay(desk, sheet(tmp_path, ("a", "10.00", "12345670001")), tmp_path / "out")
    assert results(tmp_path / "out")["a"]["outcome"] == "settled"
    report = night(desk, tmp_path / "night", files=True)
    assert report["counts"] == {"unreadable_metadata": 1}
    [stored] = desk.ledger.read(schema.answers.select())
    assert json.loads(stored.service_side)["unreadable"] == "arrive_amount, fee_amount"


@pytest.mark.both_databases
def test_amounts_with_an_exponent_are_plain_in_the_ledger(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = open_desk(service.base_url)
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, lambda body: answer(body, order_amount="1E+1", fee_amount="0E-18"))
    pay(desk, sheet(tmp_path, ("a", "10.00", "12345670001")), tmp_path / "out")
    assert night(desk, tmp_path / "night", files=True)["counts"] == {"matched": 1}
    [stored] = desk.ledger.read(schema.answers.select())
    side = json.loads(stored.service_side)
    assert (side["seen_amount"], side["seen_fee"]) == ("10", "0.000000000000000000")


CARD_USER = "/v1/carduser/query"


def test_card_users_that_fit_no_column_are_failed_questions(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    desk = hurried(open_desk(service.base_url))
    texts = ("k" * 201, "a\x00b", "k" * 100_000, "\ud800", "\x1b[1m")
    users = {
        f"{name} {place}": {name: text}
        for name in ("user_id", "kyc_status", "kyc_level")
        for place, text in enumerate(texts)
    }
    for user_xid in (*users, "good"):
        saw_card_user(desk.ledger, user_xid, CardUserRecord(user_id="1", kyc_status="3", kyc_level="LEVEL-1"))

    def user(body: Mapping[str, Any]) -> tuple[int, Any]:
        data = {"user_xid": body["user_xid"], "kyc_status": "3", **users.get(body["user_xid"], {})}
        return 200, {"code": 200, "message": "", "data": data}

    service.plan(CARD_USER, user)
    report = night(desk, tmp_path / "night", files=True)
    assert [each["class"] for each in report["breaks"]] == ["query_failed"] * len(users)
    assert {each.user_id for each in card_users(desk.ledger) if each.user_xid != "good"} == {"1"}


@pytest.mark.both_databases
def test_card_users_with_long_names_are_asked_about(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    """No night ended on PostgreSQL once there was one of more than 54 characters."""
    desk = hurried(open_desk(service.base_url))
    names = [f"{'tenant:' * 20}{number}" for number in range(2)]
    for user_xid in names:
        saw_card_user(desk.ledger, user_xid, CardUserRecord(user_id="1", kyc_status="2", kyc_level="LEVEL-1"))

    def user(body: Mapping[str, Any]) -> tuple[int, Any]:
        return 200, {"code": 200, "message": "", "data": {"user_xid": body["user_xid"], "kyc_status": "4"}}

    service.plan(CARD_USER, user)
    for _ in range(2):
        report = night(desk, tmp_path / "night", files=True)
        assert [each["class"] for each in report["breaks"]] == ["kyc_refused"] * 2
        assert len({each["id"] for each in report["breaks"]}) == 2


@pytest.mark.both_databases
def test_a_reference_of_ones_own_may_be_as_long_as_one_that_is_read(
    open_desk: OpenDesk, service: PlannedService
) -> None:
    """PostgreSQL refused what was longer than its column, after SQLite had kept it all the same."""
    desk = hurried(open_desk(service.base_url))
    sent = {"currency": "USDT_TRC20", "amount": "10", "customer_ref_id": "c"}
    address = {"address": "TVk631BotbQQSHGAUSRhDKGzHomE8EyrCW"}
    submit_operation(desk, Withdraw.model_validate({"request_id": "r" * 200, **sent, **address}))
    with pytest.raises(InputError, match="request_id: must be at most 200 characters"):
        submit_operation(desk, Withdraw.model_validate({"request_id": "r" * 201, **sent, **address}))
    assert [order.request_id for order in desk.ledger.orders()] == ["r" * 200]


USER = CardUserRow(line=2, user_xid="u-1", email="ann@example.com", user_name=None, level_name=None)


@pytest.mark.parametrize("swapped", ["query", "create-with-kyc-link", "kyc-link"])
def test_an_answer_about_another_card_user_gives_nobody_its_link(
    swapped: str, open_desk: OpenDesk, service: PlannedService
) -> None:
    """A proxy swaps two answers: the page on which one person proves identity would have gone to the other one."""
    desk, known = hurried(open_desk(service.base_url)), swapped != "create-with-kyc-link"
    link = {"link": "https://u-1"}
    users = {"query": {"kyc_status": "1"}, "create-with-kyc-link": link, "kyc-link": link}
    other = {"user_xid": "u-2", "kyc_status": "3", "link": "https://u-2"}
    for name, said in users.items():
        user = other if name == swapped else {"user_xid": "u-1", **said}
        service.plan(f"/v1/carduser/{name}", (200, {"code": 200, "message": "", "data": user}))
    if not known:
        service.plan(CARD_USER, (404, {"code": 404, "message": "no"}))
    found = provision_user(desk, USER)
    assert (found["outcome"], found["link"], found["kyc_status"]) == ("unknown", None, None)
    # Whom an earlier answer showed is known, as that answer said; of what the swapped one said nothing is kept.
    shown = [("u-1", "1")] if swapped == "kyc-link" else []
    assert [(each.user_xid, each.kyc_status) for each in card_users(desk.ledger)] == shown


def test_a_second_night_of_the_same_answers_changes_nothing(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    """A reason that was cut and masked is the same reason the night after: nothing is noted again."""
    desk = open_desk(service.base_url)
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, lambda body: answer(body, status=44, reason="to 12345670001 " * 200))
    pay(desk, sheet(tmp_path, ("a", "10.00", "12345670001")), tmp_path / "out")
    [order] = desk.ledger.orders()
    assert order.reason is not None
    assert "12345670001" not in order.reason
    seen = desk.submission.query(order)
    assert desk.submission.is_current(order, seen)


@pytest.mark.both_databases
def test_a_ledger_of_before_masks_what_can_be_masked(
    tmp_path: Path, open_desk: OpenDesk, service: PlannedService
) -> None:
    """An order without hashes: only what always looks like an account or an address is masked."""
    desk = open_desk(service.base_url, ledger=f"sqlite:///{tmp_path / 'own.db'}")
    service.knows_only_what_was_sent = True
    service.plan(PAYOUT, accepted)
    service.plan(QUERY, lambda body: answer(body, status=44, reason="Example Person, x@example.com, 12345670001"))
    pay(desk, sheet(tmp_path, ("a", "10.00", "12345670001")), tmp_path / "out")
    with closed(sqlite3.connect(tmp_path / "own.db")) as raw:
        raw.execute("UPDATE orders SET personal = NULL")
        raw.commit()
    [order] = desk.ledger.orders()
    seen = desk.submission.query(order)
    assert seen is not None
    assert seen.reason == "Example Person, ***, ***0001"
