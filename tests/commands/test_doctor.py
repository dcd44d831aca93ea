"""`treasury doctor` and every command: files that others can open, what is held, whether an epoch runs, what fits."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import Update, update

from tests.commands.office import Office, one_line_error
from tests.engine.intents import commit
from treasury.ledger import schema
from treasury.ledger.evidence import saw_status
from treasury.ledger.ledger import Ledger
from treasury.ledger.stops import lift_stop, stop_sending
from treasury.orders.states import Event, Hold, State
from treasury.private_files import openings
from treasury.sandbox import RunningSandbox


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home of the test's own, with a ledger, that holds nothing but what commands made."""
    office = open_office(sandbox.base_url, prefect=False)
    (office.home / "user").rmdir()
    assert office.run("runs").code == 0
    return office


def test_what_commands_make_is_for_their_owner_alone(office: Office, tmp_path: Path) -> None:
    key = Path(office.environ["TREASURY_PRIVATE_KEY_FILE"])
    sheet = tmp_path / "rows.csv"
    sheet.write_text(office.sheet(("a", "10", "12345670001")).read_text())
    (office.home / "rows.csv").unlink()
    (office.home / "deeper").mkdir(mode=0o700)
    inner = {"TREASURY_HOME": str(office.home / "deeper" / "made" / "here")}
    arguments = ["--base-url", office.environ["TREASURY_BASE_URL"], "--partner-id", "900001", "--private-key", key]
    assert office.run("connect", *arguments, **inner).code == 0
    assert office.run("pay", sheet, "--run-key", "r", **inner).code == 3
    assert office.run("runs", **inner).code == 0
    state = office.home / "deeper" / "world" / "state.db"
    with office.running("sandbox", "--state", state, **inner) as process:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
    assert "listening" in said[1]
    assert state.with_name("state.db-wal").exists()
    assert office.run("backup", office.home / "deeper" / "backups" / "one", **inner).code == 0
    assert len(list((office.home / "deeper").rglob("*"))) > 8
    assert [str(each) for each in openings(office.home)] == []
    with office.desk().ledger.snapshot():  # a reader has SQLite keep its log beside the ledger
        assert (office.home / "ledger.db-wal").exists()
        assert [str(each) for each in openings(office.home)] == []


def write(ledger: Ledger, statement: Update) -> None:
    ledger.write(lambda connection: connection.execute(statement).rowcount)


def test_the_doctor_names_a_decision_that_was_changed_by_hand_until_a_person_ends_it(office: Office) -> None:
    ledger, table = office.desk().ledger, schema.decisions
    stop_sending(ledger, "Ann Example", "wrong list")
    hidden = {"verb": "consent", "named": "x", "about": "y"}
    for values, code, said in (
        ({"why": "w"}, 2, "decision 1 (stop, stop) was changed or added in the ledger by hand"),
        (hidden, 2, "decision 1 (consent, x) was changed or added in the ledger by hand"),
        ({"verb": "stop", "named": "stop"}, 2, "decision 1 (stop, stop) was changed or added in the ledger by hand"),
    ):
        write(ledger, update(table).values(values))
        ended = office.run("doctor")
        assert ended.code == code
        assert said in ended.out
    assert lift_stop(ledger, "Ben Example") == 1
    assert office.run("doctor").last == "all is well"


def test_the_doctor_names_an_order_that_was_changed_by_hand_until_a_person_ends_it(office: Office) -> None:
    desk = office.desk()
    [order] = commit(desk.ledger, "a")
    write(desk.ledger, update(schema.orders).where(schema.orders.c.id == order.id).values(counted_on="2020-01-01"))
    ended = office.run("doctor")
    assert (ended.code, f"{order.request_id} (run run): it was changed or added in the" in ended.out) == (2, True)
    assert office.run("cancel", order.request_id, "--by", "Ann Example", "--why", "nobody knows who did it").code == 0
    assert office.run("doctor").code == 0


def test_the_doctor_names_what_others_can_open_and_how_to_mend_it(office: Office) -> None:
    ended = office.run("doctor")
    assert (ended.code, ended.last) == (0, "all is well"), ended.out
    folder = office.home / "runs"
    folder.mkdir(mode=0o700)
    listed = {office.home / "ledger.db": 0o644, folder: 0o755, office.home / "tokens": 0o701}
    (office.home / "tokens").mkdir(exist_ok=True)
    (folder / "plan.json").touch()
    listed[folder / "plan.json"] = 0o620
    for path, mode in listed.items():
        path.chmod(mode)
    ended = office.run("doctor")
    assert ended.code == 2
    assert "all is well" not in ended.out
    for path in listed:
        assert f": chmod {'700' if path.is_dir() else '600'} {path}\n" in ended.out
    assert "4 problems" in ended.last
    for path in listed:
        path.chmod(0o700 if path.is_dir() else 0o600)
    (office.home / "ledger.db").chmod(0o640)
    ended = office.run("doctor")
    assert (ended.code, ended.last) == (0, "all is well")
    assert f"remark: {office.home / 'ledger.db'} can be read by its group: chmod 600 " in ended.out


def test_many_open_files_are_told_with_one_command_for_all(office: Office) -> None:
    for number in range(30):
        (office.home / f"{number}.csv").touch()
        (office.home / f"{number}.csv").chmod(0o644)
    ended = office.run("doctor")
    assert ended.code == 2
    assert ended.out.count("chmod 600 ") == 20
    assert f"and 10 more: chmod -R go= {office.home}" in ended.out


KEYS = ("private key file", "ledger key file", "account file")


@pytest.mark.parametrize("what", KEYS)
@pytest.mark.parametrize(
    ("mode", "refused"), [(0o644, True), (0o604, True), (0o620, True), (0o440, False), (0o400, False)]
)
def test_a_secret_that_others_can_read_or_change_is_not_used(
    what: str, mode: int, refused: bool, sandbox: RunningSandbox, open_office: Callable[..., Office]
) -> None:
    office = open_office(sandbox.base_url, prefect=False)
    (office.home / "user").rmdir()
    key = office.file("signing.pem", Path(office.environ["TREASURY_PRIVATE_KEY_FILE"]).read_text())
    key.chmod(0o600)
    connect = ["connect", "--base-url", sandbox.base_url, "--partner-id", "900001", "--private-key", str(key)]
    lines = {"connect": connect, "runs": ["runs"]}
    for name in ("TREASURY_BASE_URL", "TREASURY_PARTNER_ID", "TREASURY_PRIVATE_KEY_FILE"):
        office.environ[name] = ""
    assert [ended.code for ended in office.run_all(lines).values()] == [0, 0]
    file = {KEYS[0]: key, KEYS[1]: office.home / "ledger.key", KEYS[2]: office.home / "account.json"}[what]
    file.chmod(mode)
    ended, told = office.run_all({"runs": ["runs"], "doctor": ["doctor"]}).values()
    assert told.code == (2 if refused else 0), told.out
    if refused:
        assert ended.code == 2
        assert f"the {what} {file} can be " in one_line_error(ended)
        assert f"chmod 600 {file}" in ended.err
        assert f"PROBLEM: {file} can be" in told.out
        assert "all is well" not in told.out
    else:
        assert ended.code == 0
        assert (f"remark: {file} can be read by its group" in told.out) is (mode == 0o440)


def test_a_key_that_others_can_replace_is_not_used(office: Office, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    key = folder / "key.pem"
    key.touch(mode=0o600)
    key.write_text(Path(office.environ["TREASURY_PRIVATE_KEY_FILE"]).read_text())
    folder.chmod(0o777)
    ended = office.run("runs", TREASURY_PRIVATE_KEY_FILE=str(key))
    assert ended.code == 2
    assert f"can be replaced by others: chmod o-w {folder}" in one_line_error(ended)
    folder.chmod(0o1777)
    assert office.run("runs", TREASURY_PRIVATE_KEY_FILE=str(key)).code == 0
    key.chmod(0o604)
    ended = office.run("doctor", TREASURY_PRIVATE_KEY_FILE=str(key))
    assert ended.code == 2
    assert str(key) in ended.out


def test_the_doctor_says_of_a_restored_ledger_that_it_may_be_older(office: Office) -> None:
    """It said that the ledger was as new as the service, until a run of it was started."""
    backup = office.home / "one.backup"
    assert office.run("backup", str(backup)).code == 0
    restored = {"TREASURY_HOME": str(office.home / "restored")}
    assert office.run("restore", str(backup), **restored).code == 0
    told = office.run("doctor", **restored).out
    assert "epoch     one begins with the next start of a run: " in told
    assert "(it was restored from a backup)" in told


def test_the_doctor_says_what_is_held_and_why_and_whether_an_epoch_runs(office: Office) -> None:
    told = office.run("doctor").out
    assert "held      nothing is held\n" in told
    assert "epoch     none runs" in told
    desk = office.desk()
    orders = commit(desk.ledger, *"abcdef", run_key="r-1")
    kinds = [Hold.DUPLICATE, Hold.DUPLICATE, Hold.KNOWN]
    for order, kind in zip(orders, kinds, strict=False):
        desk.ledger.step(order, Event.HOLD, hold_kind=kind)
    desk.begin_epoch("a reference was known")
    desk.close()
    ended = office.run("doctor")
    assert "held      2 duplicate (treasury show r-1); 1 known at the service (treasury show r-1); " in ended.out
    assert "; 3 older ledger (treasury show r-1)\n" in ended.out
    assert "epoch     one runs: this ledger is older than the service (a reference was known)" in ended.out
    assert ended.code == 0
    assert office.run("show", "r-1").code == 0


def test_the_doctor_says_whether_the_waits_fit(office: Office) -> None:
    told = office.run("doctor", TREASURY_RESEND_AFTER_SECONDS="700").out
    [line] = [line for line in told.splitlines() if line.startswith("waits")]
    for part in ("700 s (TREASURY_RESEND_AFTER", "it fits", "300 s (TREASURY_TIMESTAMP_WINDOW_SECONDS)", "120 s"):
        assert part in line
    short = {"TREASURY_RESEND_AFTER_SECONDS": "60"}
    ended = office.run("doctor", **short)
    assert "waits     remark, for a service on this machine: TREASURY_RESEND_AFTER_SECONDS (60) must be" in ended.out
    elsewhere = {"TREASURY_BASE_URL": "https://service.invalid", "TREASURY_LEDGER_URL": f"sqlite:///{office.home}/2.db"}
    ended = office.run("doctor", **short, **elsewhere)
    assert ended.code == 2
    assert "waits     PROBLEM: TREASURY_RESEND_AFTER_SECONDS (60) must be" in ended.out


def settle(office: Office, number: int, *statuses: int) -> None:
    """Confirmed payouts that settled, as the service showed them meanwhile; one before statuses were noted."""
    desk = office.desk()
    ledger = desk.ledger
    ledger.write(lambda connection: connection.execute(schema.orders.delete()).rowcount)
    ledger.write(lambda connection: connection.execute(schema.runs.delete()).rowcount)
    orders = commit(ledger, *(f"o{each}" for each in range(number + 1)))
    table = schema.orders
    for status in statuses:
        saw_status(ledger, "create_fiat_payout", status)
    values = {"operation": "create_fiat_payout", "state": State.SETTLED.value, "sent_at": ledger.now() + 1}
    ledger.write(lambda connection: connection.execute(update(table).values(**values)).rowcount)
    early = update(table).where(table.c.id == orders[0].id).values(sent_at=1)
    ledger.write(lambda connection: connection.execute(early).rowcount)
    desk.close()


def test_the_doctor_proposes_a_status_that_no_confirmed_payout_was_shown_with(office: Office) -> None:
    def quotes(**environ: str) -> str:
        told = office.run("doctor", **environ).out.splitlines()
        [line] = [line.removeprefix("quotes    ") for line in told if line.startswith("quotes ")]
        return line

    settle(office, 19, 22, 99)
    assert quotes().startswith("19 confirmed payouts settled")
    assert quotes().endswith("nothing to change")
    settle(office, 20, 22, 99)
    assert "none was ever shown with 11, 12: treasury doctor --prove says" in quotes()
    assert quotes(TREASURY_UNCONFIRMED_STATUSES="11,12").endswith("nothing to change")
    settle(office, 20, 11)
    assert "none was ever shown with 12:" in quotes()
    assert quotes(TREASURY_UNCONFIRMED_STATUSES="11").startswith("PROBLEM: status 11 was shown for a confirmed payout")
    assert office.run("doctor", TREASURY_UNCONFIRMED_STATUSES="11").code == 2


def test_a_ledger_that_cannot_be_opened_is_one_problem_told_once(office: Office) -> None:
    (office.home / "ledger.key").write_bytes(Fernet.generate_key())
    ended = office.run("doctor")
    assert ended.code == 2
    told = [line for line in ended.out.splitlines() if "PROBLEM" in line]
    assert [line.split()[0] for line in told] == ["ledger"], ended.out
    assert str(office.home / "ledger.key") in told[0]
    assert ended.last == "1 problem"
