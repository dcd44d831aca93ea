"""Names and reasons that people give are kept on one line, and hold nothing that is not shown as it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.approvers import ASKS
from tests.engine.intents import commit
from treasury.approving.judging import ApprovalRules
from treasury.approving.tokens import Verb
from treasury.errors import InputError
from treasury.ledger.approvals import approve_plan, reject_plan
from treasury.ledger.decisions import Word
from treasury.ledger.kept_breaks import withdraw_acceptances
from treasury.ledger.ledger import Ledger
from treasury.ledger.policies import adopt_policy
from treasury.ledger.stops import lift_stop, stop_sending, stops_in_force
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy

pytestmark = pytest.mark.sqlite_alone

BY_NAME: dict[str, Callable[[Desk, str], object]] = {
    "stop": lambda desk, name: stop_sending(desk.ledger, name, "why"),
    "lift": lambda desk, name: lift_stop(desk.ledger, name),
    "adopt": lambda desk, name: adopt_policy(
        desk.ledger, parse_policy({"payouts": ASKS}, "policy.toml"), "policy.toml", by=name, os_user="ana"
    ),
    "approve": lambda desk, name: approve_plan(desk.ledger, "run", ApprovalRules(), "ana", name=name),
    "reject": lambda desk, name: reject_plan(desk.ledger, "run", by=name, why="why", os_user="ana"),
    "cancel": lambda desk, name: cancel(desk, "run", by=name, why="why"),
    "any other": lambda _, name: Word(Verb.RELEASE, name, "why", "ana"),
    "withdraw": lambda desk, name: withdraw_acceptances(desk.ledger, "b1", by=name, why="why", os_user="ana"),
}
WHY: dict[str, Callable[[Desk, str], object]] = {
    "stop": lambda desk, why: stop_sending(desk.ledger, "Ana", why),
    "reject": lambda desk, why: reject_plan(desk.ledger, "run", by="Ana", why=why, os_user="ana"),
    "cancel": lambda desk, why: cancel(desk, "run", by="Ana", why=why),
}


@pytest.fixture
def desk(open_desk: Callable[..., Desk], service: Any) -> Desk:
    made = open_desk(service.base_url)
    commit(made.ledger, "a")
    return made


@pytest.mark.parametrize("name", ["Ana\x1b[8m", "An\u200ba", "\ud800na", "\u202eanA"])
@pytest.mark.parametrize("says", BY_NAME.values(), ids=BY_NAME)
def test_a_name_with_what_cannot_be_shown_is_refused_and_nothing_is_done(
    says: Callable[[Desk, str], object], name: str, desk: Desk
) -> None:
    with pytest.raises(InputError, match=r"holds a character that cannot be shown \(U\+"):
        says(desk, name)
    assert stops_in_force(desk.ledger) == []
    assert [order.state for order in desk.ledger.orders()] == ["prepared"]


@pytest.mark.parametrize("says", WHY.values(), ids=WHY)
def test_so_is_a_reason(says: Callable[[Desk, str], object], desk: Desk) -> None:
    with pytest.raises(InputError, match="U\\+001B"):
        says(desk, "look\x1b[2K")
    assert stops_in_force(desk.ledger) == []


def test_a_reason_of_several_lines_is_one_line(open_ledger: Callable[..., Ledger], tmp_path: Path) -> None:
    ledger = open_ledger()
    stop_sending(ledger, " Ana \n Example", "call\nnothing needs a person")
    [stop] = stops_in_force(ledger)
    assert (stop.name, stop.why) == ("Ana Example", "call nothing needs a person")
