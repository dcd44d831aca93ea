"""`treasury addresses`: one address for each customer and asset, asked for once, verified, with its QR code."""

from collections.abc import Callable
from unicodedata import normalize

import pytest

from tests.commands.office import Office, read_rows
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

HEAD = "row_ref,currency,customer_ref_id\n"


@pytest.fixture
def office(open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office], prefect_url: str) -> Office:
    return open_office(open_sandbox().base_url)


def test_an_address_is_issued_once_and_has_its_code(office: Office) -> None:
    file = office.file("addresses.csv", HEAD + "d-1,USDT_TRC20,ann\nd-2,ETH,ann\nd-3,USDT_TRC20,bo\n")
    dry = office.run("addresses", file, "--dry-run")
    assert (dry.code, dry.last) == (0, "3 would be asked for; nothing was sent"), dry.err
    first = office.run("addresses", file)
    assert (first.code, first.last) == (0, "3 issued"), first.out + first.err
    folder = office.home / "runs" / "deposit-addresses"
    rows = read_rows(folder / "addresses.csv")
    assert len({row["address"] for row in rows.values()}) == 3
    assert rows["d-1"]["address"].startswith("T")
    for row in rows.values():
        assert (folder / row["qr"]).read_text().startswith("<svg")
    assert "d-1: USDT_TRC20 of ann: was issued before" in office.run("addresses", file, "--dry-run").out
    again = office.run("addresses", office.file("more.csv", HEAD + "x,USDT_TRC20,ann\ny,BTC,bo\n"))
    assert (again.code, again.last) == (0, "1 issued, 1 known"), again.out + again.err
    assert read_rows(folder / "addresses.csv")["x"]["address"] == rows["d-1"]["address"]


def test_a_start_that_is_cut_off_leaves_no_code_of_another_customer_in_a_list(office: Office) -> None:
    """Whoever pays by it would pay into another customer's address."""
    assert office.run("addresses", office.file("ann.csv", HEAD + "d-1,ETH,ann\n")).code == 0
    folder = office.home / "runs" / "deposit-addresses"
    [row] = read_rows(folder / "addresses.csv").values()
    drawn = (folder / row["qr"]).read_text()
    office.file("bo.csv", HEAD + "d-1,ETH,bo\n")
    (folder / "addresses.csv").rename(folder / "kept.csv")
    (folder / "addresses.csv").mkdir()  # the codes are written, and then nothing more can be
    office.run("addresses", "bo.csv")
    assert len(list(folder.glob("qr-*.svg"))) == 2
    assert (folder / row["qr"]).read_text() == drawn


def test_a_name_is_one_customer_however_its_accents_are_stored(office: Office) -> None:
    one, two = (f"d-1,ETH,{normalize(form, 'josé')}\n" for form in ("NFC", "NFD"))
    assert office.run("addresses", office.file("one.csv", HEAD + one)).last == "1 issued"
    assert office.run("addresses", office.file("two.csv", HEAD + two)).last == "1 known"
    both = office.run("addresses", office.file("both.csv", HEAD + one + two.replace("d-1", "d-2")))
    assert (both.code, "has this asset in row d-1 already" in both.err) == (2, True), both.err


def test_what_the_service_does_not_issue_is_said(office: Office) -> None:
    done = office.run("addresses", office.file("addresses.csv", HEAD + "d-1,NOPE,ann\nd-2,ETH,ann\n"))
    assert (done.code, done.last) == (4, "1 issued, 1 rejected"), done.out + done.err


def test_a_wrong_sheet_issues_nothing(office: Office) -> None:
    twice = office.run("addresses", office.file("addresses.csv", HEAD + "d-1,ETH,ann\nd-2,ETH,ann\n"))
    assert (twice.code, "has this asset in row d-1 already" in twice.err) == (2, True), twice.err
    assert (office.home / "runs" / "deposit-addresses" / "errors.csv").exists()
