"""Somebody gives a table a trigger that takes away what is written: it is not said to be recorded; or changes it."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from flows.commands.health import say_reports
from tests.engine.answers import OpenDesk
from tests.engine.approvers import adopt, change
from tests.engine.nights import ROWS, balance, classes, take
from tests.engine.runs import night, pay, sheet
from treasury.errors import ConfigurationError
from treasury.ledger.changed_by_hand import made_by_hand
from treasury.ledger.stops import stop_sending
from treasury.payments.desk import Desk

pytestmark = pytest.mark.both_databases


@pytest.fixture
def desk(open_desk: OpenDesk, start_sandbox: Any) -> Desk:
    return open_desk(start_sandbox().base_url)


DROPS = {
    "sqlite": ["CREATE TRIGGER drops AFTER INSERT ON {0} BEGIN DELETE FROM {0} WHERE id = NEW.id; END"],
    "postgresql": [
        "CREATE FUNCTION drops() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN DELETE FROM {0} WHERE id = NEW.id; RETURN NULL; END $$",
        "CREATE TRIGGER drops AFTER INSERT ON {0} FOR EACH ROW EXECUTE FUNCTION drops()",
    ],
}


def test_a_stop_that_the_database_does_not_keep_is_not_called_made(desk: Desk) -> None:
    adopt(desk, {}, payouts={"max_per_payout": {"USDT_TRC20": "1000"}})
    for statement in DROPS["sqlite" if desk.settings.ledger_url.startswith("sqlite") else "postgresql"]:
        change(desk, text(statement.format("decisions")))
    with pytest.raises(ConfigurationError, match="did not keep"):
        stop_sending(desk.ledger, "Ada Example", "wrong list")


RAISES = {
    "sqlite": [
        "CREATE TRIGGER hides AFTER UPDATE OF after ON sweep_balances BEGIN UPDATE sweep_balances SET after ="
        " CAST(CAST(after AS DECIMAL) + 25 AS TEXT) WHERE sweep_id = NEW.sweep_id AND currency = NEW.currency; END"
    ],
    "postgresql": [
        "CREATE FUNCTION hides() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.after :="
        " CAST(CAST(NEW.after AS DECIMAL) + 25 AS TEXT); RETURN NEW; END $$",
        "CREATE TRIGGER hides BEFORE UPDATE OF after ON sweep_balances FOR EACH ROW EXECUTE FUNCTION hides()",
    ],
}


def test_the_morning_report_tells_a_trigger_that_raises_each_balance(desk: Desk, tmp_path: Path) -> None:
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    assert classes(night(desk, tmp_path / "0")) == {}
    for statement in RAISES["sqlite" if desk.settings.ledger_url.startswith("sqlite") else "postgresql"]:
        change(desk, text(statement))
    take(desk, "by-hand", "25")
    for number in (1, 2):
        report = night(desk, tmp_path / f"{number}")
        assert balance(report)["unexplained"] == "0"
        assert [each["class"] for each in report["breaks"]] == ["changed_in_ledger"]
    with pytest.raises(ConfigurationError, match="trigger hides"):
        say_reports(desk.ledger)


def test_a_view_of_somebodys_own_is_nobodys_trouble(desk: Desk, tmp_path: Path) -> None:
    pay(desk, sheet(tmp_path, ROWS[0]), tmp_path / "out", seconds=20)
    assert classes(night(desk, tmp_path / "0")) == {}
    change(desk, text("CREATE VIEW paid AS SELECT run_key, amount FROM orders WHERE state = 'settled'"))
    assert classes(night(desk, tmp_path / "1")) == {}
    assert say_reports(desk.ledger) == "no report was changed by hand"


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_of_two_triggers_of_one_name_none_hides_the_other(desk: Desk) -> None:
    """Somebody accepted the one of the one table; the other table's is told all the same."""
    body = "CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$"
    change(desk, text(body))
    for table in ("breaks", "reports"):
        change(desk, text(f"CREATE TRIGGER audit BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION seen()"))
    assert sorted(made_by_hand(desk.ledger)) == ["trigger audit of breaks", "trigger audit of reports"]
