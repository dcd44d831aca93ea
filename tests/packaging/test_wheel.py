"""The wheel: what is in it, and that it works where the checkout is not."""

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.commands.office import eventually, processes_with
from treasury.sandbox.settings import DEFAULT_BALANCES

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"flows", "tasks", "blocks", "treasury", "data"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout without a network."""
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_five_packages_their_data_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    expected = {str(file.relative_to(ROOT)) for top in PACKAGES for file in (ROOT / top).rglob("*.py")}
    assert expected <= names
    for name in ("beneficiaries.csv", "card_users.csv", "balances.csv", "treasury_policy.toml", "README.md"):
        assert f"data/{name}" in names
    assert "flows/prefect.yaml" in names
    for name in ("reconciliation.html.j2", "reconciliation.css", "reconciliation.js"):
        assert f"treasury/reports/templates/{name}" in names
    for top in PACKAGES - {"data"}:
        assert f"{top}/__init__.py" in names
        assert f"{top}/py.typed" in names  # a misspelt import fails under mypy, also in flows of one's own
    for name in names:
        assert not name.endswith((".pem", ".key", ".db", ".pyc")), name


@dataclass(frozen=True)
class Installed:
    """The wheel where the checkout is not: its folder, and how Python is started so that only it is found."""

    folder: Path
    home: Path
    environ: dict[str, str]

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # -S: no .pth file is read, so that an editable installation of the checkout is not found.
        return subprocess.run(
            [sys.executable, "-S", "-P", *arguments],
            env=self.environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("installed")
    folder = home / "packages"
    zipfile.ZipFile(wheel).extractall(folder)
    libraries = [entry for entry in sys.path if entry.endswith("site-packages")]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(folder), *libraries]),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    return Installed(folder, home, environ)


def test_all_of_it_is_imported_from_the_wheel(installed: Installed) -> None:
    where = (
        "import flows, tasks, blocks, treasury, data; print(*(m.__file__ for m in (flows, tasks, blocks, treasury)))"
    )
    asked = installed.python("-c", where)
    assert all(Path(place).is_relative_to(installed.folder) for place in asked.stdout.split()), asked.stderr
    asked = installed.python("-c", "from flows.commands.deployments import read_deployments as r; print(len(r()))")
    assert int(asked.stdout) >= 4, asked.stderr


@pytest.fixture(scope="session")
def demo(installed: Installed) -> subprocess.CompletedProcess[str]:
    """The demo, once: from the wheel alone, without any Prefect server."""
    return installed.python("-m", "flows", "demo", "--home", str(installed.home / "demo"))


@pytest.mark.prefect
@pytest.mark.proof  # `.ci/run` runs the demo, too
@pytest.mark.costly("the whole demo")
def test_the_demo_runs_from_nothing_and_leaves_nothing_running(
    demo: subprocess.CompletedProcess[str], installed: Installed
) -> None:
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stdout.strip().splitlines()[-1] == "verdict: reconciled"
    assert "Traceback" not in demo.stderr
    eventually(lambda: not processes_with(f"HOME={installed.home}"), 10, "the demo left something running")


@pytest.mark.prefect
@pytest.mark.proof
def test_the_demos_table_agrees_with_the_sandboxs_books(
    demo: subprocess.CompletedProcess[str], installed: Installed
) -> None:
    [folder] = [each for each in (installed.home / "demo").iterdir() if (each / "books.json").exists()]
    books = json.loads((folder / "books.json").read_text())
    assert {Decimal(total) for total in books["sums"].values()} == {Decimal(0)}
    by_flow: dict[str, dict[str, Decimal]] = {}
    for order in books["orders"]:
        sums = by_flow.setdefault(FLOWS[order["operation"]], {})
        on_top = Decimal(order["fee"]) if order["operation"] == "submit_scan_to_pay" else Decimal(0)
        sums[order["currency"]] = sums.get(order["currency"], Decimal(0)) + Decimal(order["amount"]) + on_top
        assert order["effects"] == (0 if order["operation"] == "pay" else 1)  # nobody paid an invoice
    assert by_flow.keys() == set(FLOWS.values())
    for flow, name in FOLDERS.items():
        summary = json.loads((folder / name / "run.json").read_text())
        told = {currency: Decimal(outcomes["settled"]) for currency, outcomes in summary["sums"].items()}
        assert told == by_flow[flow]
        assert table_rows(demo.stdout)[flow] == by_flow[flow]
    _partner_balances_follow(books)


FLOWS = {
    "conversion_execute": "rebalance treasury",
    "payout": "pay beneficiaries",
    "create_fiat_payout": "pay beneficiaries",
    "withdraw": "withdraw assets",
    "submit_scan_to_pay": "pay QR codes",
    "pay": "collect payments",
}
"""Operation -> the flow of the demo's table that it belongs to."""

FOLDERS = {
    "rebalance treasury": "rebalance",
    "pay beneficiaries": "pay",
    "withdraw assets": "withdraw-assets",
    "pay QR codes": "pay-qr-codes",
}
"""Flow -> the folder of its results, where the table has sums."""


def table_of(out: str) -> str:
    """The table that the demo prints."""
    return out.partition("What ran")[2]


def table_rows(out: str) -> dict[str, dict[str, Decimal]]:
    """Flow -> currency -> the sum that the table shows."""
    found: dict[str, dict[str, Decimal]] = {}
    flow = ""
    for line in table_of(out).splitlines():
        named = re.match(
            rf"\s{{2}}({'|'.join(dict.fromkeys(FLOWS.values()))}|issue deposit|provision|reconcile)\s", line
        )
        flow = named[1] if named else flow
        for amount, currency in re.findall(r"\s([0-9]+(?:\.[0-9]+)?) ([A-Z][A-Z0-9_]+) settled", line):
            found.setdefault(flow, {})[currency] = Decimal(amount)
    return found


def _partner_balances_follow(books: dict[str, Any]) -> None:
    """Check that the partner has what it opened with, less what left, more what trades brought."""
    moved: dict[str, Decimal] = {}
    for order in (each for each in books["orders"] if each["operation"] != "pay"):  # nobody paid an invoice
        moved[order["currency"]] = moved.get(order["currency"], Decimal(0)) - Decimal(order["debit"])
        if order["operation"] == "conversion_execute":
            got = order["credit_currency"]
            moved[got] = moved.get(got, Decimal(0)) + Decimal(order["credit"])
    assert moved
    for currency, change in moved.items():
        opening = DEFAULT_BALANCES.get(currency, Decimal(0))
        assert Decimal(books["balances"]["available"][currency]) == opening + change
