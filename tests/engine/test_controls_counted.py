"""How often each control acted: counted from the ledger, for the page of an auditor."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.engine.runs import HEADER, pay
from treasury.ledger.counts import COUNTED, controls_of
from treasury.ledger.policies import adopt_policy
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.payments.desk import Desk
from treasury.payments.resolving import release_orders
from treasury.policy.model import parse_policy

ROOT = Path(__file__).resolve().parents[2]


def test_what_controls_did_is_counted_in_its_period(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    before = desk.ledger.now()
    limits = {"max_per_run": {"USDT_TRC20": "1000"}, "new_payee_above": {"USDT_TRC20": "50"}}
    adopt_policy(desk.ledger, parse_policy({"payouts": limits}, "policy"), "policy", by="Ada Example", os_user="ada")
    rows = [
        f"r{n},direct,60,USDT_TRC20,IDR,bank_transfer,1234567000{n},Ann Example,ID,1000120,0812,p@b.example,"
        for n in range(2)
    ]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([HEADER, *rows]) + "\n")
    assert pay(desk, file, tmp_path / "out")["counts"] == {"held": 2}
    release_orders(desk, "run", None, by="Bob Example", why="asked")
    stop_sending(desk.ledger, "Cy Example", "a look")
    lift_stop(desk.ledger, "Cy Example")
    assert pay(desk, file, tmp_path / "out")["counts"] == {"settled": 2}
    acted = {"policies adopted": 1, "payments held": 2, "holds released": 2, "stops of all sending": 1}
    assert controls_of(desk.ledger, before, desk.ledger.now() + 1) == dict.fromkeys(COUNTED, 0) | acted
    assert controls_of(desk.ledger, 0, before) == dict.fromkeys(COUNTED, 0)


def test_the_page_names_every_count_and_places_that_are_there() -> None:
    page = (ROOT / "docs" / "controls.md").read_text(encoding="utf-8")
    counted = {name for row in page.splitlines()[10:] for name in row.split("|")[-2].strip().split(", ") if name}
    assert counted == set(COUNTED)
    places = re.findall(r"`(treasury/[\w/.]+)`", page)
    assert len(places) > len(COUNTED)
    assert [place for place in places if not (ROOT / place).exists()] == []
