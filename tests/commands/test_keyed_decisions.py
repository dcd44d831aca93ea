"""Decisions where the policy lists people: each takes a key, of the right person, about this thing as it is."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.approvers import key, pay_line, policy, refused, with_people
from tests.commands.office import Ended, Office
from tests.moved_clock import MovedClock
from treasury.sandbox import RunningSandbox

COOLING = """
[payouts]
[withdrawals]
cooling_hours = 24
"""
WHY = ("--why", "called the customer")


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """An office whose policy lists ada, who works here, ben and cleo."""
    return with_people(open_office(sandbox.base_url, prefect=False), COOLING)


@pytest.fixture
def elsewhere(open_office: Callable[..., Office]) -> Office:
    """A machine that reaches no service and has no ledger."""
    return open_office("http://127.0.0.1:9", prefect=False)


def withdraw(office: Office, reference: str, amount: str = "20") -> str:
    """Send a withdrawal to an address of its own; what became of it."""
    fields = {"request_id": reference, "currency": "USDT_TRC20", "amount": amount, "customer_ref_id": "c-1"}
    line = ("call", "withdraw", "--json", json.dumps({**fields, "address": f"TXYZ{reference}"}), "--yes")
    return office.run(*line).last.partition(":")[0]


def by_key(office: Office, name: str, *line: str) -> Ended:
    return office.run(*line, "--key", key(office, name), *WHY)


def paid(sandbox: RunningSandbox, reference: str) -> int:
    return sum(order["effects"] for order in sandbox.orders() if order["request_id"] == reference)


def code_in(ended: Ended) -> str:
    """The code that a command without a key names."""
    return ended.err.split("--print --code ")[1].split()[0]


def test_what_is_held_is_released_by_a_key_that_is_not_its_makers(office: Office, sandbox: RunningSandbox) -> None:
    assert withdraw(office, "k-first") == "held"
    refused(office.run("release", "k-first", "--by", "Anybody", *WHY), "--key FILE instead of --by NAME")
    refused(by_key(office, "ada", "release", "k-first"), "ada made what it is about; somebody else has to: ben, cleo")
    refused(by_key(office, "mallory", "release", "k-first"), "does not list this key")
    refused(by_key(office, "ben", "release", "k-first", "--by", "Cleo"), "the key is ben's, not Cleo's")
    refused(office.run("release", "k-first", "--key", key(office, "ben")), "--why TEXT")
    assert (withdraw(office, "k-first"), paid(sandbox, "k-first")) == ("held", 0)
    assert by_key(office, "ben", "release", "k-first").last == "1 decided, 0 not"
    assert withdraw(office, "k-first") != "held"
    assert paid(sandbox, "k-first") == 1
    assert "ben (" in office.run("show", "k-first").out


def test_a_stop_is_anybodys_and_lifted_by_the_key_of_somebody_else(office: Office, sandbox: RunningSandbox) -> None:
    assert office.run("stop", "--by", "Somebody", "--why", "wrong list").code == 0  # as ada's user of the machine
    refused(office.run("stop", "--lift", "--by", "Mallory"), "takes the key of one of them (ada, ben, cleo)")
    for name in ("mallory", "ada"):
        refused(office.run("stop", "--lift", "--key", key(office, name)), "does not count")
    assert office.run("stop", "--key", key(office, "ben"), "--why", "wrong list, too").code == 0
    lifted = office.run("stop", "--lift", "--key", key(office, "ben"))
    assert "1 stop lifted by ben" in lifted.out
    assert "a stop by ben stands still" in lifted.out
    assert office.run("stop", "--lift", "--key", key(office, "ada")).last == "1 stop lifted by ada"


def test_a_token_of_another_machine_is_about_this_hold_alone(
    office: Office, elsewhere: Office, sandbox: RunningSandbox
) -> None:
    assert withdraw(office, "k-token") == "held"
    code = code_in(office.run("release", "k-token", "--by", "Anybody", *WHY))
    printed = elsewhere.run("release", "k-token", "--print", "--code", code, "--key", key(office, "ben"))
    assert printed.code == 0, printed.err
    token = printed.last
    refused(office.run("cancel", "k-token", "--token", token, *WHY), "the token is to release, not to cancel")
    assert withdraw(office, "k-other") == "held"
    refused(office.run("release", "k-other", "--token", token, *WHY), "signed about something else")
    stop = office.run("stop", "--lift", "--token", token)
    refused(stop, "does not count")
    assert office.run("release", "k-token", "--token", token, *WHY).last == "1 decided, 0 not"
    office.python(
        "from flows.commands.common import configured_desk\nfrom treasury.orders.states import Event, Hold\n"
        "desk = configured_desk()\n[order] = desk.ledger.orders(reference='k-token')\n"
        "desk.ledger.step(order, Event.HOLD, cause='again', reason='again', hold_kind=Hold.COOLING)\n"
    )
    refused(office.run("release", "k-token", "--token", token, *WHY), "what it is about changed since")
    assert (withdraw(office, "k-token"), paid(sandbox, "k-token")) == ("held", 0)


def test_a_kept_token_lifts_no_later_stop(office: Office) -> None:
    stop = ("stop", "--by", "Somebody", "--why", "a look first")
    assert office.run(*stop).code == 0
    token = office.run("stop", "--lift", "--print", "--key", key(office, "ben")).last
    assert office.run("stop", "--lift", "--token", token).last == "1 stop lifted by ben"
    assert office.run(*stop).code == 0
    refused(office.run("stop", "--lift", "--token", token), "what it is about changed since")


def test_what_never_left_is_cancelled_by_any_listed_key(office: Office, sandbox: RunningSandbox) -> None:
    assert withdraw(office, "k-cancel") == "held"
    refused(office.run("cancel", "k-cancel", "--by", "Ada", *WHY), "--key FILE instead of --by NAME")
    refused(by_key(office, "mallory", "cancel", "k-cancel"), "does not list this key")
    assert by_key(office, "ada", "cancel", "k-cancel").last == "1 decided, 0 not"
    assert (withdraw(office, "k-cancel"), paid(sandbox, "k-cancel")) == ("cancelled", 0)


def test_a_plan_is_rejected_by_any_listed_key(office: Office) -> None:
    limits = COOLING + '[withdrawals.one_approval_above]\nUSDT_TRC20 = "50"\n'
    line = ("policy", "adopt", policy(office, limits, "more.toml"), "--by", "ada", "--key", key(office, "ada"))
    assert office.run(*line).code == 0
    fields = {"request_id": "k-no", "currency": "USDT_TRC20", "amount": "60", "customer_ref_id": "c", "address": "TX"}
    waiting = office.run("call", "withdraw", "--json", json.dumps(fields), "--yes")
    assert waiting.code == 3, waiting.err
    refused(office.run("reject", "call-k-no", "--by", "Anybody", *WHY), "--key FILE instead of --by NAME")
    refused(by_key(office, "mallory", "reject", "call-k-no"), "does not list this key")
    token = office.run("reject", "call-k-no", "--print", "--key", key(office, "ada")).last
    done = office.run("reject", "call-k-no", "--token", token, *WHY)
    assert (done.code, "is rejected by ada" in done.out) == (0, True), done.err


def test_where_nobody_else_is_listed_the_maker_decides_and_is_marked(
    sandbox: RunningSandbox, open_office: Callable[..., Office]
) -> None:
    office = open_office(sandbox.base_url, prefect=False)
    for name in ("ada", "ben", "cleo"):
        assert office.run("keys", "new", name).code == 0
    whole = policy(office, COOLING)
    text = whole.read_text().split("[people.ben]")[0]
    assert office.run("policy", "adopt", office.file("alone.toml", text), "--by", "ada").code == 0
    assert withdraw(office, "k-alone") == "held"
    assert by_key(office, "ada", "release", "k-alone").code == 0
    assert ", alone: called the customer" in office.run("show", "k-alone").out
    assert office.run("stop", "--by", "ada", "--why", "a look").code == 0
    assert office.run("stop", "--lift", "--key", key(office, "ada")).last == "1 stop lifted by ada (alone)"


def test_while_a_recovery_runs_only_stops_cancellations_and_rejections_count(
    office: Office, sandbox: RunningSandbox
) -> None:
    assert withdraw(office, "k-recover") == "held"
    assert withdraw(office, "k-recover-2") == "held"
    assert office.run("stop", "--by", "Somebody", "--why", "keys are gone").code == 0
    other = policy(office, COOLING + "# another\n[reconciliation]\n", "other.toml", ada="mallory")
    assert office.run("policy", "adopt", other, "--recover", "--by", "Ada Example").code == 0
    for line in (("release", "k-recover"), ("resolve", "k-recover", "--as", "sent"), ("stop", "--lift")):
        ended = by_key(office, "ben", *line)
        assert ended.code in (2, 3), ended
        assert line[0] != "release" or "asked to recover the policy" in ended.err
    assert by_key(office, "ben", "stop", "--lift").code == 3
    assert office.run("stop", "--by", "Mallory", "--why", "another one").code == 0
    refused(office.run("cancel", "k-recover", "--by", "Ada", *WHY), "--key FILE")
    assert by_key(office, "ben", "cancel", "k-recover").last == "1 decided, 0 not"
    assert paid(sandbox, "k-recover") == 0


def test_nobody_decides_by_a_recovery_that_a_clock_which_is_ahead_brings_in_force(
    office: Office, sandbox: RunningSandbox
) -> None:
    """A release stayed when the clock was put back and the recovery was ended, and the payment left."""
    assert withdraw(office, "k-ahead") == "held"
    assert office.run("stop", "--by", "Somebody", "--why", "a look").code == 0
    lax = office.file("lax.toml", "[payouts]\n[withdrawals]\n")
    assert office.run("policy", "adopt", lax, "--recover", "--by", "Mallory").code == 0
    office.clock = clock = MovedClock(None)
    clock.set_wall(73 * 3600)
    mallory = ("--by", "Mallory", *WHY)
    for line in (
        ("release", "k-ahead", *mallory),
        ("stop", "--lift", *mallory),
        ("accept", "B-000000000000", *mallory),
        ("policy", "adopt", office.file("laxer.toml", "[payouts]\n"), "--by", "Mallory"),
    ):
        refused(office.run(*line), "this machine's clock is")
    clock.set_wall(-73 * 3600)
    assert by_key(office, "ada", "stop", "--lift").code == 3  # the recovery runs
    assert office.run("cancel", "k-ahead", "--key", key(office, "ben"), *WHY).last == "1 decided, 0 not"
    assert office.run("policy", "adopt", "--recover", "--cancel", "--by", "ada", "--key", key(office, "ada")).code == 0
    assert office.run("status").out.count("stop") > 0
    assert paid(sandbox, "k-ahead") == 0


def test_nobody_resolves_by_a_recovery_that_a_clock_which_is_ahead_brings_in_force(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    sandbox = open_sandbox(faults={"drop_after": 1.0, "read_lag": 1.0}, read_lag_seconds=1e6)
    office = with_people(open_office(sandbox.base_url, prefect=False), COOLING)
    assert withdraw(office, "k-lost") == "held"
    assert by_key(office, "ben", "release", "k-lost").code == 0
    assert withdraw(office, "k-lost") == "unknown"
    lax = office.file("lax.toml", "[payouts]\n[withdrawals]\n")
    assert office.run("policy", "adopt", lax, "--recover", "--by", "Mallory").code == 0
    office.clock = clock = MovedClock(None)
    clock.set_wall(73 * 3600)
    for end in ("not-sent", "failed"):
        refused(office.run("resolve", "k-lost", "--as", end, "--by", "Mallory", *WHY), "this machine's clock is")
    clock.set_wall(-73 * 3600)
    assert "outcome: unknown" in office.run("show", "k-lost").out


@pytest.mark.parametrize(
    "call",
    [
        "from treasury.payments.resolving import release_orders as release; "
        "release(desk, 'k-own', None, by='me', why='mine')",
        "from treasury.payments.cancelling import cancel; cancel(desk, 'k-own', by='me', why='mine')",
        "from treasury.payments.resolving import resolve_as_ended as end; from treasury.orders.states import State; "
        "desk.ledger.step(order, Event.RESOLVE_SETTLED, cause='me')",
        "desk.ledger.step(order, Event.RELEASE, cause='me', hold_kind=None)",
        "desk.ledger.step(order, Event.CANCEL, cause='me')",
        "from treasury.ledger.stops import stop_sending, lift_stop; stop_sending(desk.ledger, 'me', 'x'); "
        "lift_stop(desk.ledger, 'ben')",
        "from treasury.ledger.kept_breaks import withdraw_acceptances as w; "
        "from treasury.ledger.decisions import RecordedDecision, record; "
        "row = RecordedDecision('accept', 'B-1', 'B-1', 'ben', 'b'); "
        "desk.ledger.write(lambda c: record(c, desk.ledger, row)); "
        "w(desk.ledger, 'B-1', by='me', os_user='me', why='mine')",
    ],
)
def test_a_script_of_ones_own_decides_nothing_without_a_key(call: str, office: Office, sandbox: RunningSandbox) -> None:
    assert withdraw(office, "k-own") == "held"
    ended = office.python(
        "from flows.commands.common import configured_desk\nfrom treasury.orders.states import Event\n"
        "from treasury.errors import InputError\n"
        "desk = configured_desk()\n[order] = desk.ledger.orders(reference='k-own')\n"
        f"try:\n    {call}\nexcept InputError as error:\n    print('refused:', error)\n"
    )
    assert "refused: the policy in force lists people with keys" in ended.out, ended
    assert paid(sandbox, "k-own") == 0
    assert "outcome: held" in office.run("show", "k-own").out


def test_a_script_with_rules_of_its_own_ends_no_cooling_time(office: Office, sandbox: RunningSandbox) -> None:
    assert withdraw(office, "k-rules") == "held"
    ended = office.python(
        "from flows.commands.common import configured_desk\n"
        "from treasury.ledger.holds import release_cooled\nfrom treasury.policy.limits import Limits\n"
        "desk = configured_desk()\n"
        "desk.ledger.write(lambda c: release_cooled(desk.ledger, c, 'call-k-rules', Limits()))\n"
    )
    assert ended.code == 0, ended
    assert "outcome: held" in office.run("show", "k-rules").out
    assert paid(sandbox, "k-rules") == 0


def test_a_key_that_the_new_policy_does_not_list_decides_nothing(office: Office, tmp_path: Path) -> None:
    assert withdraw(office, "k-revoked") == "held"
    token = office.run("release", "k-revoked", "--print", "--key", key(office, "ben")).last
    assert office.run("keys", "rotate", "ben").code == 0
    changed = policy(office, COOLING, "rotated.toml", ben="ben-2")
    assert office.run("policy", "adopt", changed, "--by", "ada", "--key", key(office, "ada")).code == 0
    refused(office.run("release", "k-revoked", "--token", token, *WHY), "does not list this key")
    refused(by_key(office, "ben", "release", "k-revoked"), "does not list this key")
    assert by_key(office, "ben-2", "release", "k-revoked").code == 0


@pytest.mark.prefect
def test_the_maker_writes_a_word_starts_again_and_it_does_not_leave(
    sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str
) -> None:
    """Ada works here: what she starts is hers."""
    office = with_people(open_office(sandbox.base_url), COOLING)
    line = pay_line(office, "word-1", account="12345670777")
    assert office.run(*line).last == "1 settled"
    again = pay_line(office, "word-2", account="12345670777")
    assert office.run(*again).last == "0 settled, 1 held"
    held = office.results("word-2")["a"]
    assert f"releases it by key: treasury release {held['request_id']} --key FILE --why TEXT" in held["reason"]
    assert f"treasury release {held['request_id']} --key FILE --why TEXT" in held["next_action"]
    assert "--by NAME" not in held["next_action"]
    sheet = Path(again[1])
    head, row = sheet.read_text().split()[0], sheet.read_text().splitlines()[1]
    sheet.write_text(f"{head},duplicate_ok\n{row},second instalment\n")
    assert office.run(*again).last == "0 settled, 1 held"
    refused(by_key(office, "ada", "release", "word-2"), "ada made what it is about")
    assert by_key(office, "ben", "release", "word-2").code == 0
    assert office.run(*again).last == "1 settled"


PLANT = """
from decimal import Decimal
from flows.commands.common import configured_desk
from treasury.ledger.closing import close_sweep
from treasury.ledger.kept_breaks import record_breaks
from treasury.ledger.sweeps import record_sweep
from treasury.provider.service_rules import ServiceRules
from treasury.reconciliation.breaks import Break, Finding
from treasury.reconciliation.scope import Scope
ledger = configured_desk().ledger
number = record_sweep(ledger, Scope(), (), since=0)
close_sweep(ledger, number, Scope(), ServiceRules())
found = Finding("statement 1", "missing_in_ledger", None, "USDT_TRC20", None, Decimal("5"), "a line", "call-k-broken")
record_breaks(ledger, number, [Break(found, 0, 0, "new", "low")])
print(found.id)
"""


def test_a_break_is_accepted_until_a_day_and_withdrawn_by_keys(office: Office, elsewhere: Office) -> None:
    assert withdraw(office, "k-broken") == "held"
    number = office.python(PLANT).out.strip()
    refused(office.run("accept", number, "--by", "Ana", *WHY), "--key FILE instead of --by NAME")
    refused(by_key(office, "ada", "accept", number), "ada made what it is about")
    refused(by_key(office, "ben", "accept", number, "--until", "2020-01-31"), "is over already")
    refused(by_key(office, "ben", "accept", number, "--until", "soon"), "YYYY-MM-DD")
    refused(by_key(office, "ben", "accept", number, "--until", "9999-12-31"), "at the latest 9999-12-30")
    until = ("--until", "2999-12-31")
    code = code_in(office.run("accept", number, *until, "--by", "Ana", *WHY))
    token = elsewhere.run("accept", number, "--print", "--code", code, "--key", key(office, "ben")).last
    refused(office.run("accept", number, "--token", token, *WHY), "something else")  # for ever is more than until then
    done = office.run("accept", number, "--token", token, *until, *WHY)
    assert "is accepted by ben, until 2999-12-31" in done.out, done.err
    refused(office.run("accept", number, "--withdraw", "--by", "Ana", *WHY), "--key FILE instead of --by NAME")
    assert by_key(office, "ada", "accept", number, "--withdraw").last.startswith("1 acceptance of")
    refused(by_key(office, "ada", "accept", number, "--withdraw"), "nobody accepted")
