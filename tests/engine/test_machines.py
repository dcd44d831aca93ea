"""Machines that share one ledger in PostgreSQL: what one of them does beside another one ends neither."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, delete, insert, make_url, text

from blocks.desk import open_desk as open_desk_of_tasks
from flows.commands import REMEDIES
from tests.engine.answers import PAYOUT, PAYOUT_FIELDS, accepted, refused
from tests.engine.intents import commit, intent
from tests.ledgers import contents, plain_engine
from treasury.call.calls import send_operation
from treasury.errors import CannotGoOn, ConfigurationError, LedgerLost, Refused, RunHeld
from treasury.ledger.database import open_engine
from treasury.ledger.epoch import Standing
from treasury.ledger.intents import commit_plan
from treasury.ledger.ledger import Ledger
from treasury.ledger.schema import metadata
from treasury.ledger.snapshots import expected_receipts
from treasury.nights import sweep
from treasury.orders.states import Event, State
from treasury.payments.execution import send_orders
from treasury.provider.orders import Pay
from treasury.reconciliation.scope import Scope

pytestmark = [pytest.mark.both_databases]

OpenLedger = Callable[..., Ledger]


def end_sessions(connection: psycopg.Connection[Any], database: str) -> None:
    """As a database server that is restarted does."""
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    connection.execute(others, (database,))


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_deadlock_with_another_machine_is_no_error(open_ledger: OpenLedger) -> None:
    """A sweep writes the answers about orders in one transaction, in another sequence than a run that follows them."""
    one, other = open_ledger(), open_ledger()
    first, second = (one.step(order, Event.SEND) for order in commit(one, "a", "b"))
    met = threading.Barrier(2, timeout=10)

    def both(ledger: Ledger, orders: list[Any]) -> None:
        tried: list[int] = []

        def work(connection: Connection) -> None:
            tried.append(1)
            for order in orders:
                ledger.note(order, reason="looked at")
                if len(tried) == 1 and order is orders[0]:
                    met.wait()

        ledger.write(work)

    with ThreadPoolExecutor() as pool:
        done = [pool.submit(both, one, [first, second]), pool.submit(both, other, [second, first])]
    for each in done:
        each.result()
    assert {order.reason for order in one.orders(states=(State.SENDING,))} == {"looked at"}


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_ledger_that_is_lost_after_payments_left_is_not_told_as_bad_input(
    open_desk: Any, ledger_url: str, service: Any
) -> None:
    """Code 2 says that nothing was sent."""

    def loses(body: Mapping[str, Any]) -> Any:
        if body["amount"] == "2":
            with psycopg.connect(ledger_url, autocommit=True) as connection:
                end_sessions(connection, connection.info.dbname)
        return accepted(body)

    desk = open_desk(service.base_url, in_flight=1)
    service.plan(PAYOUT, loses)
    paid = ({**PAYOUT_FIELDS, "amount": amount} for amount in ("1", "2"))
    rows = [intent(each["amount"], each["amount"], payload=each) for each in paid]
    commit_plan(desk.ledger, "run", "payout", {}, "0" * 64, rows)
    ids = [order.id for order in desk.ledger.orders()]
    with pytest.raises(LedgerLost, match="nothing more was sent"), desk.hold("run"):
        send_orders(desk, "run", ids)
    assert len(service.sent_to(PAYOUT)) == 2
    assert next(code for kind, code in REMEDIES if issubclass(CannotGoOn, kind)) == 1
    again = open_desk(service.base_url)
    with again.hold("run"):
        assert [order.state for order in again.ledger.orders()] == [State.ACCEPTED, State.UNKNOWN]


def test_a_ledger_that_is_put_back_while_a_run_goes_on_sends_nothing_more(
    open_desk: Any, ledger_url: str, service: Any
) -> None:
    """Its tables stayed and their rows are a dump's: the token went back with them, and what had left left again."""
    kept: list[Mapping[str, Any]] = []

    def puts_back(body: Mapping[str, Any]) -> Any:
        if body["amount"] == "2":
            put_rows(ledger_url, kept[0])
        return accepted(body)

    desk = open_desk(service.base_url, in_flight=1)
    service.plan(PAYOUT, puts_back)
    paid = ({**PAYOUT_FIELDS, "amount": amount} for amount in ("1", "2", "3"))
    rows = [intent(each["amount"], each["amount"], payload=each) for each in paid]
    commit_plan(desk.ledger, "run", "payout", {}, "0" * 64, rows)
    ids = [order.id for order in desk.ledger.orders()]
    with desk.hold("run"):
        send_orders(desk, "run", ids[:1])
        kept.append(contents(ledger_url))
        with pytest.raises(LedgerLost, match="put back to an earlier state"):
            send_orders(desk, "run", ids[1:])
    assert desk.ledger.is_lost
    assert [body["amount"] for body in service.sent_to(PAYOUT)] == ["1", "2"]
    again = open_desk(service.base_url)
    with again.hold("run"):
        send_orders(again, "run", ids)
        assert [order.hold_kind for order in again.ledger.orders()] == [None, "older", "older"]
    assert len(service.sent_to(PAYOUT)) == 2


def test_a_ledger_that_is_put_back_forgets_nothing_that_another_process_of_the_machine_counted(
    open_desk: Any, ledger_url: str, service: Any
) -> None:
    """One that went on wrote its own number over the other's, and what the other had paid was paid again."""
    service.plan(PAYOUT, accepted)
    one, other = open_desk(service.base_url), open_desk(service.base_url)
    orders = {}
    for run_key, amounts in (("long", ("1", "2")), ("short", ("3",))):
        rows = [intent(each, each, payload={**PAYOUT_FIELDS, "amount": each}) for each in amounts]
        commit_plan(one.ledger, run_key, "payout", {}, "0" * 64, rows)
        orders[run_key] = [order.id for order in one.ledger.orders(run_key=run_key)]
    with one.hold("long"):
        send_orders(one, "long", orders["long"][:1])
        kept = contents(ledger_url)
        send_orders(other, "short", orders["short"])
        put_rows(ledger_url, kept)
        with pytest.raises(LedgerLost, match="put back to an earlier state"):
            send_orders(one, "long", orders["long"][1:])
    again = open_desk(service.base_url)
    send_orders(again, "short", orders["short"])
    assert [order.hold_kind for order in again.ledger.orders()] == [None, "older", "older"]
    assert [body["amount"] for body in service.sent_to(PAYOUT)] == ["1", "3"]


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("noticed_by", ["answer", "task"])
def test_a_run_whose_ledger_was_put_back_says_nothing_of_what_left(
    noticed_by: str,
    recorded: bool,
    treasury_sandbox: Any,
    treasury_home: Path,
    ledger_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its results said `not_sent` of payments that had left; one that was recorded since the dump had a traceback."""
    monkeypatch.setenv("TREASURY_LEDGER_URL", ledger_url)
    desk = open_desk_of_tasks()
    commit(desk.ledger, "before", run_key="before")
    send_orders(desk, "before", [order.id for order in desk.ledger.orders()])
    kept = contents(ledger_url)
    [order] = commit(desk.ledger, "a")
    kept = contents(ledger_url) if recorded else kept
    with desk.hold("run"):
        sent = desk.ledger.step(order, Event.SEND)
        put_rows(ledger_url, kept)
        use = open_desk_of_tasks if noticed_by == "task" else lambda: desk.ledger.step(sent, Event.ACCEPT)
        with suppress(LedgerLost):
            use()
        with pytest.raises(LedgerLost, match="put back to an earlier state"):
            desk.ledger.orders()
        assert desk.ledger.is_lost
    again = open_desk_of_tasks()
    with again.hold("run"):
        assert [order.hold_kind for order in again.ledger.orders(run_key="run")] == (["older"] if recorded else [])


def test_a_night_whose_ledger_was_put_back_says_so(open_desk: Any, ledger_url: str, service: Any) -> None:
    """It ended with a traceback (`IndexError`)."""
    desk, kept = open_desk(service.base_url), contents(ledger_url)
    sweep_id = sweep.start_or_resume_sweep(desk, Scope())
    put_rows(ledger_url, kept)
    with pytest.raises(LedgerLost, match="put back to an earlier state"):
        sweep.end_sweep(desk, sweep_id)


def test_orders_that_are_put_back_without_the_machines_that_sent_them_are_held(
    open_desk: Any, ledger_url: str, service: Any
) -> None:
    """By `TRUNCATE orders CASCADE` and a dump's rows: the ledger counted as much as the token, and it left again."""
    service.plan(PAYOUT, accepted)
    desk = open_desk(service.base_url)
    rows = [intent(each, each, payload={**PAYOUT_FIELDS, "amount": each}) for each in ("1", "2")]
    commit_plan(desk.ledger, "run", "payout", {}, "0" * 64, rows)
    ids = [order.id for order in desk.ledger.orders()]
    send_orders(desk, "run", ids[:1])
    kept = contents(ledger_url)
    send_orders(desk, "run", ids)
    put_rows(ledger_url, {**contents(ledger_url), **{name: kept[name] for name in ("orders", "journal")}})
    again = open_desk(service.base_url)
    send_orders(again, "run", ids)
    assert [order.hold_kind for order in again.ledger.orders()] == [None, "older"]
    assert len(service.sent_to(PAYOUT)) == 2


def put_rows(url: str, rows: Mapping[str, Any]) -> None:
    """Put the rows of a dump in place of those that the tables of a ledger have."""
    engine = plain_engine(url)
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
        for table in metadata.sorted_tables:
            if rows[table.name]:
                connection.execute(insert(table), rows[table.name])
    engine.dispose()


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_ledger_that_cannot_be_reached_again_is_lost(open_ledger: OpenLedger, ledger_url: str) -> None:
    ledger = open_ledger()
    commit(ledger, "a")
    name = str(make_url(ledger_url).database)
    with psycopg.connect(ledger_url, dbname="postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            end_sessions(connection, name)
            for _ in range(2):  # the connection that was there, and a new one
                with pytest.raises(LedgerLost, match="once the ledger is back"):
                    ledger.orders()
        finally:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    assert len(ledger.orders()) == 1


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_what_the_database_refuses_is_no_lost_ledger(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    for use in (ledger.look, ledger.write):
        with pytest.raises(ConfigurationError) as raised:
            use(lambda connection: connection.execute(text("SELECT :given"), {"given": "a\0b"}))
        assert not isinstance(raised.value, LedgerLost)
    assert not ledger.is_lost


def test_a_pay_in_that_is_made_by_one_of_two_machines_is_expected(
    open_desk: Any, service: Any, one_attempt: None
) -> None:
    """One of them is refused, and took back what the other one's call had made meanwhile."""
    one, other = open_desk(service.base_url), open_desk(service.base_url)
    fields = {"payment_method": "on_line", "product_name": "tea", "customer_ref_id": "ann"}
    asked = Pay(request_id="in-1", currency="USDT_TRC20", amount=Decimal(10), **fields)
    made: list[str] = []
    ended: list[BaseException | None] = []

    def makes(body: Mapping[str, Any]) -> Any:
        made.append("in-1")
        return accepted(body)

    def refuses(_: Mapping[str, Any]) -> Any:
        with ThreadPoolExecutor() as pool:
            ended.append(pool.submit(send_operation, other, asked).exception())
        return refused(7002)

    service.plan("/v1/order/pay", refuses, makes)
    with pytest.raises(Refused):
        send_operation(one, asked)
    assert isinstance(ended[0], RunHeld)
    assert list(expected_receipts(one.ledger)) == made == []
    send_operation(other, asked)
    assert list(expected_receipts(one.ledger)) == made == ["in-1"]


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_process_that_lives_on_opens_the_ledger_again(
    treasury_sandbox: Any, treasury_home: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of a Dask cluster, say: each night ended there until somebody started the worker again."""
    monkeypatch.setenv("TREASURY_LEDGER_URL", ledger_url)
    desk = open_desk_of_tasks()
    commit(desk.ledger, "a")
    with desk.hold("run"):
        with psycopg.connect(ledger_url, autocommit=True) as connection:
            end_sessions(connection, connection.info.dbname)
        for _ in range(2):
            with pytest.raises(LedgerLost):
                desk.ledger.saw_balance("USDT", Decimal(1))
        assert open_desk_of_tasks() is desk  # its run is another process's from here on, and nobody takes it up here
    again = open_desk_of_tasks()
    with again.hold("run"):
        again.ledger.saw_balance("USDT", Decimal(1))
    assert open_desk_of_tasks() is again is not desk


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_a_machine_that_is_gone_is_noticed_by_both_sides(open_ledger: OpenLedger, ledger_url: str) -> None:
    """One without power says no goodbye: its runs were held for two hours, as PostgreSQL's default has it."""
    asked = "SELECT setting FROM pg_settings WHERE name LIKE 'tcp_%' AND source = 'session'"
    [*kept] = open_ledger().write(lambda connection: connection.execute(text(asked)).scalars())
    assert len(kept) == 4
    for own, idle in (("", "60"), (f"{'&' if '?' in ledger_url else '?'}keepalives_idle=7", "7")):
        engine = open_engine(ledger_url + own, writes=True)
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            assert driver.info.get_parameters()["keepalives_idle"] == idle
        engine.dispose()


COPIES = {
    "_copy": "CREATE DATABASE {0}_copy TEMPLATE {0}",
    "": "CREATE TABLE dumped (LIKE meta INCLUDING ALL); INSERT INTO dumped SELECT * FROM meta; DROP TABLE meta;"
    "ALTER TABLE dumped RENAME TO meta",
}
"""A copy of a database under another name, and a dump that is restored over it: what its name ends with -> how."""


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("ending", COPIES)
def test_a_new_machine_holds_what_waited_in_a_copy_of_a_database(
    ending: str, open_desk: Callable[..., Any], ledger_url: str
) -> None:
    """A copy does not know what was cancelled after it was made, and no token of the machine says so."""
    desk, url = open_desk("http://127.0.0.1:1"), make_url(ledger_url)
    assert desk.check_standing() is Standing.NEW
    commit(desk.ledger, "a")
    # Before its database was kept, an older release left it blank: that is no copy.
    desk.ledger.write(lambda connection: connection.execute(text("UPDATE meta SET value = '' WHERE key = 'file'")))
    assert desk.check_standing() is Standing.NEW
    desk.close()
    with psycopg.connect(str(url.set(database="postgres") if ending else url), autocommit=True) as server:
        server.execute(COPIES[ending].format(url.database).encode())
    desk = open_desk("http://127.0.0.1:1", ledger=str(url.set(database=f"{url.database}{ending}")))
    assert desk.check_standing() is Standing.OLDER
    assert [order.state for order in desk.ledger.orders()] == [State.HELD]
    assert desk.check_standing() is Standing.KNOWN
