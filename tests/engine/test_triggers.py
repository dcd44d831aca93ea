"""Somebody gives a table a trigger that takes away what is written: it is not said to be recorded."""

from typing import Any

import pytest
from sqlalchemy import text

from tests.engine.answers import OpenDesk
from tests.engine.approvers import adopt, change
from treasury.errors import ConfigurationError
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
