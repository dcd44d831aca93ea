"""Card users and sheets at services that do otherwise than the document shows, as people meet them."""

import csv
from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.office import Office
from tests.crash.payments import QUOTED
from treasury.sandbox import RunningSandbox
from treasury.sandbox.behaviour import Behaviour

USERS = "user_xid,email\nu-1,one@example.com\nu-2,two@example.com\n"


@pytest.fixture
def connected(open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]) -> Callable[..., Office]:
    """Opens a home at a sandbox that behaves so."""

    def one(**behaves: Any) -> Office:
        return open_office(open_sandbox(behaviour=Behaviour(**behaves)).base_url)

    return one


def outcomes(office: Office, **environ: str) -> list[tuple[str, bool]]:
    """Outcome and whether there is a user id, row by row."""
    sheet = office.file("users.csv", USERS)
    out = office.home / "out"
    office.run("provision", sheet, "--out", out, **environ)
    with (out / "card_users.csv").open(newline="") as file:
        return [(row["outcome"], bool(row["user_id"])) for row in csv.DictReader(file)]


@pytest.mark.parametrize("shape", ["9001", "http-404"])
def test_a_new_user_is_created_once_its_absence_is_adopted(connected: Callable[..., Office], shape: str) -> None:
    office = connected(no_such_user=shape)
    assert outcomes(office) == [("rejected", False)] * 2
    assert "treasury doctor --prove proposes no_such_user" in (office.home / "out" / "card_users.csv").read_text()
    assert outcomes(office, TREASURY_NO_SUCH_USER=shape) == [("created", True)] * 2
    assert outcomes(office, TREASURY_NO_SUCH_USER=shape) == [("existing", True)] * 2


@pytest.mark.parametrize("shape", ["empty", "empty_record"])
def test_an_empty_answer_is_no_user(connected: Callable[..., Office], shape: str) -> None:
    office = connected(no_such_user=shape)
    assert outcomes(office) == [("created", True)] * 2
    assert outcomes(office) == [("existing", True)] * 2


def test_a_quote_may_carry_both_amounts_where_the_service_takes_them(connected: Callable[..., Office]) -> None:
    office = connected()
    row = {
        "row_ref": "r1",
        **QUOTED,
        "pay_amount": "100",
        "account_no": "DE89370400440532013000",
        "receive_amount": "1",
    }
    sheet = office.file("both.csv", f"{','.join(row)}\n{','.join(row.values())}\n")
    ended = office.run("pay", sheet, "--run-key", "both", "--dry-run")
    assert ended.code == 2
    assert "receive_amount" in ended.err
    assert "both_quote_amounts" in ended.err
    taken = {"TREASURY_BOTH_QUOTE_AMOUNTS": "true"}
    assert office.run("pay", sheet, "--run-key", "both", "--dry-run", **taken).code == 0
    ended = office.run("pay", sheet, "--run-key", "both", "--yes", "--follow", "1", **taken)
    # Both amounts bind: what 100 USDT bring is not 1 EUR, so the quote is not confirmed.
    assert (ended.code, ended.last) == (4, "0 settled, 1 not sent")
    assert "receive amount" in office.run("show", "both").out


def paid(office: Office, key: str, row: tuple[str, str, str], starts: int, **environ: str) -> str:
    """The outcome of a run of one row after so many starts."""
    sheet = office.sheet(row)
    short = {"TREASURY_RESEND_AFTER_SECONDS": "0.1", **environ}
    for _ in range(starts):
        office.run("pay", sheet, "--run-key", key, "--yes", "--follow", "1", **short)
    return str(office.results(key)[row[0]]["outcome"])


def test_a_refusal_under_another_code_is_believed_once_it_is_listed(connected: Callable[..., Office]) -> None:
    silent = frozenset({"partner_balance"})  # else nothing is sent that is not funded
    office = connected(refusal_codes={"202203": "301001"}, success_false=silent)
    row = ("r1", "400000000", "12345670001")  # more than the balance
    assert paid(office, "unlisted", row, 2) == "unknown"
    listed = {"TREASURY_ASKED_FIRST": "400,401,403,5004,301001"}
    assert paid(office, "listed", ("r2", "410000000", "12345670002"), 3, **listed) == "rejected"


def test_a_status_that_is_in_no_list_ends_once_its_meaning_is_listed(connected: Callable[..., Office]) -> None:
    office = connected(statuses={44: 45})
    row = ("r1", "10", "12345670044")
    assert paid(office, "run", row, 1) == "in_progress"
    assert "status 45 is shown of 1 order" in office.run("doctor", "--prove").out
    assert paid(office, "run", row, 1, TREASURY_STATUSES="45:failed") == "failed"


@pytest.mark.parametrize("shape", ["empty", "empty_record"])
def test_an_empty_answer_about_a_new_row_sends_and_holds_nothing_until_it_is_adopted(
    connected: Callable[..., Office], shape: str
) -> None:
    office = connected(no_such_order=shape)
    sheet = office.sheet(("r1", "10", "12345670001"))
    ended = office.run("pay", sheet, "--run-key", "run", "--yes", "--follow", "1")
    assert ended.code == 2
    assert "code empty" in ended.err
    assert "treasury doctor --prove" in ended.err
    assert [order.state.outcome for order in office.desk().ledger.orders()] == ["not_sent"]
    assert paid(office, "run", ("r1", "10", "12345670001"), 1, TREASURY_NO_SUCH_ORDER="empty") == "settled"
