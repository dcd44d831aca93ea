"""`treasury demo`: runs all flows on the sandbox, in a home of its own."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import data
from flows.commands.common import BREAKS, DONE, TROUBLE, say_files, summary_of
from flows.commands.prefect_server import prefect_api
from treasury.clock import MACHINE
from treasury.concurrency.children import child
from treasury.errors import TreasuryError
from treasury.files import write_text
from treasury.reports.results import BAD_OUTCOMES
from treasury.sandbox.keys import generate_key_pair
from treasury.settings import os_user

PARTNER_ID = "900001"
SETTLE_SECONDS = 1.0
FOLLOW_SECONDS = 20.0
RUN_KEY = "payroll-demo"


def demo(*, home: Path = Path(".demo"), seed: int = 1) -> int:
    """Start a sandbox, make keys, and run the flows on the sample files.

    Nothing real is touched, nothing is left running.

    Parameters
    ----------
    home:
        Folder for everything it writes; each demo gets a folder of its own in it.
    seed:
        What the sandbox's rates follow from.

    """
    folder = home.absolute() / f"{MACHINE.now():%Y%m%d-%H%M%S}"
    # One home for all demos: only the first start of Prefect on it has tables to make.
    os.environ["PREFECT_HOME"] = str(home.absolute() / "prefect")
    os.environ.pop("PREFECT_API_URL", None)
    with _sandbox(folder, seed) as base_url:
        _use_account(folder, base_url)
        with prefect_api():
            stories = _run_flows(folder)
        books = _read_books(base_url)
    write_text(folder / "books.json", books)
    _show(stories)
    say_files([*_files(stories), folder / "books.json"])
    return _finish(stories)


@contextmanager
def _sandbox(folder: Path, seed: int) -> Iterator[str]:
    """A sandbox in a process of its own; its address."""
    private, public = folder / "private_key.pem", folder / "public_key.pem"
    for file, text in zip((private, public), generate_key_pair(), strict=True):
        write_text(file, text)
    arguments = ["sandbox", "--partner-id", PARTNER_ID, "--public-key", str(public), "--seed", str(seed)]
    # The sandbox prints its address to this pipe.
    with child("flows", [*arguments, "--settle", str(SETTLE_SECONDS)], stdout=-1) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http://" not in line:
            raise TreasuryError("the sandbox did not start")
        base_url = line[line.index("http://") :].strip()
        print(f"sandbox at {base_url}", flush=True)
        yield base_url


def _use_account(folder: Path, base_url: str) -> None:
    """Configure this process for the demo's account alone."""
    for name in [name for name in os.environ if name.startswith("TREASURY_")]:
        del os.environ[name]
    os.environ["TREASURY_HOME"] = str(folder)
    os.environ["TREASURY_BASE_URL"] = base_url
    os.environ["TREASURY_PARTNER_ID"] = PARTNER_ID
    os.environ["TREASURY_PRIVATE_KEY_FILE"] = str(folder / "private_key.pem")


def _run_flows(folder: Path) -> list[tuple[str, Mapping[str, Any]]]:
    from flows.collect_payments import collect_payments
    from flows.issue_deposit_addresses import issue_deposit_addresses
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.pay_qr_codes import pay_qr_codes
    from flows.provision_card_users import provision_card_users
    from flows.rebalance_treasury import rebalance_treasury
    from flows.reconcile_transactions import reconcile_transactions
    from flows.withdraw_assets import withdraw_assets

    stories: list[tuple[str, Mapping[str, Any]]] = []

    def tell(name: str, story: Mapping[str, Any]) -> None:
        print(f"  {name}: done", flush=True)
        stories.append((name, story))

    tell(
        "provision card users",
        summary_of(lambda: provision_card_users(str(data.path("card_users.csv")), str(folder / "card-users"))),
    )
    policy = str(data.path("treasury_policy.toml"))
    tell(
        "rebalance treasury",
        summary_of(lambda: rebalance_treasury(policy, str(folder / "rebalance"), follow_seconds=FOLLOW_SECONDS)),
    )
    sheet = str(data.path("beneficiaries.csv"))
    tell(
        "pay beneficiaries", summary_of(lambda: pay_beneficiaries(sheet, RUN_KEY, str(folder / "pay"), FOLLOW_SECONDS))
    )
    for name, flow, file in (
        ("withdraw assets", withdraw_assets, "withdrawals.csv"),
        ("pay QR codes", pay_qr_codes, "qr_codes.csv"),
    ):
        key = name.replace(" ", "-").lower()
        paid = summary_of(partial(flow, str(data.path(file)), key, str(folder / key), FOLLOW_SECONDS))
        tell(name, paid)
    tell(
        "issue deposit addresses",
        summary_of(lambda: issue_deposit_addresses(str(data.path("deposit_addresses.csv")), str(folder / "addresses"))),
    )
    tell(
        "collect payments",
        summary_of(lambda: collect_payments(str(data.path("invoices.csv")), "invoices-demo", str(folder / "collect"))),
    )
    reconciled = summary_of(lambda: reconcile_transactions(str(folder / "reconcile")))
    tell("reconcile", _with_accepted_opening(folder / "reconcile", reconciled))
    return stories


def _with_accepted_opening(folder: Path, report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Accept the openings of the demo's own balance accounts, as a person would, and make the report again."""
    from flows.commands.common import configured_desk
    from treasury.ledger.kept_breaks import accept_break
    from treasury.nights.reporting import report_sweep
    from treasury.nights.sweep import stored_sweep
    from treasury.policy.model import Policy
    from treasury.reconciliation.scope import Scope

    desk = configured_desk()
    for each in report["breaks"]:
        if each["class"] == "opening":
            accept_break(desk.ledger, each["id"], by="demo", os_user=os_user(), why="the sandbox's first balances")
    return report_sweep(desk, stored_sweep(desk, Scope()), folder, Policy())


def _read_books(base_url: str) -> str:
    """Read the sandbox's own books, which the table can be checked against."""
    import httpx

    books = httpx.get(f"{base_url}/sandbox/books").json()
    books["orders"] = httpx.get(f"{base_url}/sandbox/orders").json()
    return json.dumps(books, indent=2) + "\n"


def _files(stories: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    return [file for _, story in stories for file in story["files"]]


def _row(story: Mapping[str, Any]) -> tuple[str, str, str]:
    """Orders, sums, outcome of one flow."""
    if "verdict" in story:
        return str(story["orders"]), "", str(story["verdict"])
    count = sum(story["counts"].values())
    sums = [
        f"{total} {currency} {outcome}"
        for currency, by_outcome in story.get("sums", {}).items()
        for outcome, total in by_outcome.items()
    ]
    outcome = ", ".join(f"{number} {name}" for name, number in story["counts"].items())
    return str(count), "\n".join(sums), outcome or "nothing to do"


def _show(stories: list[tuple[str, Mapping[str, Any]]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, title="What ran")
    for heading in ("flow", "orders", "sums", "outcome"):
        table.add_column(heading, justify="right" if heading == "orders" else "left")
    for name, story in stories:
        table.add_row(name, *_row(story))
    Console(width=100).print(table)


def _finish(stories: list[tuple[str, Mapping[str, Any]]]) -> int:
    verdict = stories[-1][1]["verdict"]
    bad = any(story["counts"].get(outcome) for _, story in stories[:-1] for outcome in BAD_OUTCOMES)
    print(f"verdict: {verdict}")
    if verdict in ("incomplete", "breaks"):
        return BREAKS
    return TROUBLE if bad else DONE
