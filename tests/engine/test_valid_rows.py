"""Only the valid rows of a sheet are paid: the others are left out, say why, and are never said to be paid."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.engine import paying
from tests.engine.runs import HEADER, results, sheet
from tests.sheets.books import BANK, csv_text, number, table, workbook
from treasury.errors import ApprovalNeeded, InputError, InvalidSheet
from treasury.ledger.policies import adopt_policy
from treasury.pay import agreeing, payouts
from treasury.pay.payout_plans import PayRequest, make_plan
from treasury.pay.preview import look
from treasury.payments import approving, execution
from treasury.payments.desk import Desk
from treasury.policy.model import parse_policy
from treasury.reports.starts import end_start
from treasury.sheets.beneficiaries import read_beneficiaries

OpenDesk = Callable[..., Desk]

GOOD = (("a", "10", "12345670001"), ("b", "20", "12345670002"))
BAD = ("c", "ten", "12345670003")


def start(desk: Desk, file: Path, out: Path, *, add: bool = False, only: bool = True) -> dict[str, Any]:
    """All steps of a start."""
    request = PayRequest(file, "run", add=add, valid_rows_only=only)
    made = make_plan(desk, request)
    payouts.keep_left_out(out, request, made.payments)
    if made.proposed is not None:
        look(desk, made.proposed, file)
    agreeing.propose_payouts(desk, made)
    chunks = payouts.commit_payouts(desk, made)
    for ids in chunks:
        execution.send_orders(desk, "run", ids)
    execution.follow_orders(desk, "run", [each for ids in chunks for each in ids], 10)
    return dict(payouts.write_payout_results(desk, made, out))


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8-sig") as content:
        return list(csv.DictReader(content))


def outcomes(out: Path) -> dict[str, str]:
    return {ref: row["outcome"] for ref, row in results(out).items()}


def test_valid_rows_are_paid_and_the_others_remain(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox, out = start_sandbox(), tmp_path / "out"
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, *GOOD, BAD)
    with pytest.raises(InvalidSheet):
        start(desk, file, out, only=False)
    assert sandbox.orders() == []
    plan = paying.plan_of(desk, file, "run", valid_rows_only=True)
    assert plan.sha256 == paying.plan_of(desk, sheet(tmp_path, *GOOD, name="good.csv"), "run").sha256
    [said] = plan.summary()["left_out"]
    assert (said["row"], said["row_ref"]) == (4, "c")
    assert said["problem"].startswith("amount: ")
    summary = start(desk, file, out)
    assert summary["counts"] == {"settled": 2}
    assert [each["row_ref"] for each in summary["left_out"]] == ["c"]
    assert outcomes(out) == {"a": "settled", "b": "settled"}
    assert len(sandbox.orders()) == 2
    run = json.loads((out / "run.json").read_text())
    assert (run["orders"], run["counts"], len(run["left_out"])) == (2, {"settled": 2}, 1)
    assert [row["row_ref"] for row in rows_of(out / "errors.csv")] == ["c"]
    [copied] = rows_of(out / "corrected-me.csv")  # the paid ones are not in it: it may be given again anywhere
    assert (copied["row_ref"], copied["amount"], copied["_status"]) == ("c", "ten", "wrong")
    [left] = rows_of(out / "remaining.csv")
    assert (left["row_ref"], left["replaces"], left["amount"], left["_status"]) == ("c", "", "ten", "left out")
    assert left["_problem"].startswith("amount: ")
    assert str(out / "remaining.csv") in summary["files"]
    assert (out / "remaining.csv").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_row_that_is_mended_where_it_remains_is_added_and_paid_once(
    suffix: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox, out = start_sandbox(), tmp_path / "out"
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, *GOOD, BAD)
    start(desk, file, out)
    remaining = out / f"remaining.{suffix}"
    if suffix == "csv":
        remaining.write_text(remaining.read_text().replace(",ten,", ",30,"))
    else:
        book = openpyxl.load_workbook(remaining)
        for row in book.worksheets[0].iter_rows():
            for cell in row:
                cell.value = "30" if cell.value == "ten" else cell.value
        book.save(remaining)
    mended = tmp_path / remaining.name
    mended.write_bytes(remaining.read_bytes())
    for _ in range(2):
        end_start()
        summary = start(desk, mended, out, add=True)
        assert summary["counts"] == {"settled": 1}
        assert "left_out" not in summary
    assert json.loads((out / "run.json").read_text())["counts"] == {"settled": 3}
    assert rows_of(out / "remaining.csv") == []
    assert len(sandbox.orders()) == 3


def test_the_copy_of_what_was_left_out_pays_nothing_twice_and_never_replaces_the_file_that_is_read(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox, out = start_sandbox(), tmp_path / "out"
    desk = open_desk(sandbox.base_url)
    worse = ("d", "eleven", "12345670004")
    start(desk, sheet(tmp_path, *GOOD, BAD, worse), out)
    copy = out / "corrected-me.csv"
    copy.write_text(copy.read_text().replace(",ten,", ",30,"))
    given = copy.read_bytes()
    end_start()
    summary = start(desk, copy, out, add=True)
    assert (summary["counts"], [each["row_ref"] for each in summary["left_out"]]) == ({"settled": 1}, ["d"])
    assert copy.read_bytes() == given
    [newest] = [file for file in out.glob("starts/*/corrected-me.csv") if ",ten," not in file.read_text()]
    assert [row["row_ref"] for row in rows_of(newest)] == ["d"]
    assert len(sandbox.orders()) == 3


def test_a_later_start_does_not_say_that_left_out_rows_are_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox, out = start_sandbox(), tmp_path / "out"
    desk = open_desk(sandbox.base_url)
    start(desk, sheet(tmp_path, *GOOD, BAD), out)
    for rows, only in (((*GOOD, BAD), True), (GOOD, False)):
        summary = start(desk, sheet(tmp_path, *rows, name="later.csv"), out, only=only)
        assert summary["counts"] == {"settled": 2}
        assert [each["row_ref"] for each in json.loads((out / "run.json").read_text())["left_out"]] == ["c"]
        assert [row["row_ref"] for row in rows_of(out / "remaining.csv")] == ["c"]
    mended = sheet(tmp_path, *GOOD, ("c", "30", BAD[2]), name="mended.csv")
    summary = start(desk, mended, out)
    [said] = summary["left_out"]
    assert "--add" in said["problem"]
    assert len(sandbox.orders()) == 2


def test_every_row_of_a_reference_that_is_there_twice_is_left_out(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = sheet(tmp_path, *GOOD, ("x", "1", "12345670005"), ("x", "2", "12345670006"))
    summary = start(desk, file, tmp_path / "out")
    assert [(each["row"], each["row_ref"]) for each in summary["left_out"]] == [(4, "x"), (5, "x")]
    assert outcomes(tmp_path / "out") == {"a": "settled", "b": "settled"}


def test_rows_that_the_lists_of_the_service_refuse_are_left_out(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = sheet(tmp_path, *GOOD, ("c", "30", "12345670003"))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-1], lines[-1].replace("1000120", "777")]) + "\n")
    summary = start(desk, file, tmp_path / "out")
    assert summary["counts"] == {"settled": 2}
    [said] = summary["left_out"]
    assert "bank_code" in said["problem"]
    [left] = rows_of(tmp_path / "out" / "remaining.csv")
    assert left["bank_code"] == "777"


def test_rows_over_a_limit_are_left_out_and_the_approval_covers_what_is_paid(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    policy = {"max_per_payout": {"USDT_TRC20": "25"}, "one_approval_above": {"USDT_TRC20": "5"}}
    adopt_policy(desk.ledger, parse_policy({"payouts": policy}, "policy"), "policy", by="Ada Example", os_user="ada")
    file = sheet(tmp_path, *GOOD, ("c", "30", "12345670003"))
    with pytest.raises(ApprovalNeeded):
        start(desk, file, tmp_path / "out")
    waiting = approving.newest(desk, "run")
    assert waiting.shown is not None
    assert [row["row_ref"] for row in waiting.shown["rows"]] == ["a", "b"]
    assert [row["row_ref"] for row in waiting.shown["left_out"]] == ["c"]
    approving.approve(desk, "run", name="Ben Example")
    assert start(desk, file, tmp_path / "out")["counts"] == {"settled": 2}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{HEADER}\n", "has no rows"),
        (HEADER.replace("route,", "") + "\n", "column is missing"),
        (HEADER + "\n" + ",".join(["c", "direct", "ten"]) + "\n", "amount"),
        ("only words\n", "no column names"),
    ],
    ids=["no row", "a column is missing", "no good row", "no table"],
)
def test_a_file_of_which_nothing_can_be_paid_is_refused(
    text: str, says: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(InvalidSheet, match=says):
        start(open_desk(sandbox.base_url), file, tmp_path / "out")
    assert sandbox.orders() == []


def test_a_row_of_too_many_cells_refuses_all_for_nobody_knows_which_are_meant(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    file = sheet(tmp_path, *GOOD, BAD)
    file.write_text(file.read_text() + f"{','.join(14 * ['d'])}\n")
    with pytest.raises(InvalidSheet, match="more cells than the header"):
        start(open_desk(start_sandbox().base_url), file, tmp_path / "out")


def test_a_recorded_row_that_is_wrong_now_refuses_all_and_is_never_offered_again(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk, out = open_desk(start_sandbox().base_url), tmp_path / "out"
    start(desk, sheet(tmp_path, *GOOD, BAD), out)
    broken = sheet(tmp_path, GOOD[0], ("b", "twenty", GOOD[1][2]), BAD, name="broken.csv")
    with pytest.raises(InputError, match="is in the run already"):
        start(desk, broken, out)
    assert [row["row_ref"] for row in rows_of(out / "remaining.csv")] == ["c"]


def test_nothing_becomes_right_by_being_left_out(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    """An account that a spreadsheet took for a number lost its zeros: as text it would be another account."""
    desk, out = open_desk(start_sandbox().base_url), tmp_path / "out"
    rows = [BANK | {"account_no": "12345670001"}, BANK | {"row_ref": "r2", "account_no": number("481926357")}]
    summary = start(desk, workbook(tmp_path, table(rows)), out)
    assert summary["counts"] == {"settled": 1}
    for name in ("remaining.csv", "remaining.xlsx"):
        with pytest.raises(InvalidSheet) as refused:
            read_beneficiaries(out / name)
        assert {problem.column for problem in refused.value.problems} == {"account_no"}
    unclear = [BANK | {"row_ref": "r3", "amount": "1.250"}, BANK | {"row_ref": "r4", "amount": "12,50"}]
    file = tmp_path / "unclear.csv"
    file.write_text(csv_text(table(unclear), separator=";"))
    summary = start(desk, file, out, add=True)
    assert [each["row_ref"] for each in summary["left_out"]] == ["r3"]
    with pytest.raises(InvalidSheet) as refused:
        read_beneficiaries(out / "remaining.csv")
    assert {(each.row_ref, each.column) for each in refused.value.problems} == {("r2", "account_no"), ("r3", "amount")}


def test_what_the_control_of_a_sheet_says_is_of_all_its_rows(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    lines = table([BANK, BANK | {"row_ref": "r2", "country": "Nowhere"}])
    for name, expected in (("right", "2"), ("wrong", "3")):
        book = openpyxl.Workbook()
        for line in lines:
            book.worksheets[0].append(line)
        control = book.create_sheet("_control")
        for line in (["what", "counted", "expected"], ["rows", None, expected]):
            control.append(line)
        book.save(tmp_path / f"{name}.xlsx")
    with pytest.raises(InvalidSheet, match="expects 3 rows, and the sheet has 2"):
        start(desk, tmp_path / "wrong.xlsx", tmp_path / "out")
    assert sandbox.orders() == []
    assert start(desk, tmp_path / "right.xlsx", tmp_path / "out")["counts"] == {"settled": 1}
