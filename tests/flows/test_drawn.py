"""The graphs of `docs/flows.md`: drawn of what Prefect's server shows of each flow. `GRAPHS=write` writes them anew."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import data
from tests.flows.graph import Graph
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect

PAGE = Path(__file__).parents[2] / "docs" / "flows.md"
README = Path(__file__).parents[2] / "README.md"
MAIN = "pay-beneficiaries"
"""The flow whose graph the README has, too."""


def drawn(graph: Graph) -> str:
    """The tasks of a run and what each was given by others, as Mermaid: tasks of one kind are one box."""
    kinds = {name: each["task_key"].rpartition("-")[0] for name, each in graph.tasks.items()}
    lines = dict.fromkeys(
        f"    {kinds[start]} --> {kinds[end]}" for start, end in sorted(graph.edges(), key=graph.order)
    )
    alone = [] if lines else [f"    {kind}" for kind in dict.fromkeys(kinds.values())]
    return "\n".join(["```mermaid", "graph LR", *lines, *alone, "```"])


def ran(*calls: tuple[Any, dict[str, Any]]) -> Iterator[tuple[str, Graph]]:
    for flow, parameters in calls:
        yield flow.name, Graph(flow(**parameters, return_state=True))


@pytest.mark.costly("runs every flow")
def test_the_page_draws_what_the_server_shows(home: Path, sandbox: RunningSandbox) -> None:
    from flows.approve_and_pay import approve_and_pay
    from flows.collect_payments import collect_payments
    from flows.issue_deposit_addresses import issue_deposit_addresses
    from flows.pay_beneficiaries import pay_beneficiaries
    from flows.pay_qr_codes import pay_qr_codes
    from flows.provision_card_users import provision_card_users
    from flows.rebalance_treasury import rebalance_treasury
    from flows.reconcile_transactions import reconcile_transactions
    from flows.withdraw_assets import withdraw_assets

    limit = home / "limit.toml"
    limit.write_text('[payouts.one_approval_above]\nUSDT_TRC20 = "1"\n[payouts]\nduplicate_days = 0\n')
    sheet, follow = str(data.path("beneficiaries.csv")), {"follow_seconds": 120}
    waits = {"file": sheet, "run_key": "waits", "policy": str(limit)}
    pay_beneficiaries(**waits, return_state=True)
    graphs = dict(
        ran(
            (rebalance_treasury, {"policy": str(data.path("treasury_policy.toml")), **follow}),
            (pay_beneficiaries, {"file": sheet, "run_key": "drawn", **follow}),
            (approve_and_pay, {"run_key": "waits", "name": "Somebody Else", **follow}),
            (withdraw_assets, {"file": str(data.path("withdrawals.csv")), "run_key": "drawn-out", **follow}),
            (pay_qr_codes, {"file": str(data.path("qr_codes.csv")), "run_key": "drawn-codes", **follow}),
            (collect_payments, {"file": str(data.path("invoices.csv")), "run_key": "drawn-in"}),
            (issue_deposit_addresses, {"file": str(data.path("deposit_addresses.csv"))}),
            (provision_card_users, {"file": str(data.path("card_users.csv"))}),
            (reconcile_transactions, {}),
        )
    )
    blocks = {name: f"## {name}\n\n{drawn(graph)}\n" for name, graph in graphs.items()}
    head = PAGE.read_text().partition("\n## ")[0] if PAGE.exists() else "# Flows\n"
    page = head.rstrip() + "\n\n" + "\n".join(blocks.values())
    if os.environ.get("GRAPHS") == "write":
        readme, before = README.read_text(), PAGE.read_text()
        [old] = [each for each in before.split("\n\n") if each.startswith("```mermaid") and each in readme]
        PAGE.write_text(page)
        README.write_text(readme.replace(old.rstrip(), drawn(graphs[MAIN])))
    assert PAGE.read_text() == page, "the flows' graphs changed: look at the difference, then GRAPHS=write"
    assert drawn(graphs[MAIN]) in README.read_text()
