"""Each cell of the table of work (docs/operations.md) on real HTTP: the command leads to the operation, from its sheet,
after its preview, by its flow, to its results, and the night after tells of it.
"""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

import data
from tests.commands.office import Ended, Office, read_rows
from tests.commands.proxy import Proxy, running_proxy
from tests.commands.users import ANN, HEAD, PNG
from tests.contract.work import ORDERS, RECEIPTS, USERS, WORK
from tests.engine.rounds import policy
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Effect
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

ACTING = {each.path for each in CATALOGUE.values() if each.effect is not Effect.READS}
SHEETS = {"pay": "beneficiaries.csv", "withdraw": "withdrawals.csv", "scan-pay": "qr_codes.csv"}
SHEETS |= {"collect": "invoices.csv", "addresses": "deposit_addresses.csv"}
FOLDERS = {"addresses": "deposit-addresses", "provision": "card-users"}


@dataclass(frozen=True)
class Story:
    """A command as it was lived: its sheet, its preview, its run, and what the service was asked meanwhile."""

    began: datetime
    sheet: Path | None
    previewed: Ended
    asked_before: frozenset[str]
    plan: bool
    done: Ended
    asked: frozenset[str]
    folder: Path
    night: Path
    """The morning report after it."""


class Stories:
    """Lives the story of each command once."""

    def __init__(self, office: Office, proxy: Proxy, rules: Path) -> None:
        self.office = office
        self._proxy = proxy
        self._rules = rules
        self._lived: dict[str, Story] = {}

    def of(self, command: str) -> Story:
        if command not in self._lived:
            self._lived[command] = self._live(command)
        return self._lived[command]

    def _live(self, command: str) -> Story:
        began, office, sheet = datetime.now(UTC), self.office, None
        if command == "reconcile":
            previewed = [self.of(each).done for each in ("withdraw", "provision")][0]  # noqa: RUF015 - both are lived
            night, asked = self._night(command)
            return Story(began, None, previewed, frozenset(), False, previewed, asked, night, night)
        line: list[object] = [command]
        if command == "rebalance":
            line += ["--policy", self._rules]
        elif command == "provision":
            sheet = office.file("users.csv", HEAD + ANN)
            line += [sheet]
        else:
            sheet = data.path(SHEETS[command])
            line += [sheet, *([] if command == "addresses" else ["--run-key", f"work-{command}"])]
        self._proxy.paths.clear()
        looks = ["--dry-run"] if "--dry-run" in PREVIEWS[command] else []
        previewed, before = office.run(*line, *looks), frozenset(self._proxy.paths)
        folders = [self._folder(command), *(office.home / "runs").glob("rebalance-*")]
        plan = any((folder / "plan.html").exists() for folder in folders)
        if command == "provision":
            self._provision()
        done = office.run(*line, *([] if looks else ["--yes", "--follow", "20"]))
        if command == "rebalance":
            [folder] = (office.home / "runs").glob("rebalance-*")
        else:
            folder = self._folder(command)
        asked = frozenset(self._proxy.paths)
        return Story(began, sheet, previewed, before, plan, done, asked, folder, self._night(command)[0])

    def _night(self, command: str) -> tuple[Path, frozenset[str]]:
        """A night after it: where its report is, and what it asked."""
        self._proxy.paths.clear()
        folder = self.office.home / f"night-{command}"
        self.office.run("reconcile", "--out", folder)
        return folder, frozenset(self._proxy.paths)

    def _folder(self, command: str) -> Path:
        return self.office.home / "runs" / FOLDERS.get(command, f"work-{command}")

    def _provision(self) -> None:
        """Users with a link of another level, with another e-mail, and one who exists and hands identity data in."""
        (self.office.home / "front.png").write_bytes(PNG)
        first = "user_xid,email,level_name\nu-1,ann@example.com,LEVEL-2\nu-2,bo@example.com,\n"
        self.office.run("provision", self.office.file("first.csv", first))
        self.office.run("provision", self.office.file("b.csv", "user_xid,email\nu-2,bea@example.com\n"), "--update")
        self.office.run("provision", self.office.file("c.csv", HEAD + ANN.replace("u-1,ann@", "u-3,cy@")))


PREVIEWS = {work.command: work.preview for work in WORK.values()}


@pytest.fixture(scope="module")
def stories(
    open_sandbox: Callable[..., RunningSandbox],
    open_office: Callable[..., Office],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stories]:
    balances = {"USDT": Decimal(90_000), "USDT_TRC20": Decimal(90_000), "ETH": Decimal(10), "BTC": Decimal(1)}
    with running_proxy(open_sandbox(balances=balances).base_url) as proxy:
        office = open_office(proxy.base_url)
        (office.home / "front.png").write_bytes(PNG)
        yield Stories(office, proxy, policy(tmp_path_factory.mktemp("rules"), BTC=("0.2", "0.4", "0.6")))


@pytest.mark.parametrize("name", WORK)
def test_each_cell_of_the_table_of_work_is_so(name: str, stories: Stories, prefect_url: str) -> None:
    work, story = WORK[name], stories.of(WORK[name].command)
    assert story.done.code in (0, 4), story.done.out + story.done.err
    assert CATALOGUE[name].path in story.asked, sorted(story.asked)
    if work.sheet:
        assert story.sheet is not None
        template = stories.office.home / f"{name}.csv"
        assert stories.office.run("template", work.sheet, "--out", template).code == 0
        assert set(columns(story.sheet)) <= set(columns(template))
    if work.preview:
        assert story.plan == (work.preview == "plan.html"), story.previewed.out + story.previewed.err
        assert story.previewed.code in (0, 3), story.previewed.err
        assert not story.asked_before & ACTING
    if work.results:
        assert read_rows(story.folder / work.results)
    assert flows_since(prefect_url, work.flow, story.began)
    if work.reconciled:
        judge_night(name, work.reconciled, story.night)


def judge_night(name: str, what: str, folder: Path) -> None:
    """Look for an operation in the night after it: its orders by class, its receipts, or the card users."""
    orders = [each for each in read_rows(folder / "orders.csv").values() if each["operation"] == name]
    assert what != ORDERS or {each["class"] for each in orders} in ({"matched"}, {"matched", "in_progress"})
    report = json.loads((folder / "reconciliation.json").read_text())
    assert what != RECEIPTS or sum(report["money_in"]["invoices"].values()) == 3
    assert what != USERS or report["card_users"]["created"] == 3


def columns(file: Path) -> list[str]:
    with file.open(newline="", encoding="utf-8-sig") as opened:
        return next(csv.reader(opened))


def flows_since(prefect_url: str, flow: str, began: datetime) -> int:
    """How many runs of a flow Prefect's server has since then."""
    wanted = {
        "flows": {"name": {"any_": [flow.replace("_", "-")]}},
        "flow_runs": {"start_time": {"after_": began.isoformat()}},
    }
    return int(httpx.post(f"{prefect_url}/flow_runs/count", json=wanted).raise_for_status().json())
