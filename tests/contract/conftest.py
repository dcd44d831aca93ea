"""Valid examples of every operation, with what each needs to be there first."""

import runpy
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from treasury.provider.catalogue import CATALOGUE
from treasury.provider.client import Account, Client
from treasury.provider.operation import Operation
from treasury.sandbox import RunningSandbox, build_promptpay

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def sandbox(open_sandbox: Callable[..., RunningSandbox]) -> RunningSandbox:
    """A sandbox whose orders do not end by themselves: what its books say changes only when something acts."""
    return open_sandbox(settle_seconds=3600)


@pytest.fixture(scope="module")
def client(sandbox: RunningSandbox, key_pair: tuple[str, str]) -> Iterator[Client]:
    with Client(Account(sandbox.base_url, "900001", key_pair[0]), timeout_seconds=10) as client:
        yield client


@pytest.fixture(scope="session")
def written_examples() -> dict[str, Fields]:
    """The examples of tests/interface, by operation."""
    file = Path(__file__).parents[1] / "interface" / "examples.py"
    examples: dict[str, Fields] = runpy.run_path(str(file))["EXAMPLES"]
    return examples


@pytest.fixture
def example(client: Client, written_examples: dict[str, Fields]) -> Callable[[str], Fields]:
    """Fields of an operation that the sandbox takes; what they need is there already."""

    def make(name: str) -> Fields:
        operation, reference = CATALOGUE[name], uuid.uuid4().hex[:20]
        fields = dict(written_examples[name])
        if operation.reference is not None:
            fields[operation.reference] = reference
        return fields | PREPARED.get(name, _nothing)(client, fields, written_examples)

    return make


def _nothing(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    return {}


def _send(client: Client, operation: str, examples: dict[str, Fields], **changed: Any) -> Any:
    made: Operation[Any] = CATALOGUE[operation](**{**examples[operation], **changed})
    return client.send(made)


def _after_withdrawal(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    return {"order_no": _send(client, "withdraw", examples, request_id=fields["request_id"]).order_no}


def _after_quote(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    reference = fields.get("request_id") or uuid.uuid4().hex
    return {"order_no": _send(client, "fiat_payout_quote", examples, request_id=reference).order_no}


def _after_conversion_quote(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    return {"quoteId": _send(client, "conversion_quote", examples, xid=uuid.uuid4().hex).quote_id}


def _after_user(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    _send(client, "create_card_user_with_kyc_link", examples, user_xid=fields["user_xid"])
    return {}


def _known_user(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    user = _send(client, "create_card_user", examples, user_xid=fields.get("user_xid") or uuid.uuid4().hex)
    return {"user_id": user.user_id} | ({"phone_number": None} if "phone_number" in fields else {})


def _known_address(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    known = _send(client, "deposit_address", examples, customer_ref_id=uuid.uuid4().hex)
    return {"currency": known.currency, "address": known.address}


def _real_code(client: Client, fields: Fields, examples: dict[str, Fields]) -> Fields:
    return {"qrcode": build_promptpay("0812345678", Decimal(fields["amount"]))}


PREPARED: dict[str, Callable[[Client, Fields, dict[str, Fields]], Fields]] = {
    "query_transaction": _after_withdrawal,
    "verify_deposit_address": _known_address,
    "kyc_link": _after_user,
    "upload_kyc": _after_user,
    "query_card_user": _known_user,
    "change_card_user_email": _known_user,
    "submit_scan_to_pay": _real_code,
    "scan_to_pay_info": _real_code,
    "conversion_execute": _after_conversion_quote,
    "create_fiat_payout": _after_quote,
    "query_fiat_payout": _after_quote,
    "estimate_fee": lambda *_: {"currency": "USDT_TRC20"},
}
"""Operation -> what it needs to be there first, and the fields that follow from it."""
