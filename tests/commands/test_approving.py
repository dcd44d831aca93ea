"""Approvals by key as people use them: keys, plans that wait, yes and no; at a terminal, in a script, elsewhere."""

import csv
import stat
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest

from tests.commands.approvers import key, pay_line, refused, token, waiting_hash, waits, with_people
from tests.commands.office import Office
from tests.commands.terminal import on_a_terminal, piped
from tests.crash.payments import QUOTED
from treasury.approving.tokens import Verb, public_text, read_key
from treasury.sandbox import RunningSandbox

pytestmark = pytest.mark.prefect


@pytest.fixture(scope="module")
def listed(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """One home of people with keys for all tests: they change no policy."""
    return with_people(open_office(sandbox.base_url))


@pytest.fixture
def elsewhere(open_office: Callable[..., Office]) -> Office:
    """Another machine: it has neither the account nor the ledger."""
    office = open_office("http://127.0.0.1:9", prefect=False)
    for name in ("TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"):
        del office.environ[name]
    return office


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_for_their_owner_alone_and_never_overwritten(elsewhere: Office) -> None:
    done = elsewhere.run_all(
        {
            "new": ["keys", "new", "ada"],
            "again": ["keys", "new", "ada"],
            "rotated": ["keys", "rotate", "ada"],
            "rotated again": ["keys", "rotate", "ada"],
            "no name": ["keys", "new", "../ada"],
        }
    )
    files = [Path(key(elsewhere, name)) for name in ("ada", "ada-2", "ada-3")]
    publics = [public_text(read_key(file)) for file in files]
    assert len(set(publics)) == 3
    for name, file, public in zip(("new", "rotated", "rotated again"), files, publics, strict=True):
        assert done[name].code == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert all(each in done[name].out for each in (str(file), f'keys = ["{public}"]', "[people.ada]"))
    assert "the old one approves nothing" in done["rotated"].out
    refused(done["again"], "exists; name another file")
    refused(done["no name"], "letters, digits")
    assert public_text(read_key(files[0])) == publics[0]


@pytest.mark.costly("seven processes at terminals")
def test_a_passphrase_is_asked_for_and_locks_the_key(elsewhere: Office) -> None:
    made = on_a_terminal(elsewhere, ["keys", "new", "ada", "--passphrase"], [("a new passphrase: ", "open sesame")])
    assert made.code == 0, made.out
    assert "open sesame" not in made.out
    assert b"ENCRYPTED" in Path(key(elsewhere, "ada")).read_bytes()
    empty = piped(elsewhere, "\n", "keys", "new", "ben", "--passphrase")
    refused(empty, "it was empty")
    assert piped(elsewhere, "other\n", "keys", "new", "ben", "--passphrase").code == 0
    line = ["approve", "run", "--plan", f"1-{'0' * 64}", "--print", "--key", key(elsewhere, "ben")]
    signed = piped(elsewhere, "other\n", *line)
    assert (signed.code, signed.out.startswith("approval1.")) == (0, True), signed.err
    refused(piped(elsewhere, "wrong\n", *line), "the passphrase is not right")
    refused(piped(elsewhere, "", *line), "is needed: it was empty")
    Path(key(elsewhere, "ben")).chmod(0o644)
    refused(piped(elsewhere, "other\n", *line), "can be read by others")


# --- payouts ---------------------------------------------------------------------------------------------------------


def test_an_approver_sees_all_that_will_be_paid(listed: Office) -> None:
    direct = listed.sheet(("a", "20", "12345670011"), name="direct.csv").read_text().splitlines()
    given = {name: value for name, value in QUOTED.items() if name not in ("quote_mode", "pay_amount")}
    given |= {
        "quote_mode": "dest",
        "receive_amount": "90",
        "max_pay_amount": "120",
        "account_no": "DE89370400440532013000",
    }
    names = list(dict.fromkeys([*direct[0].split(","), *given]))
    rows = [dict(zip(direct[0].split(","), direct[1].split(","), strict=True)), {"row_ref": "b", **given}]
    with (listed.home / "both.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    waits(listed, {"shown": ["pay", str(listed.home / "both.csv"), "--run-key", "shown", "--yes"]})
    done = listed.run_all({"list": ["approvals"], "show": ["show", "shown"]})
    line = next(each for each in done["list"].out.splitlines() if each.startswith("shown "))
    for part in ("made by ada", "2 payments", "20 USDT_TRC20", "since 20", "needs 1 approval", "nobody yet"):
        assert part in line
    folder = listed.home / "runs" / "shown"
    assert stat.S_IMODE((folder / "plan.html").stat().st_mode) == 0o600
    book = openpyxl.load_workbook(folder / "plan.xlsx", read_only=True)
    cells = "\n".join(str(cell) for sheet in book for row in sheet.iter_rows(values_only=True) for cell in row)
    for text in (done["show"].out, (folder / "plan.html").read_text(), cells):
        for part in (
            "Example Person",
            "12345670011",
            "Eva Muster",
            "DE89370400440532013000",
            "20",
            "90",
            "120",
            "--plan 1-",
        ):
            assert part in text, part
        for part in ("first payment to this account", "USDT_TRC20", "ceilings", "ada", "above one_approval_above (10)"):
            assert part in text, part
    assert "by name only" not in done["show"].out
    assert done["show"].last == "waiting for 1 more approval"


def test_a_plan_is_paid_with_the_keys_of_others(listed: Office, elsewhere: Office, sandbox: RunningSandbox) -> None:
    before = len(sandbox.orders())
    run_keys = {"one": "20", "two": "120"}
    lines = {name: pay_line(listed, name, amount, f"12345670{amount.zfill(3)}1") for name, amount in run_keys.items()}
    codes = waits(listed, lines)
    hashed = waiting_hash(listed, "one")
    token = elsewhere.run("approve", "two", "--plan", codes["two"], "--key", key(listed, "ben"), "--print")
    assert (token.code, token.out.startswith("approval1.")) == (0, True), token.err
    assert not (elsewhere.home / "ledger.db").exists()
    done = listed.run_all(
        {
            "one": ["approve", "one", "--plan", hashed[:12], "--key", key(listed, "ben")],
            "two": ["approve", "two", "--token", token.out],
            "again": ["approve", "two", "--token", token.out],
            "still": lines["two"],
            "other": ["approve", "two", "--plan", codes["two"], "--key", key(listed, "cleo")],
        }
    )
    assert (done["one"].code, "start the run again" in done["one"].last) == (0, True), done["one"].err
    assert (done["two"].code, done["two"].last) == (3, "waiting for 1 more approval")
    refused(done["again"], "approved this plan already")
    assert (done["still"].code, "approved by ben" in done["still"].err) == (3, True)
    assert done["other"].code == 0
    assert len(sandbox.orders()) == before
    for name in run_keys:
        paid = listed.run(*lines[name])
        assert (paid.code, paid.last) == (0, "1 settled"), paid.out + paid.err
    assert listed.results("one")["a"]["approved_by"] == "ben"
    assert listed.results("two")["a"]["approved_by"] == "ben, cleo"
    summary = listed.summary("two")
    assert (summary["approved_by"], "approvals" in summary) == (["ben", "cleo"], False)
    shown = listed.run("show", "two").out
    assert "approved by ben" in shown
    assert "approved by cleo" in shown


def test_what_does_not_count_is_refused_with_its_reason_and_not_recorded(listed: Office) -> None:
    line = pay_line(listed, "doors", account="12345670031")
    codes = waits(listed, {"doors": line, "other": pay_line(listed, "other", account="12345670032")})
    code, run_key = codes["doors"], "doors"
    genuine = token(listed, "ben", run_key, code)
    tokens = {
        "damaged": (genuine[:-9], "this token is damaged"),
        "no token": ("yes", "is no token"),
        "expired": (token(listed, "ben", run_key, code, hours=-1), "the approval is expired"),
        "another run's": (token(listed, "ben", "other", codes["other"]), "is for run other"),
        "another plan's": (token(listed, "ben", run_key, codes["other"]), "for another proposal"),
        "a stranger's": (token(listed, "mallory", run_key, code), "does not list this key"),
        "the maker's": (token(listed, "ada", run_key, code), "made this plan"),
        "a proposal's": (token(listed, "ben", run_key, code, purpose=Verb.PROPOSE), "it approves none"),
    }
    ben = ["--key", key(listed, "ben")]
    options = {
        "no plan": (ben, f"--plan {code}"),
        "wrong code": ([*ben, "--plan", codes["other"]], "another plan of run doors waits"),
        "a stranger": (["--key", key(listed, "mallory"), "--plan", code], "does not list this key"),
        "the maker": (["--key", key(listed, "ada"), "--plan", code], "made this plan; somebody else has to"),
        "a typed name": (["--by", "ben", "--plan", code], "this approval is a typed name"),
        "another's key": ([*ben, "--by", "cleo", "--plan", code], "is ben's, not cleo's"),
        "no file": (["--key", key(listed, "nobody"), "--plan", code], "cannot be read"),
        "no hours": ([*ben, "--plan", code, "--hours", "0"], "--hours is a number"),
        "no code": ([*ben, "--print"], "a token needs --key FILE and --plan CODE"),
    }
    lines = {name: ["approve", run_key, "--token", text] for name, (text, _) in tokens.items()}
    lines |= {name: ["approve", run_key, *more] for name, (more, _) in options.items()}
    lines["no run"] = ["approve", "nowhere", "--plan", code, *ben]
    done = listed.run_all({**lines, "pay": line})
    for name, (_, said) in {**tokens, **options, "no run": ("", "has no plan that waits")}.items():
        refused(done[name], said)
    assert (done["pay"].code, "approved by nobody yet" in done["pay"].err) == (3, True)


def test_a_rejected_plan_is_not_paid_and_another_one_waits(listed: Office) -> None:
    line = pay_line(listed, "no", account="12345670041")
    code = waits(listed, {"no": line})["no"]
    why = ["--why", "the amount is wrong"]
    done = listed.run_all(
        {
            "yes": ["approve", "no", "--plan", code, "--key", key(listed, "ben")],
            "nobody": ["reject", "no", "--by", " ", *why],
            "no": ["reject", "no", "--key", key(listed, "cleo"), *why],
            "pay": line,
            "late": ["approve", "no", "--plan", code, "--key", key(listed, "cleo")],
            "twice": ["reject", "no", "--key", key(listed, "cleo"), *why],
            "list": ["approvals"],
            "runs": ["runs"],
        }
    )
    [ended] = [line for line in done["runs"].out.splitlines() if line.startswith("no ")]
    assert "never began: " in ended
    assert "rejected by cleo (the amount is wrong)" in ended
    refused(done["nobody"], "needs a name and a reason")
    assert (done["no"].code, "it is not paid" in done["no"].last) == (0, True)
    for name in ("pay", "late", "twice"):
        refused(done[name], "was rejected by cleo (the amount is wrong)")
    assert not any(line.startswith("no ") for line in done["list"].out.splitlines())
    other = pay_line(listed, "no", "19", account="12345670041")
    assert waits(listed, {"no": other})["no"].startswith("2-")


def test_a_terminal_shows_the_plan_and_asks(listed: Office) -> None:
    code = waits(listed, {"asked": pay_line(listed, "asked", account="12345670051")})["asked"]
    line = ["approve", "asked", "--key", key(listed, "ben")]
    said = on_a_terminal(listed, line, [("Approve this plan? [y/N] ", "n")])
    assert said.code == 2
    for part in ("Example Person", "12345670051", "20  USDT_TRC20", "made by", code, "nothing was recorded"):
        assert part.lower() in said.out.lower(), said.out
    said = on_a_terminal(listed, line, [("Approve this plan? [y/N] ", "y")])
    assert (said.code, "is approved by ben" in said.out) == (0, True), said.out
    assert listed.run("stop", "--by", "Somebody", "--why", "a look first").code == 0
    assert listed.run(*pay_line(listed, "asked", account="12345670051")).code == 4
    said = on_a_terminal(listed, ["approve", "asked", "--key", key(listed, "cleo")], [])
    assert (said.code, "is not shown any more: start the run again" in " ".join(said.out.split())) == (2, True), (
        said.out
    )
    assert listed.run("stop", "--lift", "--key", key(listed, "ben")).code == 0
