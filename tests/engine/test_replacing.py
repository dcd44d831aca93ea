"""A payment that replaces one that did not settle: made once, of the same content, and only after asking again."""

import csv
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from sqlalchemy import update

from tests.engine import paying
from tests.engine.intents import commit, intent
from tests.engine.planned import PlannedService
from tests.engine.runs import night, pay, results, sheet
from tests.moved_clock import clock_of
from treasury.errors import InputError, InvalidSheet
from treasury.ledger import schema
from treasury.ledger.intents import commit_plan
from treasury.ledger.replacements import KEPT_DAYS, forget_old_contents
from treasury.orders.states import Event, Hold, State
from treasury.pay.payouts import write_results_anew
from treasury.pay.remaining import write_failed_of
from treasury.payments import execution
from treasury.payments.cancelling import cancel
from treasury.payments.desk import Desk
from treasury.sheets.beneficiaries import read_beneficiaries

OpenDesk = Callable[..., Desk]

GOOD, FAILS, CLOSES, STAYS = "12345670001", "12345670044", "12345670088", "12345670022"

QUOTED = (
    "row_ref,route,quote_mode,pay_currency,pay_amount,receive_currency,receive_amount,max_pay_amount,"
    "beneficiary_country,beneficiary_bank_id,account_type,beneficiary_relationship,clear_network,account_no,bank_name,"
    "address,full_name,purpose_code,description,field.routing_no\n"
    "q,quoted,source,USDT,10.00,EUR,,,DE,1,PERSONAL,own,SEPA,DE89370400440532013000,A Bank,1 Example Street,"
    "Ann Example,01,-for May,012\n"
)


FAILING_QUOTED = (
    QUOTED.replace(",DE,1,", ",US,2000820,")
    .replace("USDT,10.00,EUR", "USDT,10.00,USD")
    .replace("own,SEPA,DE89370400440532013000", "own,LOCAL_PAYMENT,12345670044")
    .replace(",field.routing_no", "")
    .replace(",012", "")
    .replace("-for May", "May")
)
"""A quoted row that the sandbox takes, and fails at the end."""


def with_replaces(file: Path, ids: Mapping[str, str], name: str = "again.csv") -> Path:
    """Return the same sheet with a column that names what each row replaces."""
    rows = list(csv.DictReader(file.read_text().splitlines()))
    columns = [*rows[0], "replaces"]
    made = file.with_name(name)
    with made.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns)
        writer.writeheader()
        writer.writerows({**row, "replaces": ids.get(row["row_ref"], "")} for row in rows)
    return made


def ids_of(desk: Desk, run_key: str = "run") -> dict[str, str]:
    return {order.row_ref: order.request_id for order in desk.ledger.orders(run_key=run_key)}


def test_a_payment_that_two_rows_far_apart_replace_is_refused_where_rows_are_recorded(open_desk: OpenDesk) -> None:
    """Rows are recorded a few hundred at a time; nobody planned these."""
    ledger = open_desk("http://127.0.0.1:1").ledger
    [old] = commit(ledger, "old", run_key="first")
    ledger.step(old, Event.CANCEL)
    rows = [intent(f"r{number}", replaces=old.request_id if number in (0, 600) else None) for number in range(601)]
    with pytest.raises(InputError, match=r"row r600: .* was replaced by r0 of run again already"):
        commit_plan(ledger, "again", "payout", {}, "1" * 64, rows)
    assert ledger.orders(run_key="again") == []


def test_what_remains_is_a_sheet_of_the_rows_that_ended_unpaid_and_of_no_others(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = sheet(tmp_path, ("a", "10", GOOD), ("b", "20.50", FAILS), ("c", "30", CLOSES), ("d", "40", STAYS))
    summary = pay(desk, file, tmp_path / "out", seconds=1)
    assert summary["counts"] == {"settled": 1, "in_progress": 1, "failed": 1, "closed": 1}
    remaining = tmp_path / "out" / "remaining.csv"
    assert [str(remaining), str(remaining.with_suffix(".xlsx"))] == summary["files"][-2:]
    assert remaining.stat().st_mode & 0o777 == 0o600
    before = {row.row_ref: row for row in read_beneficiaries(file)}
    for name in ("remaining.csv", "remaining.xlsx"):
        after = {row.row_ref: row for row in read_beneficiaries(remaining.with_name(name))}
        assert set(after) == {"b", "c"}
        for ref, row in after.items():
            assert row.fields == before[ref].fields
            assert row.replaces == ids_of(desk)[ref]
    assert len(list((tmp_path / "out" / "starts").glob("*/remaining.csv"))) == 1
    again = pay(desk, remaining, tmp_path / "again", "again", seconds=1)
    assert again["counts"] == {"failed": 1, "closed": 1}
    assert pay(desk, file, tmp_path / "out", seconds=0)["counts"] == summary["counts"]
    assert list(read_rows(remaining)) == [], "both were replaced"


def read_rows(file: Path) -> list[dict[str, str]]:
    with file.open() as content:
        return list(csv.DictReader(content))


def test_a_quoted_row_comes_back_cell_by_cell(open_desk: OpenDesk, service: PlannedService, tmp_path: Path) -> None:
    service.plan("/v1/fiatpayout/payouts/quote", (200, {"code": 400, "message": "INVALID_REQUEST"}))
    desk = open_desk(service.base_url)
    file = tmp_path / "quoted.csv"
    file.write_text(QUOTED)
    assert pay(desk, file, tmp_path / "out", seconds=0)["counts"] == {"rejected": 1}
    [before], [after] = read_beneficiaries(file), read_beneficiaries(tmp_path / "out" / "remaining.csv")
    assert (after.fields, after.purpose_code, after.description) == (before.fields, "01", "-for May")
    [book] = openpyxl.load_workbook(tmp_path / "out" / "remaining.xlsx").worksheets
    cells = dict(zip(*([cell.value for cell in row] for row in book.iter_rows()), strict=True))
    assert (cells["field.routing_no"], cells["description"]) == ("012", "-for May")
    assert {cell.data_type for row in book.iter_rows() for cell in row} <= {"s", "n"}
    assert not any(isinstance(cell.value, int | float) for row in book.iter_rows() for cell in row)


def test_what_came_back_is_told_no_command_that_refuses_it(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Content of what had arrived is kept no more: `--only-failed-of` pays the row that failed, and leaves it out."""
    desk = open_desk(start_sandbox(settle_seconds=1, faults={"flip_final": 1.0}, flip_seconds=3600).base_url)
    pay(desk, sheet(tmp_path, ("a", "10", GOOD), ("b", "20", FAILS)), tmp_path / "out", seconds=20)
    clock_of(desk).move(2 * 3600)
    night(desk, tmp_path / "night")
    assert write_results_anew(desk, "run", tmp_path / "out")["counts"] == {"failed": 2}
    said = {ref: row["next_action"] for ref, row in results(tmp_path / "out").items()}
    assert "copy its other columns into remaining.csv" in said["a"]
    assert ("--only-failed-of run" in said["a"], "--only-failed-of run" in said["b"]) == (False, True)
    _, lacking = write_failed_of(desk, "run", "second", tmp_path / "second")
    assert lacking == ["a"]


def test_only_failed_of_pays_what_failed_of_a_run_once(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    pay(desk, sheet(tmp_path, ("a", "10", GOOD), ("b", "20", FAILS)), tmp_path / "out", seconds=1)
    file, lacking = write_failed_of(desk, "run", "second", tmp_path / "second")
    assert lacking == []
    assert [row["row_ref"] for row in read_rows(file)] == ["b"]
    pay(desk, file, tmp_path / "second", "second", seconds=1)
    assert write_failed_of(desk, "run", "second", tmp_path / "second") == (file, []), "a start again has its sheet"
    pay(desk, file, tmp_path / "second", "second", seconds=0)
    assert len(sandbox.orders()) == 3
    with pytest.raises(InputError, match=r"nothing of run run failed, .* not replaced already"):
        write_failed_of(desk, "run", "third", tmp_path / "third")
    with pytest.raises(InvalidSheet, match=r"row 2 \(b\), replaces: was replaced by b of run second already"):
        paying.commit(desk, file, "third")
    with pytest.raises(InputError, match="there is no payout run other"):
        write_failed_of(desk, "other", "third", tmp_path / "third")


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("a", r"is settled: only a payment that failed"),
        ("d", r"is in progress: only a payment that failed"),
        ("tf-other", r"is no payment of this ledger"),
    ],
)
def test_what_may_have_been_paid_is_never_replaced(
    named: str, says: str, open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    desk = open_desk(start_sandbox().base_url)
    file = sheet(tmp_path, ("a", "10", GOOD), ("b", "20", FAILS), ("d", "40", STAYS))
    pay(desk, file, tmp_path / "out", seconds=1)
    other = with_replaces(file, {"b": ids_of(desk).get(named, named)})
    with pytest.raises(InvalidSheet, match=says) as raised:
        paying.commit(desk, other, "again")
    assert [(problem.row, problem.column) for problem in raised.value.problems] == [(3, "replaces")]
    assert desk.ledger.run("again") is None


@pytest.mark.both_databases
def test_two_rows_do_not_replace_one_payment(open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path) -> None:
    desk = open_desk(start_sandbox().base_url)
    pay(desk, sheet(tmp_path, ("b", "20", FAILS)), tmp_path / "out", seconds=1)
    old = ids_of(desk)["b"]
    file = with_replaces(sheet(tmp_path, ("x", "20", GOOD), ("y", "20", FAILS)), {"x": old, "y": old})
    with pytest.raises(InvalidSheet, match="is the payment that row x replaces already"):
        paying.commit(desk, file, "again")


class Shown:
    """A service that takes every payout and shows each with the status that the test says."""

    def __init__(self, service: PlannedService) -> None:
        self.statuses: dict[str, int | None] = {}
        service.plan("/v1/order/payout", self._take)
        service.plan("/v1/order/query", self._show)

    def _take(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        self.statuses.setdefault(body["request_id"], 44)
        return 200, {"code": 200, "data": {"order_no": f"N{body['request_id'][-6:]}", "status": 22}}

    def _show(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        name = body["request_id"]
        if self.statuses.get(name) is None:
            return 200, {"code": 7000, "message": "ORDER_NOT_EXIST"}
        return 200, {"code": 200, "data": {"order_no": f"N{name[-6:]}", "status": self.statuses[name]}}


@pytest.mark.parametrize("shown", [99, 22, 12])
def test_the_payment_that_is_replaced_is_asked_about_before_the_first_byte(
    shown: int, open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    books = Shown(service)
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, ("b", "20", GOOD))
    assert pay(desk, file, tmp_path / "out", seconds=1)["counts"] == {"failed": 1}
    old = ids_of(desk)["b"]
    books.statuses[old] = shown  # it flips after a replacement was planned
    again = with_replaces(file, {"b": old})
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"held": 1}
    [held] = desk.ledger.orders(run_key="again")
    assert (held.state, held.hold_kind, held.sends) == (State.HELD, Hold.REPLACED, 0)
    assert f"{old}, which it replaces, is shown with status {shown}, so it may have been paid" in str(held.reason)
    assert len(service.sent_to("/v1/order/payout")) == 1
    assert "treasury cancel" in results(tmp_path / "again")["b"]["next_action"]
    desk.ledger.step(held, Event.RELEASE, cause="a person wants it asked again")
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"held": 1}
    assert len(service.sent_to("/v1/order/payout")) == 1
    if shown != 99:
        [held] = desk.ledger.orders(run_key="again")
        desk.ledger.step(held, Event.RELEASE, cause="it failed after all")
        books.statuses[old] = 44
        assert pay(desk, again, tmp_path / "again", "again", seconds=1)["counts"] == {"failed": 1}
        assert len(service.sent_to("/v1/order/payout")) == 2


def test_a_replacement_does_not_leave_while_nobody_answers_about_the_first(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    books = Shown(service)
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, ("b", "20", GOOD))
    pay(desk, file, tmp_path / "out", seconds=1)
    again = with_replaces(file, ids_of(desk))
    old = ids_of(desk)["b"]

    def show(body: Mapping[str, Any]) -> Any:
        return "drop" if body["request_id"] == old else books._show(body)

    service.plan("/v1/order/query", show)
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"not_sent": 1}
    assert len(service.sent_to("/v1/order/payout")) == 1


@pytest.mark.sqlite_alone
def test_from_two_copies_of_a_ledger_a_payment_is_replaced_once(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path, ledger_url: str
) -> None:
    sandbox = start_sandbox()
    desk = open_desk(sandbox.base_url)
    file = sheet(tmp_path, ("b", "20", FAILS))
    pay(desk, file, tmp_path / "out", seconds=1)
    old = ids_of(desk)["b"]
    desk.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    desk = open_desk(sandbox.base_url)
    first = with_replaces(sheet(tmp_path, ("b", "20", GOOD)), {"b": old}, "first.csv")
    assert pay(desk, first, tmp_path / "again", "again", seconds=1)["counts"] == {"settled": 1}
    desk.close()
    copy = open_desk(sandbox.base_url, ledger=f"sqlite:///{tmp_path / 'copy.db'}")
    other = with_replaces(sheet(tmp_path, ("x", "21", GOOD)), {"x": old}, "other.csv")
    assert pay(copy, other, tmp_path / "other", "other", seconds=0)["counts"] == {"held": 1}
    assert len(sandbox.orders()) == 2


def test_a_cancelled_replacement_is_replaced_by_its_own_name(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    Shown(service)
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, ("b", "20", GOOD))
    pay(desk, file, tmp_path / "out", seconds=1)
    paying.commit(desk, with_replaces(file, ids_of(desk)), "again")
    cancel(desk, "again", by="Ada Example", why="wrong account")
    [cancelled] = desk.ledger.orders(run_key="again")
    with pytest.raises(InvalidSheet, match=f"name {cancelled.request_id} to replace that one"):
        paying.commit(desk, with_replaces(file, ids_of(desk)), "third")
    third = with_replaces(file, ids_of(desk, "again"), "third.csv")
    assert pay(desk, third, tmp_path / "third", "third", seconds=1)["counts"] == {"failed": 1}


def test_the_content_of_an_unpaid_payment_is_kept_until_it_is_replaced_or_old(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    Shown(service)
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, ("b", "20", GOOD), ("c", "30", FAILS))
    pay(desk, file, tmp_path / "out", seconds=1)
    assert all(order.payload is not None for order in desk.ledger.orders())
    only_b = with_replaces(sheet(tmp_path, ("b", "20", GOOD), name="b.csv"), ids_of(desk))
    paying.commit(desk, only_b, "again")
    kept = {order.row_ref for order in desk.ledger.orders(run_key="run") if order.payload is not None}
    assert kept == {"c"}
    forget_old_contents(desk.ledger)
    assert {order.row_ref for order in desk.ledger.orders(run_key="run") if order.payload is not None} == {"c"}
    clock_of(desk).move((KEPT_DAYS + 1) * 86_400)
    forget_old_contents(desk.ledger)
    assert all(order.payload is None for order in desk.ledger.orders(run_key="run"))
    assert pay(desk, sheet(tmp_path, ("b", "20", GOOD), ("c", "30", FAILS)), tmp_path / "o", seconds=0)


def test_a_payment_that_was_quoted_twice_is_replaced_once_by_whichever_of_its_ids(
    open_desk: OpenDesk, start_sandbox: Any, tmp_path: Path
) -> None:
    """Each quote of a payment has an id of its own; all of them name the same payment."""
    desk = open_desk(start_sandbox(quote_seconds=0.5, settle_seconds=0.1).base_url, quote_margin_seconds=0.0)
    file = tmp_path / "quoted.csv"
    file.write_text(FAILING_QUOTED)
    for ids in paying.commit(desk, file, "run"):
        execution.fetch_quotes(desk, "run", ids)
        clock_of(desk).move(0.8)  # the first quote ends unconfirmed, so that another follows
    assert pay(desk, file, tmp_path / "out", seconds=5)["counts"] == {"failed": 1}
    [order] = desk.ledger.orders(run_key="run")
    names = [quote.request_id for quote in desk.ledger.quotes([order.id])]
    assert len(names) == 2
    assert order.request_id == names[1]
    for number, name in enumerate(names):
        again = with_replaces(file, {"q": name}, f"again-{number}.csv")
        if number == 0:
            paying.commit(desk, again, "first")
        else:
            with pytest.raises(InvalidSheet, match="was replaced by q of run first already"):
                paying.commit(desk, again, "second")
    twice = with_replaces(file, {"q": names[0]}, "both.csv")
    rows = twice.read_text().splitlines()
    twice.write_text("\n".join([*rows, rows[1].replace("q,", "p,", 1).replace(names[0], names[1])]) + "\n")
    with pytest.raises(InvalidSheet, match="replaced"):
        paying.commit(desk, twice, "third")
    assert write_nothing(desk, tmp_path)


def write_nothing(desk: Desk, folder: Path) -> bool:
    with pytest.raises(InputError, match="nothing of run run failed"):
        write_failed_of(desk, "run", "fourth", folder / "fourth")
    return True


def test_a_replacement_whose_first_request_was_lost_asks_again_before_it_is_repeated(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    books = Shown(service)
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, ("b", "20", GOOD))
    pay(desk, file, tmp_path / "out", seconds=1)
    old = ids_of(desk)["b"]
    service.plan("/v1/order/payout", "drop")
    again = with_replaces(file, {"b": old})
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"unknown": 1}
    sent = len(service.sent_to("/v1/order/payout"))
    service.plan("/v1/order/payout", books._take)
    books.statuses[old] = 99
    ends = [pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] for _ in range(3)]
    assert ends[-1] == {"held": 1}
    assert len(service.sent_to("/v1/order/payout")) == sent
    [held] = desk.ledger.orders(run_key="again")
    assert held.hold_kind == Hold.REPLACED


def test_a_failed_payment_that_the_service_shows_no_more_is_not_replaced(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    books = Shown(service)
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ("b", "20", GOOD), ("w", "30", FAILS)), tmp_path / "out", seconds=1)
    old = ids_of(desk)["b"]
    books.statuses[old] = None  # it shows the other one: its word counts
    again = with_replaces(sheet(tmp_path, ("b", "20", GOOD)), {"b": old})
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"held": 1}
    [held] = desk.ledger.orders(run_key="again")
    assert "which does not show it any more" in str(held.reason)
    assert len(service.sent_to("/v1/order/payout")) == 2


def test_a_replacement_waits_while_the_service_shows_no_payment_at_all(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    books = Shown(service)
    desk = open_desk(service.base_url)
    pay(desk, sheet(tmp_path, ("b", "20", GOOD), ("w", "30", FAILS)), tmp_path / "out", seconds=1)
    ids = ids_of(desk)
    again = with_replaces(sheet(tmp_path, ("b", "20", GOOD)), {"b": ids["b"]})
    before = dict(books.statuses)
    books.statuses |= dict.fromkeys(ids.values())
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"not_sent": 1}
    [waits] = desk.ledger.orders(run_key="again")
    assert (waits.state, waits.hold_kind) == (State.PREPARED, None)
    assert "says nothing" in str(waits.reason)
    books.statuses |= before
    assert pay(desk, again, tmp_path / "again", "again", seconds=0)["counts"] == {"in_progress": 1}
    assert len(service.sent_to("/v1/order/payout")) == 3


def test_a_replacement_that_is_made_an_ordinary_payment_by_hand_is_held(
    open_desk: OpenDesk, service: PlannedService, tmp_path: Path
) -> None:
    Shown(service)
    desk = open_desk(service.base_url)
    file = sheet(tmp_path, ("b", "20", GOOD))
    pay(desk, file, tmp_path / "out", seconds=1)
    again = with_replaces(file, ids_of(desk))
    paying.commit(desk, again, "again")
    table = schema.orders
    by_hand = update(table).where(table.c.run_key == "again").values(replaces=None)
    desk.ledger.write(lambda connection: connection.execute(by_hand))
    for ids in paying.commit(desk, again, "again"):
        execution.send_orders(desk, "again", ids)
    [held] = desk.ledger.orders(run_key="again")
    assert (held.hold_kind, held.sends) == (Hold.CHANGED, 0)
