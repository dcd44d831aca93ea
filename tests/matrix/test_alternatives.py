"""Tests of what the document leaves open, both ways: a service that does it otherwise, and an account that says so or
does not.

With the right entry in the `[service]` table every kind of payment ends paid once. Without it nothing is paid twice and
nothing is called paid that is not, and `treasury doctor --prove` names the entry where a question that only reads can
show it.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash.payments import KINDS, PARTNER_ID
from tests.engine.runs import night
from tests.matrix.faulty import open_short_desk
from tests.moved_clock import MovedClock
from tests.proofs import ALL, halves
from treasury.clock import Clock
from treasury.errors import TreasuryError
from treasury.provider.service_rules import ServiceRules
from treasury.proving import prove_service
from treasury.proving.access import ProofVerdict
from treasury.sandbox import RunningSandbox, SandboxClock, SandboxSettings, running_sandbox
from treasury.sandbox.behaviour import Behaviour

ROWS = 2
CHEAP: dict[str, Any] = {"processing_seconds": 0.0, "settle_seconds": 0.0}


@dataclass(frozen=True)
class Alternative:
    """One thing that a service may do otherwise."""

    behaves: Mapping[str, Any]
    rules: Mapping[str, Any]
    """The account's line then."""
    kinds: tuple[str, ...] = tuple(KINDS) if ALL else ("payout", "fiat_payout", "conversion")
    named: str | None = None
    """The entry that a proof names while the account says nothing of it; None where only an effect could show it."""


PAID = frozenset({"settled"})
ALTERNATIVES: Mapping[str, Alternative] = {
    "SHA-256": Alternative({"hash": "SHA256"}, {"hash": "SHA256"}, named="hash"),
    "seconds": Alternative({"timestamp_unit": "s"}, {"timestamp_unit": "s"}, named="timestamp_unit"),
    "sign type": Alternative({"sign_type": "RSA2"}, {"sign_type": "RSA2"}, named="private_key"),
    "null is signed": Alternative({"null_text_is_blank": False}, {"null_text_is_blank": False}),
    "no such order: another code": Alternative(
        {"no_such_order": "9001"}, {"no_such_order": {"9001"}}, named="no_such_order"
    ),
    "no such order: null": Alternative({"no_such_order": "empty"}, {"no_such_order": {"empty"}}, named="no_such_order"),
    "no such order: an empty record": Alternative(
        {"no_such_order": "empty_record"}, {"no_such_order": {"empty"}}, named="no_such_order"
    ),
    "refusals: other codes": Alternative(
        {"refusal_codes": {"202203": "301001"}}, {"asked_first": {"400", "401", "403", "5004", "301001"}}
    ),
    "statuses: other numbers": Alternative(
        {"statuses": {99: 100, 44: 45}}, {"statuses": {100: "settled", 45: "failed"}}
    ),
    "sides in lower case": Alternative({"side_case": "lower"}, {"side_case": "lower"}, ("conversion",), "side_case"),
    "BUY buys the quote currency": Alternative({"buy": "quote"}, {"buy": "quote"}, ("conversion",), "buy"),
    "conversions by quote id": Alternative(
        {"conversion_found_by": "quote_id"}, {"conversion_found_by": "quote_id"}, ("conversion",)
    ),
    "conversions by order number": Alternative(
        {"conversion_found_by": "order_no"}, {"conversion_found_by": "order_no"}, ("conversion",)
    ),
    "conversions are not found": Alternative(
        {"conversion_found_by": "nothing"}, {"conversion_found_by": "nothing"}, ("conversion",)
    ),
    "conversions shown in what they bring": Alternative({"conversion_shown_in": "received"}, {}, ("conversion",)),
    "conversions shown in what they bring, with its fee": Alternative(
        {"conversion_shown_in": "gross"}, {}, ("conversion",)
    ),
    "fee in the paid currency": Alternative(
        {"conversion_fee_in": "paid"}, {"conversion_fee_in": "paid"}, ("conversion",)
    ),
    "fee on top": Alternative(
        {"fee_on_top": {"withdraw", "payout", "create_fiat_payout"}},
        {"fee_on_top": {"withdraw", "payout", "create_fiat_payout"}},
    ),
    "payouts shown in what arrives": Alternative(
        {"payout_shown_in": "received"}, {"payout_shown_in": "received"}, ("payout",)
    ),
    "amounts as Java writes them": Alternative({"amounts_as": "java"}, {}),
    "an unconfirmed quote is not found": Alternative(
        {"unconfirmed_found": False}, {"unconfirmed_statuses": set()}, ("fiat_payout",)
    ),
}


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def start(key_pair: tuple[str, str], clock: MovedClock) -> Iterator[Any]:
    with ExitStack() as running:

        def one(**behaves: Any) -> RunningSandbox:
            settings = SandboxSettings(
                partner_id=PARTNER_ID, public_key=key_pair[1], behaviour=Behaviour(**behaves), **CHEAP
            )
            return running.enter_context(running_sandbox(settings, SandboxClock(clock)))

        yield one


def outcomes(sandbox: RunningSandbox, folder: Path, key: str, kind: str, rules: ServiceRules, clock: Clock) -> set[str]:
    """Start a run of this kind three times; what its rows are then, or why nothing left."""
    folder.mkdir(exist_ok=True)
    desk = open_short_desk(sandbox.base_url, folder, key, service=rules, clock=clock)
    try:
        for _ in range(3):
            try:
                KINDS[kind](ROWS).start(desk, folder)
            except TreasuryError as error:
                return {type(error).__name__}
        return {order.state.outcome for order in desk.ledger.orders()}
    finally:
        desk.close()


NEEDS_NO_ENTRY = [name for name, each in ALTERNATIVES.items() if not each.rules]
WITH_IT, WITHOUT_IT = halves(name for name in ALTERNATIVES if name not in NEEDS_NO_ENTRY)


@pytest.mark.costly("every kind of payment, each started three times")
@pytest.mark.parametrize("name", [*NEEDS_NO_ENTRY, *WITH_IT])
def test_with_its_entry_every_kind_is_paid_once(
    name: str, start: Any, key_pair: tuple[str, str], tmp_path: Path, clock: MovedClock
) -> None:
    each = ALTERNATIVES[name]
    sandbox = start(**each.behaves)
    rules = ServiceRules(**{"unconfirmed_statuses": {11}, **each.rules})
    for kind in each.kinds:
        assert outcomes(sandbox, tmp_path / kind, key_pair[0], kind, rules, clock) == PAID, kind
    assert {order["effects"] for order in sandbox.orders()} == {1}
    assert len(sandbox.orders()) == ROWS * len(each.kinds)
    for kind in each.kinds:
        desk = open_short_desk(sandbox.base_url, tmp_path / kind, key_pair[0], service=rules, clock=clock)
        assert night(desk, tmp_path / kind / "night")["verdict"] == "reconciled", kind
        desk.close()
    desk = open_short_desk(sandbox.base_url, tmp_path / each.kinds[-1], key_pair[0], service=rules, clock=clock)
    wrong = [proof for proof in prove_service(desk).proofs if proof.verdict is ProofVerdict.CONTRADICTED]
    desk.close()
    assert wrong == []


@pytest.mark.costly("every kind of payment, each started three times")
@pytest.mark.parametrize("name", WITHOUT_IT)
def test_without_it_nothing_is_paid_twice_or_called_paid_and_the_proof_names_it(
    name: str, start: Any, key_pair: tuple[str, str], tmp_path: Path, clock: MovedClock
) -> None:
    each = ALTERNATIVES[name]
    sandbox = start(**each.behaves)
    for kind in each.kinds:
        folder = tmp_path / kind
        outcomes(sandbox, folder, key_pair[0], kind, ServiceRules(unconfirmed_statuses={11}), clock)
        desk = open_short_desk(sandbox.base_url, folder, key_pair[0], service=ServiceRules(), clock=clock)
        paid = {order["request_id"]: order for order in sandbox.orders()}
        for order in desk.ledger.orders():
            shown = paid.get(order.request_id)
            assert shown is None or shown["effects"] == 1
            if order.state.outcome == "settled":
                assert shown is not None
            if order.state.outcome in ("rejected", "not_sent"):
                assert shown is None
        desk.close()
    made = len(sandbox.orders())
    desk = open_short_desk(
        sandbox.base_url, tmp_path / each.kinds[-1], key_pair[0], service=ServiceRules(), clock=clock
    )
    findings = prove_service(desk)
    assert len(sandbox.orders()) == made
    wrong = {proof.name: proof for proof in findings.proofs if proof.verdict is ProofVerdict.CONTRADICTED}
    if each.named is not None:
        assert each.named in wrong
        assert not findings.is_well
    desk.close()
