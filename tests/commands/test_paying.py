"""`treasury pay` from the outside: what it sends, says, writes and answers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import data
from tests.commands.office import Ended, Office, one_line_error, read_rows
from tests.listening import kept_port
from treasury.orders.states import State
from treasury.reports.results import COLUMNS
from treasury.sandbox import RunningSandbox, SandboxSettings, generate_key_pair, running_sandbox

pytestmark = pytest.mark.prefect

PAID = (("ok", "10", "12345670001"), ("stays", "20", "12345670022"), ("odd", "30", "12345670012"))


@pytest.fixture(scope="module")
def paid(office: Office) -> Ended:
    """A first run: one row settles, one stays in progress, one gets a status nobody knows."""
    return office.run("pay", office.sheet(*PAID), "--run-key", "first", "--yes", "--follow", "1.5")


@contextmanager
def nothing_is_sent(sandbox: RunningSandbox) -> Iterator[None]:
    """Neither an order nor a balance changes in this block."""
    before = {order["order_no"]: order["effects"] for order in sandbox.orders()}, sandbox.books()
    yield
    after = {order["order_no"]: order["effects"] for order in sandbox.orders()}, sandbox.books()
    assert after == before


def test_a_run_ends_with_0_when_nothing_is_wrong_with_any_row(paid: Ended, office: Office) -> None:
    assert (paid.code, paid.err) == (0, "")
    assert paid.last == "1 settled, 2 in progress"
    rows = office.results("first")
    assert {ref: (row["outcome"], row["status"]) for ref, row in rows.items()} == {
        "ok": ("settled", "99"),
        "stays": ("in_progress", "22"),
        "odd": ("in_progress", "12"),
    }


def test_the_results_say_what_the_service_says(paid: Ended, office: Office, sandbox: RunningSandbox) -> None:
    rows = office.results("first")
    assert [tuple(row) for row in rows.values()] == [COLUMNS] * 3
    shown = {order["request_id"]: order for order in sandbox.orders()}
    for row in rows.values():
        order = shown[row["request_id"]]
        assert (row["order_no"], Decimal(row["amount"]), row["currency"]) == (
            *(order["order_no"], order["amount"], order["currency"]),
        )
        assert row["next_action"].startswith("none")
    for name in ("results.csv", "run.json"):
        file = office.home / "runs" / "first" / name
        assert str(file) in paid.out
        assert file.stat().st_mode & 0o777 == 0o600


def test_run_json_counts_and_sums_to_the_last_digit(paid: Ended, office: Office) -> None:
    summary = office.summary("first")
    assert {name: summary[name] for name in ("run_key", "kind", "orders", "counts", "sums")} == {
        "run_key": "first",
        "kind": "payout",
        "orders": 3,
        "counts": {"settled": 1, "in_progress": 2},
        "sums": {"USDT_TRC20": {"in_progress": "50", "settled": "10"}},
    }


def test_no_account_number_is_left_behind(paid: Ended, office: Office) -> None:
    results = (office.home / "runs" / "first" / "results.csv").read_text()
    assert "12345670001" not in paid.out + results


def test_a_second_start_sends_nothing(paid: Ended, office: Office, sandbox: RunningSandbox) -> None:
    with nothing_is_sent(sandbox):
        again = office.run("pay", office.sheet(*PAID), "--run-key", "first", "--yes", "--follow", "0")
    assert (again.code, again.last) == (0, paid.last)


def test_a_run_with_nothing_left_to_do_needs_no_prefect(office: Office, sandbox: RunningSandbox) -> None:
    sheet = office.sheet(("done", "10", "12345670031"), name="done.csv")
    first = office.run("pay", sheet, "--run-key", "done", "--yes", "--follow", "20")
    assert (first.code, first.last) == (0, "1 settled")
    written = office.results("done")
    with nothing_is_sent(sandbox):
        again = office.run("pay", sheet, "--run-key", "done", "--yes", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert (again.code, again.last, again.err) == (0, "1 settled", "")
    assert office.results("done") == written


def test_a_changed_row_is_refused_by_name(paid: Ended, office: Office, sandbox: RunningSandbox) -> None:
    changed = office.sheet(("ok", "11", "12345670001"), *PAID[1:], name="changed.csv")
    with nothing_is_sent(sandbox):
        ended = office.run("pay", changed, "--run-key", "first", "--yes")
    assert ended.code == 2
    said = one_line_error(ended)
    assert "ok" in said
    assert "stays" not in said


def test_an_added_row_is_refused_by_name(paid: Ended, office: Office, sandbox: RunningSandbox) -> None:
    added = office.sheet(*PAID, ("new", "1", "12345670009"), name="added.csv")
    with nothing_is_sent(sandbox):
        ended = office.run("pay", added, "--run-key", "first", "--yes")
    assert ended.code == 2
    assert "new" in one_line_error(ended)


@pytest.mark.parametrize(("ending", "outcome", "status"), [("0044", "failed", "44"), ("0088", "closed", "88")])
def test_a_payment_that_fails_ends_with_4(ending: str, outcome: str, status: str, office: Office) -> None:
    sheet = office.sheet(("bad", "10", f"1234567{ending}"), name=f"{outcome}.csv")
    ended = office.run("pay", sheet, "--run-key", outcome, "--yes", "--follow", "120")
    assert (ended.code, ended.last) == (4, f"0 settled, 1 {outcome}")
    row = office.results(outcome)["bad"]
    assert (row["outcome"], row["status"]) == (outcome, status)
    assert row["reason"]
    assert "treasury pay --only-failed-of " in row["next_action"]


def test_without_a_yes_the_plan_is_written_and_nothing_sent(office: Office, sandbox: RunningSandbox) -> None:
    with nothing_is_sent(sandbox):
        ended = office.run("pay", data.path("beneficiaries.csv"), "--run-key", "asked")
        dry = office.run("pay", data.path("beneficiaries.csv"), "--run-key", "asked", "--dry-run")
    assert ended.code == 3
    assert "waiting for a yes" in ended.last
    assert (dry.code, dry.last) == (0, "12 payments planned, nothing was sent")
    assert (office.home / "runs" / "asked" / "plan.json").exists()
    assert office.run("show", "asked").code == 2


def test_a_run_that_somebody_holds_ends_with_6(office: Office, sandbox: RunningSandbox) -> None:
    desk = office.desk()
    try:
        with desk.hold("held"), nothing_is_sent(sandbox):
            ended = office.run("pay", office.sheet(*PAID), "--run-key", "held", "--yes")
    finally:
        desk.close()
    import os

    assert ended.code == 6
    assert str(os.getpid()) in one_line_error(ended)


@pytest.mark.parametrize("more", [None, (), ("--partly",), ("--fund",)], ids=["no policy", "policy", "partly", "fund"])
def test_a_wrong_key_is_refused_clearly(
    sandbox: RunningSandbox, open_office: Callable[..., Office], tmp_path: Any, more: tuple[str, ...] | None
) -> None:
    """Under a policy the balance is asked about before the first questions: no balance was said, so "not funded"."""
    key = tmp_path / "wrong.pem"
    key.touch(mode=0o600)
    key.write_text(generate_key_pair()[0])
    office = open_office(sandbox.base_url, TREASURY_PRIVATE_KEY_FILE=str(key))
    if more is not None:
        adopted = office.run("policy", "adopt", data.path("treasury_policy.toml"), "--by", "Ada Example")
        assert adopted.code == 0, adopted.err
    with nothing_is_sent(sandbox):
        called = office.run("call", "partner_balance", "--json", '{"currency": "USDT"}')
        ended = office.run("pay", office.sheet(*PAID[:1]), "--run-key", "wrong", "--yes", "--follow", "0", *more or ())
    assert called.code == 4
    assert "406" in one_line_error(called)
    assert ended.code == 2
    assert "406" in one_line_error(ended)
    assert "the key, or the hash it signs with" in one_line_error(ended)
    assert {order.state for order in office.desk().ledger.orders()} == {State.PREPARED}


def test_a_service_that_is_away_loses_nothing_and_a_later_start_pays(
    key_pair: tuple[str, str], open_office: Callable[..., Office]
) -> None:
    with kept_port() as port:
        office = open_office(f"http://127.0.0.1:{port}")
        rows = (("a", "10", "12345670001"), ("b", "20", "12345670002"), ("c", "30", "12345670003"))
        whole = office.sheet(*rows)
        away = office.run("pay", whole, "--run-key", "away", "--yes", "--follow", "0")
        assert away.code == 4
        assert "Traceback" not in away.err
        assert away.last == "0 settled, 3 not sent"
        assert {row["outcome"] for row in office.results("away").values()} == {"not_sent"}
        settings = SandboxSettings(public_key=key_pair[1], settle_seconds=0.2, port=port)
        with running_sandbox(settings) as sandbox:
            part = office.run(
                "pay", office.sheet(rows[1], name="part.csv"), "--run-key", "away", "--yes", "--follow", "120"
            )
            assert (part.code, part.last) == (0, "1 settled")
            assert list(office.results("away")) == ["a", "b", "c"]  # every row of the run
            assert [order["amount"] for order in sandbox.orders()] == [Decimal(20)]
            rest = office.run("pay", whole, "--run-key", "away", "--yes", "--follow", "120")
            assert (rest.code, rest.last) == (0, "3 settled")
            assert sorted(order["amount"] for order in sandbox.orders()) == [Decimal(10), Decimal(20), Decimal(30)]
            assert {order["effects"] for order in sandbox.orders()} == {1}


def test_runs_and_show_read_the_ledger(paid: Ended, office: Office) -> None:
    listed = office.run("runs")
    assert listed.code == 0
    assert any(line.startswith("first  payout  ") and line.endswith(paid.last) for line in listed.out.splitlines())
    run = office.run("show", "first")
    assert (run.code, run.last) == (0, paid.last)
    assert len(run.out.splitlines()) == 4
    row = office.results("first")["ok"]
    for reference in (row["request_id"], row["order_no"], "ok"):
        shown = office.run("show", reference)
        assert shown.code == 0
        assert f"request_id: {row['request_id']}" in shown.out
        assert "prepared -> sending" in shown.out
        assert "12345670001" not in shown.out


def test_the_orders_of_one_file_are_chosen_by_its_rows_and_out_takes_the_results(
    office: Office, sandbox: RunningSandbox
) -> None:
    out = office.home / "elsewhere"
    arguments = ["--run-key", "sample", "--yes", "--follow", "120", "--out", out]
    ended = office.run("pay", data.path("beneficiaries.csv"), *arguments)
    assert (ended.code, ended.last) == (0, "12 settled")
    rows = read_rows(out / "results.csv")
    shown = {order["request_id"]: order for order in sandbox.orders()}
    assert len(rows) == 12
    for row in rows.values():
        order = shown[row["request_id"]]
        assert (Decimal(row["amount"]), row["currency"], order["effects"]) == (order["amount"], order["currency"], 1)
    assert not (office.home / "runs" / "sample").exists()


def test_valid_rows_are_paid_and_the_others_are_said_to_be_left_out(office: Office, sandbox: RunningSandbox) -> None:
    good = (("v1", "11", "12345670101"), ("v2", "12", "12345670102"))
    sheet = office.sheet(*good, ("v3", "ten", "12345670103"), name="valid.csv")
    asked = ("pay", sheet, "--run-key", "valid", "--valid-rows-only")
    with nothing_is_sent(sandbox):
        waits = office.run(*asked)
    assert (waits.code, waits.last[:20]) == (3, "2 payments planned; ")
    assert "Left out:                   1 row, not paid" in waits.out
    assert "Left out: row 4:            v3: amount: " in waits.out
    assert "Left out" in (office.home / "runs" / "valid" / "plan.html").read_text()
    ended = office.run(*asked, "--yes", "--follow", "20")
    assert (ended.code, ended.last, ended.err) == (4, "2 settled, 1 left out", "")
    assert set(office.results("valid")) == {"v1", "v2"}
    again = office.run(*asked, "--yes", PREFECT_API_URL="http://127.0.0.1:9/api")
    assert (again.code, again.last, again.err) == (4, "2 settled, 1 left out", "")
    remaining = office.home / "runs" / "valid" / "remaining.csv"
    remaining.write_text(remaining.read_text().replace(",ten,", ",13,"))
    added = office.run("pay", remaining, "--run-key", "valid", "--add", "--yes", "--follow", "20")
    assert (added.code, added.last) == (0, "1 settled")
    assert office.summary("valid")["counts"] == {"settled": 3}
    assert "left_out" not in office.summary("valid")
    assert remaining.read_text().count("\n") == 1
    assert [file for file in office.home.glob("runs/valid/starts/*/changed-remaining.csv") if "13" in file.read_text()]


def test_without_a_valid_row_nothing_is_sent(office: Office, sandbox: RunningSandbox) -> None:
    with nothing_is_sent(sandbox):
        ended = office.run(
            "pay", office.sheet(("n", "ten", "12345670103")), "--run-key", "none", "--valid-rows-only", "--yes"
        )
    assert ended.code == 2
    assert "row 2 (n), amount" in one_line_error(ended)


def test_each_sum_is_said_once(office: Office) -> None:
    sheet = office.sheet(("s1", "41", "12345670101"), ("s2", "36", "12345670102"), name="sums.csv")
    looked = office.run("pay", sheet, "--run-key", "sums", "--dry-run")
    lead, *sums = [line for line in looked.out.splitlines() if " 77 USDT_TRC20" in line and " By " not in line]
    assert (lead.startswith("  2 payments"), "at most 77 USDT_TRC20 leave" in lead) == (True, True)
    assert (looked.code, sums) == (0, [f"  {'Debits at most:':28}77 USDT_TRC20"])
    assert [looked.out.count(word) for word in ("run sums: 2 payments", "Payments:", "Run:")] == [1, 0, 0]
    assert looked.out.count("approvals are by name only") == 1


def test_an_earlier_payment_is_named_by_the_day_of_the_policys_time_zone(
    sandbox: RunningSandbox, open_office: Callable[..., Office], tmp_path: Path
) -> None:
    """As in its results: the day of UTC is another one in the zone that is taken."""
    office, rules = open_office(sandbox.base_url), tmp_path / "policy.toml"
    zone = "Pacific/Kiritimati" if datetime.now(UTC).hour >= 10 else "Pacific/Pago_Pago"  # 14 h ahead, 11 h behind
    rules.write_text(f'no_limits = "a test"\ntime_zone = "{zone}"\n[payouts]\nduplicate_days = 0\n')
    assert office.run("policy", "adopt", rules, "--by", "Ada Example").code == 0
    sheet = office.sheet(("r1", "10", "12345670077"))
    assert office.run("pay", sheet, "--run-key", "november", "--yes", "--follow", "20").last == "1 settled"
    [row] = office.results("november").values()
    again = office.run("pay", sheet, "--run-key", "december", "--dry-run")
    assert f"r1 looks like a payment of {row['value_date']} in run november" in again.out
