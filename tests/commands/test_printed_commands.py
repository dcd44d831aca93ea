"""Commands that are printed work as typed, once their placeholders are filled, whoever the policy lists."""

import json
import re
import shlex
from collections.abc import Callable

import pytest

from tests.commands.approvers import LIMITS, key, pay_line, policy, with_people
from tests.commands.office import Ended, Office
from treasury.sandbox import RunningSandbox
from treasury.texts import with_person

WITHDRAWAL = {
    "request_id": "open-1",
    "currency": "USDT_TRC20",
    "address": "TXYZopen",
    "customer_ref_id": "c-1",
}
BY_NAME = '[payouts.one_approval_above]\nUSDT_TRC20 = "10"\n'


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


def typed(office: Office, text: str, name: str) -> Ended:
    """Run the first command of a text that ends with its placeholders, as this person."""
    filled = {"FILE": key(office, name), "NAME": name, "TEXT": "called the customer"}
    found = re.search(r"treasury ((?:[a-z]+) [\w:.-]+(?: --[a-z-]+(?: [\w:.-]+)?)*)", text)
    assert found is not None, text
    return office.run(*(filled.get(word, word) for word in shlex.split(found[1])))


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.costly("a dozen processes")
def test_what_is_printed_works_as_typed(
    sandbox: RunningSandbox, open_office: Callable[..., Office], prefect_url: str, *, is_listed: bool
) -> None:
    office = open_office(sandbox.base_url)
    if is_listed:
        with_people(office)
    else:
        adopted = office.run("policy", "adopt", office.file("policy.toml", BY_NAME), "--by", "Ada")
        assert adopted.code == 0, adopted.err
    line = pay_line(office, f"printed-{is_listed}", account=f"1234567{is_listed:04d}")
    waiting = office.run(*line)
    assert waiting.code == 3
    assert typed(office, waiting.err.split("waiting for an approval (")[1], "ben").code == 0
    assert office.run(*line).last == "1 settled"
    line = pay_line(office, f"other-{is_listed}", account=f"1234567{is_listed:04d}")
    assert office.run(*line).code == 3
    shown = office.run("show", f"other-{is_listed}").out
    assert ("--key FILE" in shown, "--by NAME" in shown) == (is_listed, not is_listed)
    needs = json.loads(office.run("status", "--json").out)["actions"]
    [command] = [each["command"] for each in needs if f"approve other-{is_listed} " in each["command"]]
    assert typed(office, command, "ben").code == 0
    assert office.run(*line).last == "0 settled, 1 held"
    held = office.results(f"other-{is_listed}")["a"]
    assert ("--key FILE" in held["next_action"], "--by NAME" in held["next_action"]) == (is_listed, not is_listed)
    said = held["next_action"] if is_listed else held["next_action"].replace(held["request_id"], "a")
    released = typed(office, said, "ben")  # two runs have a row "a", and one of them is held
    assert (released.code, released.last) == (0, "1 decided, 0 not"), released
    assert office.run(*line).last == "1 settled"


def test_adopting_says_what_a_policy_leaves_open(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> None:
    office = with_people(open_office(sandbox.base_url, prefect=False), LIMITS.replace("approvals = 1", "approvals = 0"))
    line = ("call", "withdraw", "--json", json.dumps({**WITHDRAWAL, "amount": "60"}), "--yes")
    assert office.run(*line).code == 3
    wanted = policy(office, LIMITS.replace('"50"', '"500"').replace("approvals = 1", "approvals = 0"))
    adopted = office.run("policy", "adopt", wanted, "--by", "ada", "--key", key(office, "ada"))
    *tables, alone, plans = [line for line in adopted.out.splitlines() if line.startswith("warning: ")]
    others = "totals in USDT_TRC20 take approvals, in other currencies none, whatever they come to"
    together = "runs of USDT_TRC20 that each take no approval leave without one"
    assert [said in each for each, said in zip(tables, 2 * (others, together), strict=True)] == 4 * [True]
    assert "each of ada, cleo may change every limit of this policy alone" in alone
    assert alone.endswith("[changes] approvals = 1")
    assert "under the policy before: call-open-1; started again" in plans
    wanted.write_text(wanted.read_text().replace("['approve', 'change_policy']", "['approve']"))
    lone = office.run("policy", "adopt", wanted, "--by", "ada", "--key", key(office, "ada"))
    assert "warning: ada may change every limit of this policy alone" in lone.out
    assert "approvals = 1, and let another person change_policy, too" in lone.out
    stricter = office.run("policy", "adopt", policy(office), "--by", "ada", "--key", key(office, "ada"))
    assert "may change every limit" not in stricter.out


def test_a_person_is_named_as_the_policy_asks() -> None:
    text = "treasury cancel r --by NAME --why TEXT; or treasury policy adopt FILE --by NAME"
    assert with_person(text, is_listed=False) == text
    listed = "treasury cancel r --key FILE --why TEXT; or treasury policy adopt FILE --by NAME --key FILE"
    assert with_person(text, is_listed=True) == listed
    unknown = with_person(text, is_listed=None)
    assert "r --by NAME (or --key FILE where the policy lists people) --why TEXT" in unknown
    assert unknown.endswith("adopt FILE --by NAME (and --key FILE where the policy lists people)")
