"""A customer pays, a card user proves identity, both in Chromium; the ledger hears of it by a notification alone."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from flows.commands.prefect_server import free_port
from tests.browser.chromium import DESKTOP, PHONE, PROGRAM, Tab, browser
from tests.commands.listener import kept, listening, trusting
from tests.commands.office import PATIENCE, Office, eventually, read_rows
from treasury.ledger import schema
from treasury.sandbox import Behaviour, RunningSandbox

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed (apt-get install chromium)"),
]

INVOICES = (
    "row_ref,payment_method,amount,currency,product_name,customer_ref_id\n"
    "i-1,on_line,600,USDT_TRC20,Consulting,ann\ni-2,on_line,75,USDT_TRC20,Hosting,bo\n"
)
USERS = "user_xid,email\nu-1,ann@example.com\nu-2,bo@example.com\n"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def port() -> int:
    """The port of the address that the portal of the service has for notifications."""
    return free_port()


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox], port: int) -> RunningSandbox:
    return open_sandbox(notify_url=f"http://127.0.0.1:{port}/", behaviour=Behaviour(kyc_notified=True))


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    return trusting(open_office(sandbox.base_url), sandbox.platform_key)


def taken(office: Office) -> list[str | None]:
    return [row.taken for row in kept(office)]


def statuses(office: Office) -> dict[str, str | None]:
    """The card users as the ledger knows them; nobody is asked."""
    desk = office.desk()
    try:
        return {row.user_xid: row.kyc_status for row in desk.ledger.read(select(schema.card_users))}
    finally:
        desk.close()


def morning(office: Office) -> dict[str, Any]:
    """The report of a night."""
    office.run("reconcile")
    [file] = sorted((office.home / "nights").glob("*/reconciliation.json"))[-1:]
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def standing(report: dict[str, Any]) -> list[str]:
    return [each["class"] for each in report["breaks"] if each["lifecycle"] != "resolved"]


@pytest.mark.costly("a browser, a listener, and nights")
@pytest.mark.parametrize("size", [PHONE, pytest.param(DESKTOP, marks=pytest.mark.proof)], ids=["phone", "desktop"])
def test_an_invoice_is_paid_by_a_click_and_the_report_says_so(
    tab: Tab, office: Office, port: int, size: tuple[int, int]
) -> None:
    with listening(office, port):
        made = office.run("collect", office.file("invoices.csv", INVOICES), "--run-key", "november")
        assert (made.code, made.last) == (0, "2 waiting"), made.out + made.err
        morning(office)  # opens the balance account
        tab.show(office.results("november")["i-1"]["link"], size)
        assert "Consulting Amount 600 USDT_TRC20" in tab.text()
        assert tab.run("document.documentElement.scrollWidth") <= size[0], "it has to be scrolled sideways"
        tab.press("Pay")
        tab.await_text("Status\npaid")
        assert tab.run("document.querySelectorAll('button').length") == 0
        eventually(lambda: taken(office) == ["receipt"], PATIENCE)
    report = morning(office)
    assert report["money_in"]["invoices"] == {"paid": 1, "waiting": 1}
    assert set(standing(report)) == {"opening"}, "what came in is an entry of its account"
    again = office.run("collect", office.file("invoices.csv", INVOICES), "--run-key", "november")
    assert (again.code, again.last) == (0, "1 paid, 1 waiting"), again.out + again.err
    row = office.results("november")["i-1"]
    assert (row["outcome"], row["paid"], row["credited"]) == ("paid", "600", "594")


@pytest.mark.costly("a browser, a listener, and a night")
def test_an_identity_check_is_passed_by_a_click_and_the_report_counts_it(tab: Tab, office: Office, port: int) -> None:
    with listening(office, port):
        made = office.run("provision", office.file("users.csv", USERS))
        assert (made.code, made.last) == (0, "2 created"), made.out + made.err
        rows = read_rows(office.home / "runs" / "card-users" / "card_users.csv")
        for user, button, shown in (("u-1", "Approve", "passed"), ("u-2", "Refuse", "refused")):
            tab.show(rows[user]["link"], PHONE)
            tab.await_text("Approve")
            assert f"User {user}" in tab.text()
            tab.press(button)
            tab.await_text(f"Status\n{shown}")
        eventually(lambda: taken(office) == ["user", "user"], PATIENCE)
        assert statuses(office) == {"u-1": "3", "u-2": "4"}, "nobody but the listener asked"
    report = morning(office)
    assert report["card_users"]["counts"] == {"passed": 1, "refused": 1}
    assert report["card_users"]["passed"] == 1
    assert standing(report) == ["kyc_refused"]
    assert tab.complaints == []
