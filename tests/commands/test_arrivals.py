"""Invoices, deposit addresses and deposits: what was expected and what arrived, in the morning report."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.commands.listener import kept, listening_here, trusting
from tests.commands.office import PATIENCE, Office, eventually, read_rows
from tests.commands.proxy import running_proxy, with_data
from treasury.provider.client import Client
from treasury.provider.orders import Pay
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

INVOICES = (
    "row_ref,payment_method,amount,currency,product_name,customer_ref_id\n"
    "a,on_chain,100,USDT_TRC20,Consulting,ann\nb,on_chain,50,USDT_TRC20,Hosting,bo\n"
    "c,on_chain,70,USDT_TRC20,Support,cy\nd,on_line,30,USDT_TRC20,Support,dee\n"
)
SENDER = "TXYZsender12345678904711"
BY = ("--by", "Ada Example", "--why", "asked the customer")


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    return trusting(open_office(sandbox.base_url), sandbox.platform_key)


@pytest.fixture
def told(office: Office, sandbox: RunningSandbox) -> Iterator[Callable[..., None]]:
    """Lets a customer deposit, and waits until the listener knows of it."""
    with listening_here(office) as (url, _):

        def deposit(amount: str, address: str | None = None) -> None:
            before = len(kept(office))
            sandbox.charge("USDT_TRC20", amount, address=address, sender=SENDER, notify_url=url)
            eventually(lambda: len([row for row in kept(office) if row.taken]) == before + 1, PATIENCE)

        yield deposit


def morning(office: Office, *more: str) -> dict[str, Any]:
    office.run("reconcile", *more)
    [file] = sorted((office.home / "nights").glob("*/reconciliation.json"))[-1:]
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def standing(report: dict[str, Any]) -> list[str]:
    some = (each for each in report["breaks"] if each["lifecycle"] != "resolved" and not each["accepted"])
    return sorted(each["class"] for each in some if each["class"] != "opening")


def test_what_arrives_is_matched_proposed_or_named(
    office: Office, sandbox: RunningSandbox, told: Callable[..., None]
) -> None:
    office.run("collect", office.file("invoices.csv", INVOICES), "--run-key", "november")
    office.run("addresses", office.file("addresses.csv", "row_ref,currency,customer_ref_id\nx,USDT_TRC20,ann\n"))
    issued = read_rows(office.home / "runs" / "deposit-addresses" / "addresses.csv")["x"]["address"]
    rows = office.results("november")
    told("100", rows["a"]["address"])  # to its address, exactly: matched
    assert office.run("collect", office.home / "invoices.csv", "--run-key", "november").last == "1 paid, 3 waiting"
    paid = office.results("november")["a"]
    assert (paid["paid"], paid["fee"], paid["credited"], paid["next_action"]) == ("100", "1", "99", "none"), paid
    told("49.8", "Tsomewhere")  # much like b: proposed
    told("8", issued)  # a customer's own address: expected
    told("900")  # nobody expected it
    report = morning(office)
    assert standing(report) == ["likely_paid", "unexpected_deposit"], report["breaks"]
    assert report["money_in"] == {
        "invoices": {"paid": 1, "proposed": 1, "waiting": 2},
        "deposits": {"matched": 1, "proposed": 1, "to an issued address": 1, "unexpected": 1},
        "oldest_unpaid_days": None,
    }
    by_class = {each["class"]: each for each in report["breaks"]}
    assert (by_class["likely_paid"]["request_id"], by_class["likely_paid"]["difference"]) == (
        rows["b"]["request_id"],
        "0.2",
    )
    assert "from ***4711" in by_class["unexpected_deposit"]["evidence"]
    for file in (each for each in (office.home / "nights").rglob("*") if each.is_file()):
        assert SENDER.encode() not in file.read_bytes(), file
    assert SENDER not in (office.home / "ledger.db").read_bytes().decode("latin-1")
    page = next((office.home / "nights").glob("*/reconciliation.html")).read_text()
    assert "Money in" in page
    for name in ("likely_paid", "unexpected_deposit"):
        assert office.run("accept", by_class[name]["id"], *BY).code == 0
    assert standing(morning(office)) == []
    assert morning(office, "--offline")["money_in"] == report["money_in"]


def test_an_invoice_that_ended_is_named_until_it_is_paid_or_accepted(
    office: Office, sandbox: RunningSandbox, told: Callable[..., None]
) -> None:
    office.run("collect", office.file("invoices.csv", INVOICES), "--run-key", "november")
    assert standing(morning(office)) == []
    sandbox.advance(86_401)
    rows = office.results("november")
    report = morning(office)
    assert standing(report) == ["unpaid_invoice"] * 4
    assert not (office.home / "runs" / "november" / "remaining.csv").read_text().strip().splitlines()[1:]
    unpaid = [each["next_action"] for each in report["breaks"] if each["class"] == "unpaid_invoice"]
    assert all("`treasury collect` with its sheet and run key again" in each for each in unpaid), "it has no row yet"
    assert report["money_in"]["oldest_unpaid_days"] == 0
    told("50", rows["b"]["address"])
    [late] = [each for each in morning(office)["breaks"] if each["request_id"] == rows["b"]["request_id"]]
    assert office.run("collect", office.home / "invoices.csv", "--run-key", "november").last == "3 expired, 1 paid"
    assert list(read_rows(office.home / "runs" / "november" / "remaining.csv")) == ["a", "c", "d"]
    assert (late["class"], "to its address 1 day after" in late["evidence"]) == ("paid_late", True), late
    assert office.run("accept", late["id"], *BY).code == 0
    [kept_open] = [each for each in morning(office)["breaks"] if each["request_id"] == rows["c"]["request_id"]]
    assert (kept_open["lifecycle"], "row c of november" in kept_open["evidence"]) == ("persisting", True)
    assert office.run("accept", kept_open["id"], *BY).code == 0
    assert standing(morning(office)) == ["unpaid_invoice"] * 2


def test_a_pay_in_of_another_program_is_named(office: Office, sandbox: RunningSandbox) -> None:
    fields = {"request_id": "shop-1", "payment_method": "on_line", "amount": "40", "currency": "USDT_TRC20"}
    with listening_here(office) as (url, _), Client(office.account()) as client:
        client.send(Pay(**fields, product_name="Hosting", customer_ref_id="c", notify_url=url))
        sandbox.pay_invoice("shop-1")
        eventually(lambda: [row.taken for row in kept(office)] == ["receipt"], PATIENCE)
    report = morning(office)
    [found] = [each for each in report["breaks"] if each["class"] == "unexpected_deposit"]
    assert (found["request_id"], found["amount"]) == ("shop-1", "40")
    assert "pay-in shop-1: 40 USDT_TRC20 from an unknown sender, that this ledger never asked for" in found["evidence"]
    assert report["money_in"]["deposits"] == {"unexpected": 1}
    assert office.run("accept", found["id"], *BY).code == 0
    assert standing(morning(office)) == []


@pytest.mark.parametrize(
    ("shown", "amount", "status"),
    [({"status": 88}, "49.5", 88), ({"status": 22}, "49.5", 22), ({"order_amount": "30"}, "20", 99)],
    ids=["closed", "processing", "less"],
)
def test_a_deposit_that_the_service_takes_back_is_named_until_a_person_accepts_it(
    sandbox: RunningSandbox,
    open_office: Callable[..., Office],
    shown: dict[str, Any],
    amount: str,
    status: int,
) -> None:
    """Its customer may have been credited; a narrowed report may be the first to see it, and changes nothing."""
    with running_proxy(sandbox.base_url) as proxy:
        office = trusting(open_office(proxy.base_url), sandbox.platform_key)
        sheet = office.file("addresses.csv", "row_ref,currency,customer_ref_id\nD-1,USDT_TRC20,ann\n")
        office.run("addresses", sheet)
        [issued] = read_rows(office.home / "runs" / "deposit-addresses" / "addresses.csv").values()
        with listening_here(office) as (url, _):
            sandbox.charge("USDT_TRC20", "50", address=issued["address"], notify_url=url)
            eventually(lambda: any(row.taken for row in kept(office)), PATIENCE)
        [name] = {row.request_id for row in kept(office)}
        assert standing(morning(office)) == []
        proxy.planted = {name: with_data(**shown)}
        office.run("reconcile", "--window", "7")
        report = morning(office)
        [found] = [each for each in report["breaks"] if each["request_id"] == name]
        assert (found["class"], found["amount"], report["verdict"]) == ("reversed_after_final", amount, "breaks")
        said = f"deposit {name}: {amount} USDT_TRC20 had come, and were taken back: the service shows {status} now"
        assert said in found["evidence"]
        proxy.planted = {}
        assert "reversed_after_final" in standing(morning(office)), "only a person ends it"
        assert office.run("accept", found["id"], *BY).code == 0
        assert "reversed_after_final" not in standing(morning(office))
