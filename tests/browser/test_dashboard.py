"""A payout from start to end in Prefect's dashboard in Chromium: its form, its plan, an approver's token, its end."""

import re
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import httpx
import pytest

from flows.commands.prefect_server import free_port
from tests.browser.chromium import PROGRAM, browser
from tests.browser.dashboard import Dashboard
from tests.commands.approvers import key, with_people
from tests.commands.office import Office
from treasury.sandbox import RunningSandbox

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed (apt-get install chromium)"),
]


class Served(NamedTuple):
    office: Office
    sandbox: RunningSandbox
    dashboard: Dashboard
    deployments: dict[str, str]
    """Name of a flow -> the id of its deployment."""


@pytest.fixture(scope="module")
def served(
    open_sandbox: Callable[..., RunningSandbox],
    open_office: Callable[..., Office],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """`treasury serve` of people with keys, and somebody who signed in to its dashboard."""
    sandbox, port = open_sandbox(), free_port()
    office = open_office(sandbox.base_url, own_prefect=True)
    with_people(office)
    with office.running("serve", "--port", str(port)) as process:
        assert process.stdout is not None
        assert any(line.startswith("serving") for line in process.stdout)
        password = (office.home / "prefect.auth").read_text().strip()
        user, _, secret = password.partition(":")
        url = f"http://127.0.0.1:{port}"
        found = httpx.post(f"{url}/api/deployments/filter", json={}, auth=(user, secret)).json()
        deployments = {each["entrypoint"].rpartition(".")[2]: each["id"] for each in found}
        with browser(tmp_path_factory.mktemp("profile")) as tab:
            dashboard = Dashboard(tab, f"{url}/v2")
            dashboard.sign_in(password)
            yield Served(office, sandbox, dashboard, deployments)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def starts(served: Served, run_key: str, account: str) -> tuple[str, str]:
    """Somebody starts a payout with its form; its run, and the page of its plan, once it waits."""
    sheet = served.office.sheet(("a", "20", account), name=f"{run_key}.csv")
    dashboard = served.dashboard
    run = dashboard.submit(served.deployments["pay_beneficiaries"], file=str(sheet), run_key=run_key)
    dashboard.open(f"/runs/flow-run/{run}", "Suspended")
    dashboard.tab.click(
        "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText.trim() === 'Artifacts')"
    )
    newest = "document.querySelector('a[href*=\"/artifacts/artifact/\"]')"  # the newest is first
    dashboard.follow("document.querySelector('a[href*=\"/artifacts/key/waiting-plan\"]')", newest)
    parts = f"['Plan of {run_key} waits for approval', 'Debits at most']"
    dashboard.follow(newest, f"{parts}.every((part) => (document.body?.innerText ?? '').includes(part))")
    return run, dashboard.tab.text()


@pytest.mark.costly("a browser, and a server that serves")
def test_a_payout_waits_is_read_and_is_paid_with_a_token_of_another_machine(
    served: Served, open_office: Callable[..., Office]
) -> None:
    run, plan = starts(served, "form", "12345670001")
    for part in ("1 approval(s)", "20 USDT_TRC20", "first payment to this account", "above one_approval_above (10)"):
        assert part in plan
    assert "12345670001" not in plan  # whoever sees the dashboard sees it masked
    [code] = set(re.findall(r"--plan ([0-9]+-[0-9a-f]{64})", plan))
    elsewhere = open_office("http://127.0.0.1:9", prefect=False)
    for name in ("TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"):
        del elsewhere.environ[name]
    printed = elsewhere.run("approve", "form", "--plan", code, "--key", key(served.office, "ben"), "--print")
    assert printed.code == 0, printed.err
    assert served.sandbox.orders() == []
    dashboard = served.dashboard
    dashboard.resume(run, "at most 20 USDT_TRC20 leave", Name="Ben Example")
    dashboard.open(f"/runs/flow-run/{run}", "Suspended")
    assert served.sandbox.orders() == []
    dashboard.resume(run, "Not approved: the approval of run form", Token=printed.out.strip())
    dashboard.open(f"/runs/flow-run/{run}", "Settled")
    assert [order["effects"] for order in served.sandbox.orders()] == [1]
    assert served.office.results("form")["a"]["approved_by"] == "ben"


@pytest.mark.proof
def test_a_payout_whose_plan_was_rejected_ends_rejected(served: Served) -> None:
    before = len(served.sandbox.orders())
    run, _ = starts(served, "no", "12345670021")
    said = served.office.run("reject", "no", "--key", key(served.office, "cleo"), "--why", "the amount is wrong")
    assert said.code == 0, said.err  # it resumes the run, which ends so
    served.dashboard.open(f"/runs/flow-run/{run}", "Rejected")
    assert len(served.sandbox.orders()) == before
