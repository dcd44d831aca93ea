"""`treasury provision`: with a link, with identity data, with another e-mail, and nobody who passed is asked again."""

import base64
import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.commands.office import Ended, Office, read_rows
from tests.commands.proxy import Answer, Proxy, with_data
from tests.commands.users import ANN, HEAD, PNG
from treasury.provider.card_users import QueryCardUser
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    office = open_office(sandbox.base_url)
    (office.home / "front.png").write_bytes(PNG)
    return office


def provision(office: Office, text: str, *more: str) -> Ended:
    return office.run("provision", office.file("users.csv", text), *more)


def rows(office: Office) -> dict[str, dict[str, str]]:
    return read_rows(office.home / "runs" / "card-users" / "card_users.csv")


def shown(office: Office, user: str) -> str | None:
    desk = office.desk()
    try:
        return desk.client.read(QueryCardUser(user_xid=user)).email
    finally:
        desk.close()


def test_an_email_is_changed_where_that_is_asked_for(office: Office) -> None:
    provision(office, "user_xid,email\nu-1,ann@example.com\nu-2,bo@example.com\n")
    changed = "user_xid,email\nu-1,ann.new@example.com\nu-2,bo@example.com\n"
    said = provision(office, changed)
    assert (said.code, said.last, "--update" in said.out) == (0, "2 existing", True)
    preview = provision(office, changed, "--update", "--dry-run")
    assert "would be changed" in preview.out
    assert shown(office, "u-1") == "ann@example.com"
    done = provision(office, changed, "--update")
    assert (done.code, done.last) == (0, "1 existing, 1 updated"), done.out + done.err
    assert (shown(office, "u-1"), rows(office)["u-1"]["reason"]) == ("ann.new@example.com", "")
    assert provision(office, changed, "--update").last == "2 existing"


def test_a_user_with_identity_data_is_created_with_it_and_nothing_of_it_is_kept(office: Office) -> None:
    preview = provision(office, HEAD + ANN, "--dry-run")
    assert "with its identity data" in preview.out
    done = provision(office, HEAD + ANN)
    assert (done.code, done.last) == (0, "1 created"), done.out + done.err
    row = rows(office)["u-1"]
    assert (row["link"], row["kyc"]) == ("", "not set")  # as the document says of a new user
    again = provision(office, HEAD + ANN)
    assert (again.code, again.last) == (0, "1 existing"), "it is not handed in twice while the service says 0"
    content = base64.b64encode(PNG)[:60]
    sheet = office.home / "users.csv"
    for file in (each for each in office.home.rglob("*") if each.is_file() and each != sheet and each.suffix != ".png"):
        kept = file.read_bytes()
        assert content not in kept, file
        assert b"P1234567" not in kept, file


def test_identity_data_of_a_user_who_exists_is_handed_in_once(office: Office) -> None:
    provision(office, "user_xid,email\nu-1,ann@example.com\n")
    done = provision(office, HEAD + ANN)
    assert (done.code, done.last) == (0, "1 submitted"), done.out + done.err
    assert provision(office, HEAD + ANN).last == "1 existing"


def test_whoever_passed_gets_no_other_link(office: Office, sandbox: RunningSandbox) -> None:
    text = "user_xid,email\nu-1,ann@example.com\nu-2,bo@example.com\n"
    provision(office, text)
    link = rows(office)["u-1"]["link"]
    assert httpx.post(f"{link}/approve", follow_redirects=True).is_success
    sandbox.advance(60)
    assert provision(office, text).last == "2 existing"
    after = rows(office)
    assert (after["u-1"]["kyc"], after["u-1"]["link"]) == ("passed", "")
    assert after["u-2"]["link"]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (ANN.replace("front.png", "none.png"), "document_front"),
        (ANN.replace("front.png", "users.csv"), "document_front"),
        (ANN.replace("Example,", ","), "last_name"),
        (ANN.replace("1990-01-31", "31.1.1990"), "date_of_birth"),
        (ANN.replace(",2,P", ",9,P"), "document_type"),
    ],
)
def test_what_is_wrong_is_named_by_its_column_and_nobody_is_created(office: Office, row: str, column: str) -> None:
    done = provision(office, HEAD + row)
    assert done.code == 2
    assert column in done.err, done.err
    assert not (office.home / "runs" / "card-users" / "card_users.csv").exists()


def test_an_image_that_is_gone_when_it_is_sent_is_said(office: Office) -> None:
    from treasury.cards.provisioning import card_users_of, provision_user

    desk, file = office.desk(), office.file("users.csv", HEAD + ANN)
    try:
        [row] = list(card_users_of(desk, file))
        (office.home / "front.png").unlink()
        result = provision_user(desk, row)
    finally:
        desk.close()
    assert (result["outcome"], "image" in result["reason"]) == ("rejected", True)


def night(office: Office) -> dict[str, Any]:
    """The morning report's machine form."""
    office.run("reconcile")
    found: dict[str, Any] = json.loads(next(office.home.glob("nights/*/reconciliation.json")).read_text())
    return found


def kyc_breaks(report: dict[str, Any]) -> dict[str, str]:
    users = [each for each in report["breaks"] if each["evidence"].startswith("card user")]
    return {each["evidence"].partition(":")[0]: each["class"] for each in users}


def test_a_refused_check_is_named_every_night_until_it_is_passed(office: Office, sandbox: RunningSandbox) -> None:
    provision(office, "user_xid,email\nu-1,ann@example.com\nu-2,bo@example.com\n")
    fields = json.dumps({"user_xid": "u-3", "email": "cy@example.com"})
    made = office.run("call", "create_card_user_with_kyc_link", "--json", fields)
    assert made.code == 0, made.err
    user_id = rows(office)["u-2"]["user_id"]
    fields = json.dumps({"user_id": user_id, "email": "bea@example.com"})
    assert office.run("call", "change_card_user_email", "--json", fields).code == 0  # names nobody new
    assert office.run("call", "query_card_user", "--json", json.dumps({"user_xid": "nobody"})).code == 4
    link = rows(office)["u-1"]["link"]
    assert httpx.post(f"{link}/refuse", follow_redirects=True).is_success
    sandbox.advance(60)
    for _ in range(2):
        report = night(office)
        assert kyc_breaks(report) == {"card user u-1": "kyc_refused"}
        assert report["card_users"]["counts"]["refused"] == 1
        assert report["card_users"]["created"] == 3, "who was made by a call is known, too"
    page = (next(office.home.glob("nights/*/reconciliation.html"))).read_text()
    assert "Card users" in page
    provision(office, "user_xid,email\nu-1,ann@example.com\n")
    assert httpx.post(f"{rows(office)['u-1']['link']}/approve", follow_redirects=True).is_success
    sandbox.advance(60)
    night(office)
    report = night(office)
    assert [each["lifecycle"] for each in report["breaks"] if each["class"] == "kyc_refused"] in ([], ["resolved"])
    assert report["card_users"]["passed"] == 1


@pytest.mark.parametrize(
    ("without", "first", "again"),
    [
        (("create-with-kyc-link",), (0, "created", True), (0, "existing", True)),
        (("create-with-kyc-link", "kyc-link"), (4, "unknown", False), (4, "unknown", False)),
    ],
)
def test_a_user_without_a_link_is_not_done(
    open_office: Callable[..., Office],
    sandbox: RunningSandbox,
    without: tuple[str, ...],
    first: tuple[int, str, bool],
    again: tuple[int, str, bool],
) -> None:
    """Whoever has no link cannot prove who they are: its row says so, and how to go on."""

    class Silent(Proxy):
        def answer(self, path: str, body: bytes) -> Answer:
            found = super().answer(path, body)
            return with_data(link=None)(found) if path.rpartition("/")[2] in without else found

    proxy = Silent(sandbox.base_url)
    try:
        office = open_office(proxy.base_url)
        for expected in (first, again):
            done = provision(office, "user_xid,email\nu-1,ann@example.com\n")
            row = rows(office)["u-1"]
            assert (done.code, row["outcome"], bool(row["link"])) == expected, row
            assert ("answered no link; run it again" in row["reason"]) is (row["outcome"] == "unknown"), row
    finally:
        proxy.close()


@pytest.mark.parametrize("failing", ["kyc-link", "upload-kyc", "change-email"])
def test_a_user_the_service_has_shown_is_asked_about_every_night_whatever_else_failed(
    open_office: Callable[..., Office], sandbox: RunningSandbox, failing: str
) -> None:
    """A row that ends `unknown`, because only its link was lost, is a user who exists: the report counts it."""

    class Failing(Proxy):
        def answer(self, path: str, body: bytes) -> Answer:
            found = super().answer(path, body)
            if path.endswith("/create-with-kyc-link"):
                return with_data(link=None)(found)
            return (500, {"code": 500, "message": "system error"}) if path.endswith(f"/{failing}") else found

    with closing(Failing(sandbox.base_url)) as proxy:
        office = open_office(proxy.base_url)
        (office.home / "front.png").write_bytes(PNG)
        if failing != "kyc-link":  # somebody else made the user; this ledger has never heard of it
            fields = {"user_xid": "u-1", "email": "old@example.com"}
            open_office(sandbox.base_url).run("call", "create_card_user_with_kyc_link", "--json", json.dumps(fields))
        text = HEAD + ANN if failing == "upload-kyc" else "user_xid,email\nu-1,ann@example.com\n"
        done = provision(office, text, *(["--update"] if failing == "change-email" else []))
        assert (done.code, rows(office)["u-1"]["outcome"]) == (4, "unknown"), done.out
        assert night(office)["card_users"]["created"] == 1
