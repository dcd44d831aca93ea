"""Somebody who has the database, and not the ledger's key, says that an account was paid before: nothing that is held
for its payee leaves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.engine.payees import adopt, named
from tests.engine.rounds import kinds
from tests.engine.runs import pay
from treasury.ledger import schema
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases

ORDERS = schema.orders.c
LIMITS = [{"new_payee_above": {"USDT_TRC20": "100"}}, {"cooling_days": 3}]


def of_row(desk: Desk, row_ref: str, column: str) -> Any:
    return desk.ledger.read(select(ORDERS[column]).where(ORDERS.row_ref == row_ref))[0][0]


def change(desk: Desk, row_ref: str, **values: Any) -> None:
    statement = update(schema.orders).where(ORDERS.row_ref == row_ref).values(**values)
    desk.ledger.write(lambda connection: connection.execute(statement).rowcount)


@pytest.mark.parametrize("limits", LIMITS, ids=["new payee", "other account"])
@pytest.mark.parametrize("how", ["its payee", "no payee", "the payee of what was paid"])
def test_one_value_of_the_database_makes_no_payee_known(
    open_desk: Callable[..., Desk], start_sandbox: Any, tmp_path: Path, limits: dict[str, Any], how: str
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    adopt(desk, **limits)
    known = named(tmp_path, ("known", "9", "12345670001", "Ann Example"), name="known.csv")
    large = named(tmp_path, ("large", "900", "12345670002", "Ann Example"), name="large.csv")
    again = named(tmp_path, ("again", "901", "12345670002", "Ann Example"), name="again.csv")
    assert pay(desk, known, tmp_path / "1", "known")["counts"] == {"settled": 1}
    assert pay(desk, large, tmp_path / "2", "large")["counts"] == {"held": 1}
    match how:
        case "its payee":
            change(desk, "large", payee=of_row(desk, "known", "payee"))
        case "no payee":
            change(desk, "large", payee=None)
        case _:
            change(desk, "known", payee=of_row(desk, "large", "payee"))
    assert pay(desk, large, tmp_path / "2", "large")["counts"] == {"held": 1}
    if limits is LIMITS[0]:  # another account of a name that nobody is known under now is none
        assert pay(desk, again, tmp_path / "3", "again")["counts"] == {"held": 1}
        assert kinds(sandbox) == ["payout"]
