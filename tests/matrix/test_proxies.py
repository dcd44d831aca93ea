"""Proxies between the engine and the service: one may resend, answer by itself, or ask for fewer requests."""

from pathlib import Path

import pytest

from tests.crash.oracle import judge
from tests.crash.payments import KINDS, PARTNER_ID, make_kind
from tests.engine import paying
from tests.engine.runs import sheet
from tests.matrix.faulty import open_short_desk
from tests.matrix.proxies import BEHAVIOURS, HOSTILE_BEHAVIOURS, PacedService, Proxy
from tests.moved_clock import MovedClock
from tests.proofs import ALL
from treasury.errors import ConfigurationError
from treasury.orders.states import State
from treasury.payments import execution
from treasury.sandbox import SandboxClock, SandboxSettings, generate_key_pair, running_sandbox

pytestmark = pytest.mark.every(2)

NAMES = tuple(KINDS) if ALL else ("payout", "fiat_payout")
SHOWN = BEHAVIOURS if ALL else ("resends", "400 after", "403 before", "429 after", "502 after")
QUOTE_SECONDS = 1.0
REPEATS = ("repeat_acts", "repeat_answers_first", None)


@pytest.mark.parametrize("quotes_too", [False, True] if ALL else [False])
@pytest.mark.parametrize("repeat", REPEATS if ALL else REPEATS[:1])
@pytest.mark.parametrize("behaviour", SHOWN)
@pytest.mark.parametrize("name", NAMES)
def test_what_a_proxy_does_makes_no_second_payment_and_no_paid_row_unpaid(
    name: str, behaviour: str, repeat: str | None, quotes_too: bool, tmp_path: Path, keys: tuple[str, str]
) -> None:
    through_a_proxy(name, behaviour, repeat, tmp_path, keys, quotes_too=quotes_too)


@pytest.mark.parametrize("repeat", REPEATS[:2] if ALL else REPEATS[:1])
@pytest.mark.parametrize("behaviour", HOSTILE_BEHAVIOURS if ALL else HOSTILE_BEHAVIOURS[3::9])
@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_answer_makes_no_second_payment_and_no_paid_row_unpaid(
    name: str, behaviour: str, repeat: str, tmp_path: Path, keys: tuple[str, str]
) -> None:
    through_a_proxy(name, behaviour, repeat, tmp_path, keys)


def through_a_proxy(
    name: str, behaviour: str, repeat: str | None, tmp_path: Path, keys: tuple[str, str], *, quotes_too: bool = False
) -> None:
    """Two starts at the proxy that misbehaves, then some where it passes everything on, and quotes end between them."""
    clock = MovedClock(None)  # the proxy's own answers have the machine's time
    faults = {repeat: 1.0} if repeat else {}
    settings = SandboxSettings(
        partner_id=PARTNER_ID, public_key=keys[1], settle_seconds=0.0, quote_seconds=QUOTE_SECONDS, faults=faults
    )
    kind = make_kind(name)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with running_sandbox(settings, SandboxClock(clock)) as sandbox:
        proxy = Proxy(sandbox.base_url, behaviour, quotes_too=quotes_too)
        try:
            for start in range(8):
                desk = open_short_desk(proxy.base_url, tmp_path, keys[0], clock=clock)
                kind.start(desk, tmp_path)
                desk.close()
                verdict = judge(url, sandbox.orders(), kind.rows)
                assert [fault for fault in verdict.faults if "the ledger says held" not in fault] == []
                if start >= 1:
                    proxy.behaviour = None
                    clock.move(QUOTE_SECONDS)
                if not verdict.waiting and start > 1:
                    break
        finally:
            proxy.close()
    rows = len(kind.rows)
    # What was confirmed or executed twice by a proxy is known to the service, and a person's.
    waits = {"unknown", "held"} if name == "conversion" or (behaviour == "resends" and not repeat) else set()
    assert set(verdict.states) <= {"settled"} | waits
    assert verdict.effects <= rows


@pytest.mark.parametrize("retry_after", [True, False])
def test_a_service_that_allows_few_requests_a_second_pays_every_row_once(
    retry_after: bool, tmp_path: Path, keys: tuple[str, str]
) -> None:
    """10,000 rows at 100 a second in `make matrix`; 300 rows, twice as fast, in `make test`."""
    rows, a_second = (10_000, 100) if ALL else (300, 200)
    service = PacedService(a_second, retry_after=retry_after)
    try:
        desk = open_short_desk(service.base_url, tmp_path, keys[0], 0.02)
        file = sheet(tmp_path, *((f"r{number}", "5", f"123456{number:05d}7") for number in range(rows)))
        ids = [order for chunk in paying.commit(desk, file, "run") for order in chunk]
        for some in (ids[start : start + 2_000] for start in range(0, rows, 2_000)):
            execution.send_orders(desk, "run", some)
        unknown = len(desk.ledger.order_ids("run", (State.UNKNOWN,)))
        # Two dozen at first, by which the pace learns the limit; on a busy machine answers come late, and it later.
        assert unknown < rows * 3 / 100 + 30
        execution.follow_orders(desk, "run", ids, 60)
        desk.close()
    finally:
        service.close()
    assert set(service.effects.values()) == {1}
    assert len(service.effects) == rows


def test_a_wrong_key_sends_nothing_and_says_so(tmp_path: Path, keys: tuple[str, str]) -> None:
    settings = SandboxSettings(partner_id=PARTNER_ID, public_key=keys[1], settle_seconds=0.0)
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        with running_sandbox(settings) as sandbox:
            desk = open_short_desk(sandbox.base_url, folder, generate_key_pair()[0])
            with pytest.raises(ConfigurationError, match=r"406 .* the key, or the hash"):
                make_kind(name).start(desk, folder)
            assert {order.state for order in desk.ledger.orders()} == {State.PREPARED}
            assert {order.sends for order in desk.ledger.orders()} == {0}
            desk.close()
            assert sandbox.orders() == []


def test_a_clock_that_is_wrong_is_named(tmp_path: Path, keys: tuple[str, str]) -> None:
    settings = SandboxSettings(partner_id=PARTNER_ID, public_key=keys[1], timestamp_tolerance_seconds=300)
    with running_sandbox(settings) as sandbox:
        desk = open_short_desk(sandbox.base_url, tmp_path, keys[0])
        desk.client.clock = behind = MovedClock(None)
        behind.set_wall(-600)
        desk._clock_checked = True  # the service shows no time of its own here
        with pytest.raises(ConfigurationError, match=r"412 .* the clock, or the unit"):
            make_kind("payout").start(desk, tmp_path)
        desk.close()
        assert sandbox.orders() == []
