"""Notices of the settings: a real mail server, a real webhook, and a notification block of Prefect's."""

import email
import email.policy
import json
import logging
import sys
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import httpx
import pytest

import data
from tests.flows.deployed import Deployed
from tests.listening import Answer, Listening, kept_port
from tests.reports.builders import empty_machine
from treasury.errors import ApprovalNeeded, ConfigurationError
from treasury.reports.notice import news_of, notice_of_run
from treasury.settings import read_settings

pytestmark = pytest.mark.prefect

PASSWORD = "made-up-word"


class Mailbox:
    """Keeps the mail that its server takes."""

    def __init__(self) -> None:
        self.mails: list[Message] = []

    async def handle_DATA(  # noqa: N802 - aiosmtpd calls it
        self, _server: object, _session: object, envelope: Any
    ) -> str:
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 taken"


class Told:
    """Who is told, at a mail server and a webhook of ours; `places` is what the setting says."""

    def __init__(self, port: int) -> None:
        self.mailbox = Mailbox()
        self.posts: list[dict[str, Any]] = []
        self._hook = Listening(self._take)
        address = f"mailto://127.0.0.1:{port}/?from=treasury@example.com&to=finance@example.com&mode=insecure"
        self.places = f"{address} {self._hook.base_url.replace('http', 'json')}/hook"

    def _take(self, _path: str, body: bytes) -> Answer:
        self.posts.append(json.loads(body))
        return 200, b"", {}

    def close(self) -> None:
        self._hook.close()


@pytest.fixture
def told(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    from aiosmtpd.controller import Controller

    with kept_port() as port:
        found = Told(port)
        server = Controller(found.mailbox, hostname="127.0.0.1", port=port)
        server.start()
        monkeypatch.setenv("TREASURY_NOTICES", found.places)
        yield found
        server.stop()
        found.close()


def test_each_morning_is_told_and_mail_has_the_page_with_it(told: Told, home: Path) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    statement = home / "statement.csv"
    statement.write_text("order_no,currency,amount\nX1,USDT,5\n")
    for given, news in (({}, "reconciled, 0 new"), ({"statement": str(statement)}, "breaks, 1 new")):
        reconcile_transactions(**given, return_state=True)
        mail = told.mailbox.mails[-1]
        assert mail["Subject"] == told.posts[-1]["title"] == f"Reconciliation: {news}"
        [page] = [each for each in mail.walk() if each.get_filename() == "reconciliation.html"]
        [written] = home.glob("nights/*/reconciliation.html")
        assert page.get_payload(decode=True) == written.read_bytes()
        assert not told.posts[-1]["attachments"]
    reconcile_transactions(run_key="a-part", return_state=True)
    assert len(told.mailbox.mails) == len(told.posts) == 2


def test_a_plan_that_waits_is_told_without_people(told: Told, home: Path) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    policy = home / "policy.toml"
    policy.write_text('[payouts.one_approval_above]\nUSDT = "1"\nUSDT_TRC20 = "1"\n')
    with pytest.raises(ApprovalNeeded):
        pay_beneficiaries(str(data.path("beneficiaries.csv")), "payroll-2026-11", policy=str(policy))
    [said] = told.posts
    assert said["title"] == "run payroll-2026-11: waiting for approval"
    assert said["message"].splitlines()[-1] == "What is to do is shown by: treasury approvals"
    [mail] = told.mailbox.mails
    assert not any(each.get_filename() for each in mail.walk())


def test_a_notice_that_does_not_arrive_is_a_line_of_the_log_without_its_address(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from flows.reconcile_transactions import reconcile_transactions

    places = f"json://user:{PASSWORD}@127.0.0.1:9/hook custom-webhook/absent nonsense://{PASSWORD}"
    monkeypatch.setenv("TREASURY_NOTICES", places)
    with caplog.at_level(logging.WARNING, logger="treasury"):
        assert reconcile_transactions(return_state=True).name == "Reconciled"
    said = [each for each in caplog.messages if "notice" in each.lower() or "block" in each]
    assert said == [
        "the notice to json did not arrive: it was not taken",
        "there is no notification block custom-webhook/absent (TYPE/NAME); nothing was sent there",
        "TREASURY_NOTICES: an address that begins with nonsense:// cannot be used by Apprise; nothing was sent there",
    ]
    assert PASSWORD not in caplog.text


def test_a_deployed_run_that_waits_is_told_once_however_often_it_is_resumed(told: Told, home: Path) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    policy = home / "policy.toml"
    policy.write_text('[payouts.one_approval_above]\nUSDT = "1"\nUSDT_TRC20 = "1"\n')
    sheet = str(data.path("beneficiaries.csv"))
    run = Deployed(pay_beneficiaries, file=sheet, run_key="waits", policy=str(policy))
    assert run.go().name == "Suspended"
    for given in ({}, {"name": " "}):
        assert run.resumed(**given).name == "Suspended"
    assert [said["title"] for said in told.posts] == ["run waits: waiting for approval"]


def test_a_deployed_run_that_fails_is_told(told: Told, home: Path) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    assert Deployed(pay_beneficiaries, file=str(home / "no.csv"), run_key="absent").go().name == "InputRejected"
    assert [said["title"] for said in told.posts] == ["run absent: input rejected"]


def test_who_fails_by_a_command_is_not_told(told: Told, home: Path) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    assert pay_beneficiaries(str(home / "no.csv"), "nothing", return_state=True).name == "InputRejected"
    assert not told.posts


def test_a_place_that_cannot_be_asked_for_takes_no_notice_from_the_next(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.blocks.core import Block

    from flows.reconcile_transactions import reconcile_transactions

    def unreachable(*_: object, **__: object) -> None:
        raise httpx.ConnectError("no server")

    monkeypatch.setenv("TREASURY_NOTICES", f"custom-webhook/ours {told.places}")
    monkeypatch.setattr(Block, "load", unreachable)
    reconcile_transactions(return_state=True)
    assert len(told.mailbox.mails) == len(told.posts) == 1


@pytest.mark.parametrize("breaks", ["flows.pay_beneficiaries.pay_sheet", "tasks.watched.open_desk"])
def test_a_deployed_run_that_fails_is_told_whatever_broke(
    breaks: str, told: Told, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pay_beneficiaries import pay_beneficiaries

    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left")

    run = Deployed(pay_beneficiaries, file=str(home / "no.csv"), run_key="broken")
    module, _, name = breaks.rpartition(".")
    monkeypatch.setattr(sys.modules[module], name, broken)
    assert run.go().is_failed()
    [said] = told.posts
    assert said["title"].startswith("run broken: ")


def test_the_notice_of_a_run_says_its_outcomes() -> None:
    summary = {"counts": {"settled": 3, "held": 1}}
    found = notice_of_run("pay-beneficiaries", "payroll", "NeedsAttention", summary)
    assert found.subject == "run payroll: needs attention"
    assert found.body.splitlines() == [
        "run payroll: needs attention.",
        "3 settled, 1 held.",
        "What is to do is shown by: treasury status",
    ]
    assert notice_of_run("reconcile-transactions", None, "Failed", None).subject == "reconcile-transactions: failed"


def test_the_notice_of_a_night_says_what_keeps_it_from_being_green() -> None:
    unread = {"currency": "VND", "judgement": "unreadable"}
    night = empty_machine(verdict="incomplete", missed_days=["2026-11-18"], balances=[unread])
    found = news_of(night)
    assert found is not None
    assert found.subject == "Reconciliation: incomplete, 0 new"
    assert found.body.splitlines()[1:] == [
        "No report of everything was made on 1 day: 2026-11-18.",
        "Balance of VND: could not be read.",
    ]


def test_a_place_that_is_neither_is_refused() -> None:
    assert read_settings({"TREASURY_NOTICES": " slack-webhook/a  mailto://b "}).notices == (
        "slack-webhook/a",
        "mailto://b",
    )
    with pytest.raises(ConfigurationError, match="TYPE/NAME"):
        read_settings({"TREASURY_NOTICES": "finance@example.com"})
