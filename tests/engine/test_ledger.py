"""The ledger remembers, refuses what is not allowed, and lets one process at a time hold a run."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text, update

from tests.engine.intents import commit, intent
from tests.parts import new_database
from treasury.clock import Clock
from treasury.errors import ConfigurationError, IllegalTransition, RunHeld, RunKeyConflict, WrongAccount, WrongLedgerKey
from treasury.ledger import schema
from treasury.ledger.database import open_engine
from treasury.ledger.intents import IntentRules, commit_plan
from treasury.ledger.known_payees import find_duplicates
from treasury.ledger.ledger import Ledger
from treasury.ledger.seals import with_seal
from treasury.orders.records import Intent, Order, derive_request_id
from treasury.orders.states import STEPS, Event, State
from treasury.policy.limits import PaymentLimits

OpenLedger = Callable[..., Ledger]


@pytest.mark.both_databases
def test_intents_are_there_for_another_process(open_ledger: OpenLedger) -> None:
    commit(open_ledger(), "a", "b")
    found = open_ledger().orders(run_key="run")
    assert [(order.row_ref, order.state, order.amount) for order in found] == [
        ("a", State.PREPARED, Decimal("10.00")),
        ("b", State.PREPARED, Decimal("10.00")),
    ]
    assert open_ledger().payload(found[0])["account_no"] == "123456789012"


@pytest.mark.both_databases
def test_the_same_payment_has_the_same_request_id_on_every_machine() -> None:
    one = derive_request_id("http://127.0.0.1:1|1", "run", "a", "payout", 1)
    assert one == derive_request_id("http://127.0.0.1:1|1", "run", "a", "payout", 1)
    others = {
        derive_request_id("http://127.0.0.1:1|2", "run", "a", "payout", 1),
        derive_request_id("http://127.0.0.1:1|1", "run2", "a", "payout", 1),
        derive_request_id("http://127.0.0.1:1|1", "run", "b", "payout", 1),
        derive_request_id("http://127.0.0.1:1|1", "run", "a", "withdraw", 1),
        derive_request_id("http://127.0.0.1:1|1", "run", "a", "payout", 2),
    }
    assert len(others | {one}) == 6
    assert len(one) <= 32


@pytest.mark.both_databases
def test_a_run_key_names_changed_and_added_rows_and_takes_a_subset(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    commit(ledger, "a", "b", "c")
    assert commit_plan(ledger, "run", "payout", {}, "1" * 64, [intent("b")]) == 0
    with pytest.raises(RunKeyConflict) as changed:
        commit_plan(ledger, "run", "payout", {}, "2" * 64, [intent("a"), intent("b", "11.00"), intent("c", "12.00")])
    assert changed.value.rows == ("b", "c")
    with pytest.raises(RunKeyConflict) as added:
        commit_plan(ledger, "run", "payout", {}, "3" * 64, [intent("a"), intent("d")])
    assert added.value.rows == ("d",)
    with pytest.raises(RunKeyConflict):
        commit_plan(ledger, "run", "rebalancing", {}, "0" * 64, [intent("a")])
    assert [order.row_ref for order in ledger.orders()] == ["a", "b", "c"]


@pytest.mark.both_databases
def test_many_rows_are_compared_with_those_of_their_run(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    refs = [f"r{number}" for number in range(1_201)]
    commit(ledger, *refs)
    wrong = [intent(ref, "11.00" if ref in ("r3", "r1200") else "10.00") for ref in reversed(refs)]
    with pytest.raises(RunKeyConflict) as changed:
        commit_plan(ledger, "run", "payout", {}, "", [*wrong, intent("new")])
    assert changed.value.rows == ("r1200", "r3")
    assert commit_plan(ledger, "run", "payout", {}, "", [intent(ref) for ref in refs[600:]]) == 0
    assert len(ledger.orders()) == 1_201


@pytest.mark.both_databases
def test_a_run_that_is_bound_under_the_same_hash_is_gone_on_with_at_once(open_ledger: OpenLedger) -> None:
    """Its rows were compared when they were hashed; those that are held now say why they are none are let go."""
    ledger = open_ledger()
    same: dict[str, Any] = {"duplicate_key": ("payee", "USDT", "10")}
    rows = [intent("a", **same), intent("b", **same)]
    assert commit_plan(ledger, "run", "payout", {}, "4" * 64, rows) == 2
    assert [order.state for order in ledger.orders()] == [State.PREPARED, State.HELD]
    looked_at: list[str] = []

    def meant() -> Iterator[Intent]:
        for each in (intent("a", **same), intent("b", **same, duplicate_ok="two bills")):
            looked_at.append(each.row_ref)
            yield each

    assert commit_plan(ledger, "run", "payout", {}, "4" * 64, meant()) == 0
    assert looked_at == ["a", "b"]
    assert [order.state for order in ledger.orders()] == [State.PREPARED, State.PREPARED]
    assert commit_plan(ledger, "run", "payout", {}, "4" * 64, meant()) == 0
    assert looked_at == ["a", "b"], "nothing is held, so nobody has to be looked at"
    with pytest.raises(RunKeyConflict):
        commit_plan(ledger, "run", "rebalancing", {}, "4" * 64, rows)


@pytest.mark.both_databases
def test_of_many_that_look_alike_the_first_is_paid_and_named(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    same = [intent(f"r{number}", duplicate_key=("payee", "USDT", "10")) for number in range(40)]
    commit_plan(ledger, "one", "payout", {}, "", [*same, intent("other", duplicate_key=("else", "USDT", "10"))])
    commit_plan(
        ledger, "two", "payout", {}, "", [intent("x", duplicate_key=("else", "USDT", "10")), intent("y"), intent("z")]
    )
    held = {order.row_ref: str(order.reason) for order in ledger.orders(states=(State.HELD,))}
    first, other = ledger.orders(reference="r0")[0], ledger.orders(reference="other")[0]
    assert held.keys() == {*(f"r{number}" for number in range(1, 40)), "x"}
    assert all(f"r0 of run one ({first.request_id})" in held[f"r{number}"] for number in range(1, 40))
    assert f"other of run one ({other.request_id})" in held["x"]


@pytest.mark.both_databases
def test_what_waits_counts_however_few_days_do(open_ledger: OpenLedger) -> None:
    class Ticking(Clock):
        def wall(self) -> float:
            return next(times)

    times = iter(range(1_700_000_000, 1_800_000_000, 60))
    ledger = open_ledger(clock=Ticking())
    same = [intent(f"r{number}", duplicate_key=("payee", "USDT", "10")) for number in range(3)]
    commit_plan(ledger, "one", "payout", {}, "", same, IntentRules(limits=PaymentLimits(duplicate_days=0)))
    commit_plan(ledger, "two", "payout", {}, "", [same[0]], IntentRules(limits=PaymentLimits(duplicate_days=0)))
    states = {(order.run_key, order.row_ref): order.state for order in ledger.orders()}
    assert [states["one", "r0"], states["two", "r0"]] == [State.PREPARED, State.HELD]
    assert [states["one", "r1"], states["one", "r2"]] == [State.HELD, State.HELD]


@pytest.mark.parametrize("event", list(Event))
def test_each_step_starts_only_where_the_table_says(open_ledger: OpenLedger, event: Event) -> None:
    ledger = open_ledger()
    for state in State:
        [order] = commit(ledger, "a", run_key=f"run-{state}")
        _put(ledger, order, state)
        order = ledger.orders(ids=[order.id])[0]
        if state in STEPS[event].sources:
            assert ledger.step(order, event).state is STEPS[event].target
        else:
            with pytest.raises(IllegalTransition):
                ledger.step(order, event)
            assert ledger.orders(ids=[order.id])[0].state is state
            assert ledger.journal(order) == []


def _put(ledger: Ledger, order: Order, state: State) -> None:
    values = with_seal(ledger.key, order, {"state": state.value})
    statement = update(schema.orders).where(schema.orders.c.id == order.id).values(**values)
    ledger.write(lambda connection: connection.execute(statement).rowcount)


@pytest.mark.both_databases
def test_a_step_from_an_outdated_view_is_refused(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    [order] = commit(ledger, "a")
    sending = ledger.step(order, Event.SEND)
    ledger.step(sending, Event.SETTLE)
    with pytest.raises(IllegalTransition):
        ledger.step(sending, Event.LOSE)


@pytest.mark.both_databases
def test_the_journal_holds_every_step_with_cause_and_code(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    [order] = commit(ledger, "a")
    order = ledger.step(order, Event.SEND)
    order = ledger.step(order, Event.LOSE, cause="no answer", code="500")
    order = ledger.step(order, Event.SETTLE, cause="a query", status=99)
    ledger.step(order, Event.CORRECT_TO_FAILED, cause="a late flip", status=44)
    steps = [(entry.source, entry.target, entry.cause, entry.code, entry.status) for entry in ledger.journal(order)]
    assert steps == [
        ("prepared", "sending", None, None, None),
        ("sending", "unknown", "no answer", "500", None),
        ("unknown", "settled", "a query", "500", 99),
        ("settled", "failed", "a late flip", "500", 44),
    ]


@pytest.mark.both_databases
def test_personal_data_stays_only_until_the_order_is_final(open_ledger: OpenLedger, tmp_path: Path) -> None:
    ledger = open_ledger()
    [order] = commit(ledger, "a")
    assert order.payload is not None
    assert b"123456789012" not in order.payload
    order = ledger.step(ledger.step(order, Event.SEND), Event.SETTLE)
    assert order.payload is None
    with pytest.raises(IllegalTransition):
        ledger.payload(order)
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"123456789012" not in stored


@pytest.mark.both_databases
def test_an_unused_ledger_follows_its_account(open_ledger: OpenLedger) -> None:
    """A partner id that was mistyped at first binds nothing: the ledger holds no run and no order."""
    open_ledger(account="http://127.0.0.1:1|mistyped")
    commit(open_ledger(), "r1")
    with pytest.raises(WrongAccount, match="partner mistyped"):
        open_ledger(account="http://127.0.0.1:1|mistyped")


@pytest.mark.both_databases
def test_who_opened_a_ledger_before_it_was_bound_anew_records_nothing_in_it(open_ledger: OpenLedger) -> None:
    """Its orders would be asked about, and sent again, at an account that never had them."""
    before = open_ledger(account="http://127.0.0.1:1|first")
    after = open_ledger(account="http://127.0.0.1:1|second")
    with pytest.raises(WrongAccount, match="bound to partner second"):
        commit(before, "r1")
    assert after.orders() == []
    commit(after, "r1")


@pytest.mark.both_databases
def test_another_account_and_another_key_are_refused(open_ledger: OpenLedger) -> None:
    commit(open_ledger(), "r1")
    with pytest.raises(WrongAccount, match="partner 2 at http://two"):
        open_ledger(account="http://two|2")
    with pytest.raises(WrongLedgerKey, match="TREASURY_LEDGER_KEY_FILE"):
        open_ledger(key="other.key")


@pytest.mark.both_databases
def test_a_bad_step_does_not_take_others_with_it(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = commit(ledger, *(f"r{number}" for number in range(60)))
    for order in orders[::3]:
        ledger.step(order, Event.HOLD)

    def send(order: Order) -> str:
        try:
            return ledger.step(order, Event.SEND).state
        except IllegalTransition:
            return "refused"

    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(send, orders))
    assert found == ["refused" if number % 3 == 0 else State.SENDING for number in range(60)]


@pytest.mark.both_databases
def test_a_broken_statement_does_not_take_others_with_it(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    orders = commit(ledger, *(f"r{number}" for number in range(40)))

    def work(number: int) -> bool:
        if number % 4 == 0:
            with pytest.raises(ConfigurationError):
                ledger.write(lambda connection: connection.execute(text("UPDATE nothing SET here = 1")))
            return False
        return ledger.step(orders[number], Event.SEND).state is State.SENDING

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(work, range(40))) == [number % 4 != 0 for number in range(40)]


HOLDER = """
import sys, time
from pathlib import Path
from treasury.ledger.ledger import Ledger
from treasury.ledger.seals import with_seal
ledger = Ledger(sys.argv[1], "http://127.0.0.1:1|1", Path(sys.argv[2]))
with ledger.hold("run"):
    print("held", flush=True)
    time.sleep(600)
"""


def another_ledger_url(url: str, folder: Path) -> str:
    """Return where another ledger may be: on the same server, or in the same folder."""
    return new_database(url) if url.startswith("postgresql") else f"sqlite:///{folder / 'other.db'}"


@pytest.mark.both_databases
def test_a_run_is_held_by_one_process_and_freed_when_it_is_killed(
    open_ledger: OpenLedger, ledger_url: str, tmp_path: Path
) -> None:
    ledger = open_ledger()
    elsewhere = another_ledger_url(ledger_url, tmp_path)  # a run of this name there is no run of this ledger
    command = [sys.executable, "-c", HOLDER, ledger_url, str(tmp_path / "ledger.key")]
    with (
        closing(Ledger(elsewhere, "http://127.0.0.1:1|1", tmp_path / "other.key")) as stranger,
        stranger.hold("run"),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other,
        ExitStack() as stack,
    ):
        stack.callback(other.kill)  # also where an assertion fails: it is waited for
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunHeld) as held, ledger.hold("run"):
            pass
        assert str(other.pid) in held.value.holder
        with ledger.hold("another"):
            pass
        other.kill()
        other.wait()
    for _ in range(50):  # PostgreSQL notices the dead session within moments
        with suppress(RunHeld), ledger.hold("run") as fresh:
            assert fresh
            with ledger.hold("run") as again:
                assert not again
            return
        time.sleep(0.1)
    pytest.fail("the lock outlived its process")


@pytest.mark.both_databases
def test_what_a_dead_process_left_sending_is_unknown(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    one, two = commit(ledger, "a", "b")
    ledger.step(one, Event.SEND)
    assert ledger.recover("run") == 1
    found = {order.row_ref: order for order in ledger.orders(run_key="run")}
    assert (found["a"].state, found["a"].doubtful) == (State.UNKNOWN, True)
    assert (found["b"].state, found["b"].doubtful) == (State.PREPARED, False)
    assert two.state is State.PREPARED


@pytest.mark.both_databases
def test_two_starts_of_one_run_commit_its_rows_once(open_ledger: OpenLedger) -> None:
    ledgers = [open_ledger() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        new = list(pool.map(lambda each: commit_plan(each, "run", "payout", {}, "0" * 64, [intent("a")]), ledgers))
    assert sorted(new) == [0, 0, 0, 1]
    assert len(ledgers[0].orders()) == 1


@pytest.mark.both_databases
def test_a_ledger_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be made"):
        Ledger(f"sqlite:///{tmp_path}/file/ledger.db", "http://127.0.0.1:1|1", tmp_path / "key")
    with pytest.raises(ConfigurationError, match="SQLite or PostgreSQL"):
        Ledger("mysql://host/name", "http://127.0.0.1:1|1", tmp_path / "key")
    (tmp_path / "bad.key").touch(mode=0o600)
    (tmp_path / "bad.key").write_text("short")
    with pytest.raises(ConfigurationError, match=f"{tmp_path / 'bad.key'} holds no key, which is 32 bytes"):
        Ledger(f"sqlite:///{tmp_path}/ledger.db", "http://127.0.0.1:1|1", tmp_path / "bad.key")
    Ledger(f"sqlite:///{tmp_path}/ledger.db", "http://127.0.0.1:1|1", tmp_path / "key").close()
    (tmp_path / "other.key").touch(mode=0o600)
    (tmp_path / "other.key").write_text("A" * 43 + "=")
    with pytest.raises(ConfigurationError, match=f"another key than {tmp_path / 'other.key'} holds"):
        Ledger(f"sqlite:///{tmp_path}/ledger.db", "http://127.0.0.1:1|1", tmp_path / "other.key")


@pytest.mark.both_databases
def test_sqlite_syncs_every_commit_and_is_its_owners_alone(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/home/ledger.db", "http://127.0.0.1:1|1", tmp_path / "key")
    pragmas = ("PRAGMA journal_mode", "PRAGMA synchronous", "PRAGMA foreign_keys")
    read = ledger.write(lambda connection: [connection.exec_driver_sql(each).scalar_one() for each in pragmas])
    assert read == ["wal", 2, 1]
    assert (tmp_path / "home" / "ledger.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    ledger.close()
    with closing(sqlite3.connect(tmp_path / "home" / "ledger.db")) as raw, raw:
        assert raw.execute("SELECT value FROM meta WHERE key = 'schema'").fetchall() == [(schema.VERSION,)]
    raw.close()


@pytest.mark.both_databases
def test_a_ledger_goes_on_with_the_account_as_it_was_written_when_it_was_made(open_ledger: OpenLedger) -> None:
    """Request ids follow from that text; another would make every payment another one."""
    made = open_ledger(account="http://LocalHost:80|1")
    [first] = commit(made, "a")
    again = open_ledger(account="http://localhost|1")
    assert again.account == "http://LocalHost:80|1"
    assert commit(again, "a") == [first]
    [second] = commit(again, "b", run_key="next")
    assert second.request_id == derive_request_id("http://LocalHost:80|1", "next", "b", "payout", 1)
    assert {order.request_id for order in again.orders()} == {first.request_id, second.request_id}
    for other in ("http://localhost:8443|1", "http://localhost|2", "http://localhost/x|1"):
        with pytest.raises(WrongAccount, match=r"partner 1 at http://LocalHost:80, not to partner"):
            open_ledger(account=other)


@pytest.mark.both_databases
def test_many_that_open_a_new_file_at_once_all_open_it(tmp_path: Path) -> None:
    for trial in range(25):
        url, together = f"sqlite:///{tmp_path / f'{trial}.db'}", threading.Barrier(4)
        with sqlite3.connect(tmp_path / f"{trial}.db") as file:
            file.execute("CREATE TABLE t (x)")

        def open_it(url: str = url, together: threading.Barrier = together) -> None:
            engine = open_engine(url, writes=True)
            together.wait()
            with engine.begin() as connection:
                connection.exec_driver_sql("INSERT INTO t VALUES (1)")
            engine.dispose()

        with ThreadPoolExecutor(4) as pool:
            for each in [pool.submit(open_it) for _ in range(4)]:
                each.result()


@pytest.mark.both_databases
def test_duplicates_of_a_long_run_are_looked_up_and_not_searched_for(tmp_path: Path) -> None:
    """Going through all rows for each row would take minutes for ten thousand."""
    engine = open_engine(f"sqlite:///{tmp_path / 'plan.db'}", writes=True)
    schema.orders.metadata.create_all(engine)
    statements: list[tuple[str, Any]] = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append((given[2], given[3])))
    with engine.begin() as connection:
        assert list(find_duplicates(connection, "run", 0)) == []
        [(statement, values)] = [each for each in statements if "JOIN" in each[0]]
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert not [each for each in plan if each.startswith("SCAN")], plan
        assert "SEARCH orders_3 USING INDEX orders_by_alike (alike=?)" in plan
    engine.dispose()
