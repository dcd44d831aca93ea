"""The forms of the deployed flows, as a real server holds them: what is typed wrong makes no run."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from blocks.account import PartnerAccount, account_name
from blocks.desk import open_desk
from flows.commands.deployments import read_deployments
from tests.flows.deployed import Deployed
from treasury.sandbox import RunningSandbox
from treasury.testing import PARTNER_ID

pytestmark = pytest.mark.prefect

WRONG = {
    "account": "main",
    "run_key": "a/" * 101,
    "file": " ",
    "out": "",
    "follow_seconds": -1,
    "policy": "",
    "proposal": "yes",
    "token": "yes",
    "sheet": "a sheet whose name is far too long for any",
    "agreed": "no hash",
    "plan": "no hash",
    "name": " ",
    "balances": "",
    "statement": "",
    "window_days": -1,
    "currency": "usdt!",
    "notification": "slack",
    "add": "perhaps",
    "valid_rows_only": "perhaps",
    "fund": "perhaps",
    "partly": "perhaps",
    "update": "perhaps",
    "offline": "perhaps",
    "ask_all": "perhaps",
}
"""Parameter -> what no form takes."""

RIGHT = {"run_key": "payroll-2026-11", "file": "/srv/in.xlsx"}


def flows_of_deployments() -> list[Any]:
    found = []
    for declared in read_deployments():
        module, _, name = declared["entrypoint"].rpartition(".")
        found.append(getattr(importlib.import_module(module), name))
    return found


@pytest.mark.parametrize(
    "place", range(len(read_deployments())), ids=[each["entrypoint"] for each in read_deployments()]
)
def test_a_form_refuses_what_is_typed_wrong_and_says_what_is_meant(place: int, prefect_url: str) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    flow = flows_of_deployments()[place]
    form = flow.parameters.model_dump()
    needed = {name: RIGHT[name] for name in form["required"]}
    Deployed(flow, **needed)
    for name, said in form["properties"].items():
        assert said["description"], name
        with pytest.raises(PrefectHTTPStatusError) as refused:
            Deployed(flow, **{**needed, name: WRONG[name]})
        assert refused.value.response.status_code in (409, 422), name
        kinds = [each for each in said.get("anyOf", [said]) if each.get("type") == "string"]
        assert all("pattern" in each and each["examples"] for each in kinds), name


def test_a_form_picks_an_account_as_a_block_and_its_run_works_there(
    home: Path, sandbox: RunningSandbox, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect keeps where the block is, and nothing that is in it."""
    from flows.reconcile_transactions import reconcile_transactions

    desk = open_desk()
    identity = desk.account.identity
    for name in ("TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"):
        monkeypatch.delenv(name)
    block = PartnerAccount(base_url=sandbox.base_url, partner_id=PARTNER_ID, private_key_file=str(key_file))
    saved = block.save("picked", overwrite=True)
    picked = {"$ref": {"block_document_id": str(saved)}}
    for given in (picked, {"$ref": {"block_document_slug": "partner-account/picked"}}):
        run = Deployed(reconcile_transactions, account=given)
        ended = run.go()
        assert ended.name in ("Reconciled", "Warnings"), ended.message
        assert run.run.parameters["account"] == given
    assert account_name(picked) == account_name(PartnerAccount.load("picked")) == "picked"
    assert open_desk("picked").account.identity == identity
    assert reconcile_transactions(account="picked", return_state=True).name == ended.name
    assert reconcile_transactions(account=PartnerAccount.load("picked"), return_state=True).name == ended.name
    assert account_name(None) is None
    unsaved: Any = PartnerAccount(base_url=sandbox.base_url, partner_id=PARTNER_ID, private_key_file=str(key_file))
    refused = reconcile_transactions(account=unsaved, return_state=True)
    assert (refused.name, "has to be saved first" in str(refused.message)) == ("Failed", True)
