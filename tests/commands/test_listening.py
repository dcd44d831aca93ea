"""`treasury listen`: what the platform signed is on disk before it is answered, and leads to a question alone."""

import asyncio
import base64
import json
import random
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tests.commands.listener import kept, listening, listening_here, trusting
from tests.commands.office import PATIENCE, Office, eventually
from tests.ledgers import plain_engine
from tests.proofs import tries
from treasury.ledger.seen_card_users import card_users
from treasury.ledger.snapshots import expected_receipts
from treasury.nights.reporting import judge_sweep
from treasury.nights.sweep import end_sweep, start_or_resume_sweep
from treasury.policy.model import Policy
from treasury.provider.service_rules import ServiceRules
from treasury.provider.signing import load_private_key, sign
from treasury.reconciliation.scope import Scope
from treasury.sandbox import RunningSandbox, generate_key_pair

pytestmark = pytest.mark.prefect

PARTNER = "900001"
ADDRESS = "0x" + "ab" * 20


@dataclass
class Platform:
    """A platform with a key of its own, which writes to a listener."""

    private: str
    public: str
    client: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=PATIENCE))

    def signed(self, **fields: Any) -> dict[str, Any]:
        """A notification, signed."""
        body = {"partner_id": PARTNER, "status": 99, "currency": "USDT_TRC20", "order_amount": "5", **fields}
        return {**body, "sign": sign(body, load_private_key(self.private), ServiceRules())}

    def tell(self, url: str, body: Mapping[str, Any]) -> int:
        """Send a notification; returns the status of its answer."""
        return self.client.post(url, json=dict(body)).status_code


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    platform = Platform(*generate_key_pair())
    yield platform
    platform.client.close()


@pytest.fixture
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    return open_sandbox()


@pytest.fixture
def office(sandbox: RunningSandbox, open_office: Callable[..., Office]) -> Office:
    """A home that trusts the sandbox's platform."""
    return trusting(open_office(sandbox.base_url), sandbox.platform_key)


def last_line(process: Any) -> str:
    """End a listener in order; returns what it said last."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    return str(out.strip().splitlines()[-1])


def states(office: Office) -> dict[str, str]:
    desk = office.desk()
    try:
        return {order.request_id: order.state.value for order in desk.ledger.orders()}
    finally:
        desk.close()


def withdraw(office: Office, reference: str, **more: str) -> Any:
    fields = {"request_id": reference, "currency": "USDT_ERC20", "address": ADDRESS, "amount": "5"}
    said = json.dumps({**fields, "customer_ref_id": "ann", **more})
    return office.run("call", "withdraw", "--json", said, "--yes")


def names(office: Office) -> list[str]:
    """The classes of the breaks of a night."""
    office.run("reconcile", "--all")
    [file] = sorted((office.home / "nights").glob("*/reconciliation.json"))[-1:]
    return [each["class"] for each in json.loads(file.read_text())["breaks"] if each["lifecycle"] != "resolved"]


def test_a_withdrawal_is_settled_by_a_notification_alone(office: Office, sandbox: RunningSandbox) -> None:
    with listening(office) as (process, url):
        withdraw(office, "w-1", notify_url=f"{url}/told")
        assert states(office) == {"w-1": "accepted"}
        sandbox.advance(3600)
        eventually(lambda: states(office) == {"w-1": "settled"}, PATIENCE)
        assert last_line(process) == "1 kept, 0 repeated, 0 refused"
    assert [row.taken for row in kept(office)] == ["order"]


def test_a_deposit_that_a_notification_tells_is_an_entry_of_its_account(
    office: Office, sandbox: RunningSandbox
) -> None:
    """The other one, of which nobody told, is what no order explains."""
    with listening_here(office) as (url, _):
        sandbox.charge("USDT_TRC20", "20", notify_url=url)
        eventually(lambda: len(kept(office)) == 1, PATIENCE)
        names(office)  # opens the account, with that deposit inside
        assert "unexplained_inflow" not in names(office)
        sandbox.charge("USDT_TRC20", "100", customer_ref_id="ann", notify_url=url)
        eventually(lambda: len(kept(office)) == 2, PATIENCE)
        assert "unexplained_inflow" not in names(office)
        assert [row.taken for row in kept(office)] == ["receipt", "receipt"]
    sandbox.charge("USDT_TRC20", "100")
    assert "unexplained_inflow" in names(office)


def test_a_deposit_is_expected_however_amount_and_currency_are_written(office: Office, platform: Platform) -> None:
    """With an exponent, as Java prints a small one, too; in small letters."""
    trusting(office, platform.public)
    with listening_here(office) as (url, _):
        for number, amount in enumerate(("0.000000002", "2.000000000E-9", "1E+2", "0E-18")):
            told = platform.signed(request_id=f"d-{number}", order_type="charge", order_amount=amount)
            assert platform.tell(url, told) == 200
        assert platform.tell(url, platform.signed(request_id="d-4", order_type="charge", currency="usdt_trc20")) == 200
        eventually(lambda: [row.taken for row in kept(office)] == ["receipt"] * 5, PATIENCE)
    with closing(office.desk()) as desk:
        assert {each["currency"] for each in expected_receipts(desk.ledger).values()} == {"USDT_TRC20"}


def test_a_deposit_from_before_the_account_was_opened_is_told_of_later(office: Office, sandbox: RunningSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    withdraw(office, "w-1")  # so that the balance is watched
    sandbox.charge("USDT_ERC20", "20", notify_url=f"http://127.0.0.1:{port}/")  # nobody listens yet
    time.sleep(1)  # the service says seconds
    assert names(office) == ["opening"]
    assert kept(office) == []
    with listening_here(office, port):
        sandbox.advance(300)  # it is sent again
        eventually(lambda: len(kept(office)) == 1, PATIENCE)
    assert "balance_gap" not in names(office)


@pytest.mark.parametrize("ends", ["held", "cancelled"])
def test_of_what_never_left_nothing_is_adopted(
    open_office: Callable[..., Office], sandbox: RunningSandbox, platform: Platform, ends: str
) -> None:
    """A second ledger sent a payment of the same reference: this one's is not taken for paid."""
    office, other = (trusting(open_office(sandbox.base_url, prefect=False), platform.public) for _ in range(2))
    office.run("stop", "--by", "Ann", "--why", "a look")
    withdraw(office, "w-1")
    assert states(office) == {"w-1": "prepared"}
    if ends == "cancelled":
        office.run("cancel", "w-1", "--by", "Ann", "--why", "not wanted")
    withdraw(other, "w-1")
    sandbox.advance(3600)
    with listening_here(office) as (url, _):
        assert platform.tell(url, platform.signed(request_id="w-1", order_type="extract")) == 200
        eventually(lambda: [row.taken for row in kept(office)] == ["order"], PATIENCE)
    assert states(office) == {"w-1": ends}


def test_what_a_notification_says_of_a_check_is_not_believed(office: Office, platform: Platform) -> None:
    """It says passed; the service, which is asked, says not set. Of a stranger nobody is asked."""
    trusting(office, platform.public)
    fields = json.dumps({"user_xid": "u-1", "email": "ann@example.com"})
    made = office.run("call", "create_card_user_with_kyc_link", "--json", fields)
    assert made.code == 0, made.err
    [user] = users(office)
    with listening_here(office) as (url, _):
        for user_id in (int(user.user_id), 77):
            said = {"userId": user_id, "kycStatus": "3", "kycLevel": "2"}
            assert platform.tell(url, platform.signed(type="KYC_STATUS", data=said)) == 200
        eventually(lambda: [row.taken for row in kept(office)] == ["user", "nothing"], PATIENCE)
    [after] = users(office)
    assert (after.kyc_status, after.kyc_level, after.passed_at) == ("0", "0", None)
    assert after.seen_at > user.seen_at, "it was asked about"


def users(office: Office) -> list[Any]:
    """The card users as the ledger knows them."""
    desk = office.desk()
    try:
        return card_users(desk.ledger)
    finally:
        desk.close()


def test_what_belongs_to_no_order_of_ours_is_a_break(office: Office, platform: Platform) -> None:
    trusting(office, platform.public)
    named = {"order_no": "2026112600000001", "request_id": "theirs-1", "order_type": "extract"}
    with listening_here(office) as (url, _):
        for status in (22, 99):
            assert platform.tell(url, platform.signed(**named, status=status)) == 200
        eventually(lambda: [row.taken for row in kept(office)] == ["unknown"] * 2, PATIENCE)
    assert names(office).count("missing_in_ledger") == 1


def test_a_repeat_is_kept_once(office: Office, platform: Platform) -> None:
    """Also one that was signed anew, with another time and nonce."""
    trusting(office, platform.public)
    told = {"request_id": "d-1", "order_type": "charge"}
    with listening_here(office) as (url, counts):
        for number in range(3):
            for _ in range(2):
                assert platform.tell(url, platform.signed(**told, timestamp=str(number), nonce=f"n{number}")) == 200
        assert "treasury_notifications_total" in platform.client.get(f"{url}/metrics").text
        assert counts() == {"kept": 1, "repeated": 5}
    assert [row.request_id for row in kept(office)] == ["d-1"]


def said_by(body: bytes) -> object:
    """Return what a body says, however it is written: spaces, and spare bits of base64, do not count."""
    try:
        fields = json.loads(body)
        return {**fields, "sign": base64.b64decode(fields["sign"], validate=True)}
    except (ValueError, KeyError, TypeError):
        return body


def test_what_the_platform_did_not_sign_is_refused_and_ends_nothing(office: Office, platform: Platform) -> None:
    trusting(office, platform.public)
    stranger = Platform(*generate_key_pair())
    good = platform.signed(request_id="d-1", order_type="charge")
    whole, chance = json.dumps(good).encode(), random.Random(26)
    bodies = [b"", b"null", b"[]", b"{", b'{"a":' * 9_000, b"\xff\xfe", b"{}", b'{"sign":1}', b"x" * 70_000]
    bodies += [json.dumps(body).encode() for body in (stranger.signed(request_id="d-1"), {**good, "status": 44})]
    bodies += [json.dumps({**good, "more": "x"}).encode(), json.dumps(platform.signed(partner_id="1")).encode()]
    for _ in range(tries("FORGED", 200, 10_000)):
        mangled = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            mangled[chance.randrange(len(mangled))] = chance.randrange(256)
        if said_by(bytes(mangled)) != said_by(whole):
            bodies.append(bytes(mangled))
    with listening_here(office) as (url, counts):
        answers = [platform.client.post(url, content=body).status_code for body in bodies]
        assert set(answers) <= {400, 401, 403, 408, 413}
        assert platform.client.get(url).status_code == 405
        assert platform.tell(url, good) == 200
        assert counts() == {"kept": 1, "repeated": 0, "refused": len(answers)}
    assert len(kept(office)) == 1


def test_notifications_that_are_repeated_reordered_and_forged_set_no_state(
    open_sandbox: Callable[..., RunningSandbox], open_office: Callable[..., Office]
) -> None:
    """The one about the way, which comes after the one about the end, leaves the order settled."""
    sandbox = open_sandbox(faults=dict.fromkeys(("notice_repeated", "notice_reordered", "notice_forged"), 1.0))
    office = trusting(open_office(sandbox.base_url), sandbox.platform_key)
    payout = {
        "request_id": "p-1",
        "payout_method": "bank_transfer",
        "account_no": "12345670001",
        "country": "ID",
        "account_name": "Siti Rahma",
        "bank_code": "1000120",
        "settle_currency": "IDR",
        "currency": "USDT_TRC20",
        "amount": 50,
        "phone": "6281234567",
        "email": "siti@example.com",
    }
    with listening_here(office) as (url, counts):
        office.run("call", "payout", "--json", json.dumps({**payout, "notify_url": url}), "--yes")
        for seconds in (1, 2, 60):
            sandbox.advance(seconds)
            eventually(lambda: not [each for each in told(sandbox) if is_due(each, sandbox)], PATIENCE)
        assert {each["state"] for each in told(sandbox) if each["is_forged"]} == {"given up"}
        assert counts() == {"kept": 2, "repeated": 2, "refused": 2}
    assert (states(office), names(office)) == ({"p-1": "settled"}, ["opening"])


def told(sandbox: RunningSandbox) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = httpx.get(f"{sandbox.base_url}/sandbox/notifications", trust_env=False).json()
    return shown


def is_due(notice: Mapping[str, Any], sandbox: RunningSandbox) -> bool:
    return notice["due_at"] is not None and notice["due_at"] <= sandbox.clock.now()


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGHUP])
def test_a_listener_whose_service_or_terminal_ends_says_what_it_kept(
    ends: signal.Signals, office: Office, platform: Platform
) -> None:
    """A closed terminal ended it with a traceback."""
    trusting(office, platform.public)
    with listening(office) as (process, where):
        assert platform.tell(where, platform.signed(request_id="d-1", order_type="extract")) == 200
        process.send_signal(ends)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.splitlines()[-1], err) == (0, "1 kept, 0 repeated, 0 refused", "")


@pytest.mark.costly("a listener is killed and started again, as often as a process can be")
def test_killed_at_any_time_nothing_that_was_answered_is_lost(office: Office, platform: Platform) -> None:
    trusting(office, platform.public)
    answered: set[str] = set()
    for life in range(tries("KILLS", 2, 10)):
        with listening(office) as (process, url):
            threads = [
                threading.Thread(target=_tell_until_it_ends, args=(platform, url, f"{life}-{number}", answered))
                for number in range(4)
            ]
            for thread in threads:
                thread.start()
            before = len(answered)
            eventually(lambda: len(answered) > before + 50, PATIENCE)  # noqa: B023 - it is read in this turn alone
            process.kill()
            for thread in threads:
                thread.join()
    assert answered <= {row.request_id for row in kept(office)}


def _tell_until_it_ends(platform: Platform, url: str, name: str, answered: set[str]) -> None:
    with suppress(httpx.HTTPError), httpx.Client(trust_env=False) as client:
        for number in range(100_000):
            body = platform.signed(request_id=f"{name}-{number}", order_type="extract")
            if client.post(url, json=body).status_code == 200:
                answered.add(body["request_id"])


@pytest.mark.proof
def test_many_at_once_are_all_kept(office: Office, platform: Platform) -> None:
    """Prints how many a second; 16 connections, each sends the next when the last was answered."""
    trusting(office, platform.public)
    bodies = [json.dumps(platform.signed(request_id=f"d-{number}", order_type="charge")) for number in range(6_000)]
    head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    requests = [f"{head}{len(body)}\r\n\r\n{body}".encode() for body in bodies]

    async def send(port: int, some: Sequence[bytes]) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        taken = 0
        for each in some:
            writer.write(each)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(answer.partition(b"content-length:")[2].split()[0]))
            taken += answer.startswith(b"http/1.1 200")
        writer.close()
        return taken

    async def send_all(port: int) -> int:
        return sum(await asyncio.gather(*(send(port, requests[number::16]) for number in range(16))))

    with listening(office) as (process, url):
        began = time.monotonic()
        taken = asyncio.run(send_all(int(url.rpartition(":")[2].strip("/"))))
        print(f"{taken / (time.monotonic() - began):,.0f} notifications a second")
        assert last_line(process) == f"{len(bodies)} kept, 0 repeated, 0 refused"
    assert taken == len(bodies) == len(kept(office))


def test_without_the_platforms_key_it_does_not_start(office: Office) -> None:
    del office.environ["TREASURY_PLATFORM_KEY_FILE"]
    done = office.run("listen")
    assert (done.code, "--platform-key" in done.err) == (2, True)


def test_a_port_that_is_taken_is_named(office: Office, tmp_path: Path) -> None:
    with listening(office) as (_, url):
        done = office.process("listen", "--port", url.rpartition(":")[2])
    assert (done.code, "cannot be listened on" in done.err) == (2, True)


ODD: list[dict[str, Any]] = [
    {"request_id": "d-1", "order_type": "charge", "currency": ""},
    {"request_id": "d-2", "order_type": "charge", "currency": "null"},
    {"request_id": "null", "order_type": "charge"},
    {"request_id": "d-3", "order_type": "charge", "currency": "N\u0000PE", "order_amount": "1e-150"},
    {"request_id": "r" * 300, "order_type": "charge"},
    {"order_no": "1", "order_type": "payout", "order_amount": "NaN"},
    {"order_no": "2", "order_type": "payout", "order_amount": "Infinity", "currency": "C" * 300},
    {"order_no": "3", "order_type": "payout", "order_amount": "9" * 100},
    {"order_no": "4", "order_type": ["payout"], "status": {"a": 1}},
    {"type": "KYC_STATUS", "data": {"userId": 77, "kycStatus": "3"}},
    {"type": "CARD_TOP_UP", "data": {"orderNo": "5", "status": "SUCCESS"}},
]


def test_odd_notifications_stop_no_night(office: Office, platform: Platform) -> None:
    """They are signed: each is kept, and what none of them names is no break."""
    trusting(office, platform.public)
    with listening_here(office) as (url, _):
        for fields in ODD:
            assert platform.tell(url, platform.signed(**fields)) == 200
        eventually(lambda: all(row.taken for row in kept(office)), PATIENCE)
    found = names(office)
    assert (found.count("missing_in_ledger"), found.count("unexpected_deposit")) == (4, 4)
    assert names(office) == found


def test_a_deposit_while_its_account_is_opened_is_counted_once(office: Office, sandbox: RunningSandbox) -> None:
    """It finished, and was told, after the opening's questions were recorded and before the balance was read."""
    desk = office.desk()
    with listening_here(office) as (url, _):
        try:
            sweep_id = start_or_resume_sweep(desk, Scope())
            sandbox.charge("USDT_TRC20", "20", notify_url=url)
            eventually(lambda: [row.taken for row in kept(office)] == ["receipt"], PATIENCE)
            time.sleep(1)  # the service says seconds
            end_sweep(desk, sweep_id)
            judge_sweep(desk, sweep_id, Policy())
        finally:
            desk.close()
        found = names(office)
        assert "balance_gap" not in found
        assert "unexplained_inflow" not in found


@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
def test_a_listener_whose_ledger_is_lost_ends_and_says_so(
    database: str,
    open_sandbox: Callable[..., RunningSandbox],
    open_office: Callable[..., Office],
    postgres: Callable[..., str],
    platform: Platform,
) -> None:
    """It could keep nothing more: whoever watches it starts it again, and the platform sends again."""
    url = postgres() if database == "postgresql" else ""
    environ = {"TREASURY_LEDGER_URL": url} if url else {}
    office = trusting(open_office(open_sandbox().base_url, prefect=False, **environ), platform.public)
    lose = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with listening(office) as (process, where):
        assert platform.tell(where, platform.signed(request_id="d-1", order_type="charge")) == 200
        if url:
            with plain_engine(url).connect() as connection:
                connection.execute(lose)
        else:  # another file is put in its place, as a restore does
            file = office.home / "ledger.db"
            with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(file.with_name("new.db"))) as new:
                old.backup(new)
            file.with_name("new.db").rename(file)
        assert platform.tell(where, platform.signed(request_id="d-2", order_type="charge")) == 503
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "start `treasury listen` again" in err) == (2, True), err
    with listening(office) as (_, where):
        assert platform.tell(where, platform.signed(request_id="d-2", order_type="charge")) == 200
    assert [row.request_id for row in kept(office)] == ["d-1", "d-2"]
