"""Every operation of the catalogue keeps the same promises, over real HTTP."""

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

import flows
from flows.commands import COMMANDS
from tests.contract.operations_page import DOCS, TABLES, operations_page, with_table
from tests.contract.work import WORK
from treasury.errors import InvalidFields, Refused
from treasury.provider.catalogue import CATALOGUE, DOCUMENT, PUBLIC_FACTS
from treasury.provider.client import Client
from treasury.provider.operation import Conditional, Effect, Operation, members, wire_name
from treasury.provider.orders import QueryTransaction
from treasury.provider.signing import sign
from treasury.sandbox import RunningSandbox
from treasury.sheets.templates import KINDS

Fields = dict[str, Any]
Example = Callable[[str], Fields]

every_operation = pytest.mark.parametrize("name", CATALOGUE)
WITH_REFERENCE = [name for name, operation in CATALOGUE.items() if operation.reference]
CHANGING = [name for name in WITH_REFERENCE if CATALOGUE[name].effect is not Effect.READS]

FLOWS = Path(flows.__file__).parent


def post(client: Client, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Post a body as it stands; HTTP status and answer."""
    answer = httpx.post(client.account.base_url + path, json=body, timeout=10)
    return answer.status_code, answer.json()


def signed(client: Client, fields: Mapping[str, Any], like: Mapping[str, Any]) -> Fields:
    """A body of these own fields, correctly signed, with fresh common parameters."""
    common = {name: like[name] for name in ("partner_id", "sign_type", "timestamp")}
    body = {**fields, **common, "nonce": f"n-{id(fields)}-{len(str(fields))}-{next(_numbers)}"}
    return {**body, "sign": sign(body, client.account.signing_key, client.account.rules)}


_numbers = iter(range(1_000_000))


def what_acted(sandbox: RunningSandbox) -> tuple[Fields, Fields]:
    """How often each order acted, and the books."""
    return {order["order_no"]: order["effects"] for order in sandbox.orders()}, sandbox.books()


@every_operation
def test_a_valid_request_is_answered_and_its_reply_is_read(name: str, client: Client, example: Example) -> None:
    operation = CATALOGUE[name]
    reply = client.send(operation(**example(name)))
    assert isinstance(reply, operation.reply_type())
    assert reply.envelope
    if operation.effect is Effect.MOVES_MONEY:
        seen = reply.as_order()
        assert seen.order_no
        assert seen.status is not None


@every_operation
def test_a_request_that_was_changed_on_its_way_is_refused(
    name: str, client: Client, sandbox: RunningSandbox, example: Example
) -> None:
    operation = CATALOGUE[name]
    body = client.signed_body(operation(**example(name)))
    before = what_acted(sandbox)
    for field in sorted(set(body) - {"partner_id"}):
        changed = copy.deepcopy(body)
        changed[field] = change(body[field])
        status, answer = post(client, operation.path, changed)
        assert (status, str(answer["code"])) == (200, "406"), f"{field} was changed unnoticed"
    assert what_acted(sandbox) == before


def change(value: Any) -> Any:
    """The value with one character changed."""
    if isinstance(value, dict):
        first = next(iter(value))
        return {**value, first: change(value[first])}
    text = str(value)
    return text[:-1] + ("1" if text[-1] != "1" else "2")


@every_operation
def test_each_missing_field_is_named_on_both_sides(name: str, client: Client, example: Example) -> None:
    operation = CATALOGUE[name]
    whole = operation(**example(name)).body()
    like = client.signed_body(operation(**whole))
    for place, fields in without_required(operation, whole):
        with pytest.raises(InvalidFields) as caught:
            operation(**fields)
        assert place in [problem.field for problem in caught.value.problems]
        status, answer = post(client, operation.path, signed(client, fields, like))
        assert (status, str(answer["code"])) == (400, "400")
        assert place in answer["message"]


def without_required(operation: type[Operation[Any]], whole: Fields) -> Iterator[tuple[str, Fields]]:
    """Each required field by its place, and the fields without it."""
    for place in required_places(operation):
        if "." not in place:
            yield place, {key: value for key, value in whole.items() if key != place}
            continue
        outer, inner = place.split(".")
        if outer in whole:
            yield place, {**whole, outer: {key: value for key, value in whole[outer].items() if key != inner}}
    for rule in operation.rules:
        if isinstance(rule, Conditional):
            fields = {key: value for key, value in whole.items() if key != rule.field}
            yield rule.field, {**fields, rule.when: rule.values[0]}
        else:
            yield rule.field, {key: value for key, value in whole.items() if key not in (rule.field, rule.other)}


def required_places(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for attribute, field in model.model_fields.items():
        name = wire_name(model, attribute)
        nested = members(model)[name][1]
        if field.is_required():
            yield above + name
        if nested is not None and not above:
            yield from required_places(nested, f"{name}.")


@pytest.mark.parametrize("name", CHANGING)
def test_the_same_reference_twice_acts_once(
    name: str, client: Client, sandbox: RunningSandbox, example: Example
) -> None:
    operation = CATALOGUE[name](**example(name))
    first = client.send(operation)
    before = what_acted(sandbox)
    try:
        second = client.send(operation)
    except Refused as refusal:
        assert refusal.code == "202224" or operation.confirms_quote  # noqa: PT017 - an equal answer is as good
    else:
        assert second.as_order().order_no == first.as_order().order_no
    assert what_acted(sandbox) == before
    if operation.effect is Effect.MOVES_MONEY:
        shown = {order["order_no"]: order["effects"] for order in sandbox.orders()}
        assert shown[first.as_order().order_no] == 1


def test_moving_money_is_declared_with_all_that_must_follow() -> None:
    moving = [operation for operation in CATALOGUE.values() if operation.effect is Effect.MOVES_MONEY]
    assert {operation.operation_name() for operation in moving} == {
        *("withdraw", "payout", "submit_scan_to_pay", "conversion_execute", "create_fiat_payout")
    }
    for operation in moving:
        assert operation.reference is not None
        assert operation.asked_with is not None
        assert operation.asked_with.effect is Effect.READS
        question = operation.question("r-1", "q-1")
        assert question.body()["request_id"] == "r-1"
    # Whether its query finds a conversion is not documented: its absence proves nothing.
    assert [operation.operation_name() for operation in moving if not operation.absence_is_evidence] == [
        "conversion_execute"
    ]
    assert {operation.operation_name() for operation in moving if operation.confirms_quote} == {
        *("conversion_execute", "create_fiat_payout")
    }


@every_operation
def test_declarations_fit_each_other(name: str) -> None:
    operation = CATALOGUE[name]
    fields = {wire_name(operation, attribute) for attribute in operation.model_fields}
    assert operation.path.startswith("/v1/")
    assert operation.source.startswith("document, endpoint" if operation in DOCUMENT else "public fact")
    assert operation.reference is None or operation.reference in fields
    for rule in operation.rules:
        assert rule.field in fields
        assert (rule.when if isinstance(rule, Conditional) else rule.other) in fields
    if operation.effect is Effect.READS:
        assert operation.asked_with is None
        assert not operation.absence_is_evidence
    if operation.confirms_quote or operation.absence_is_evidence or operation.may_show_what_arrives:
        assert operation.effect is Effect.MOVES_MONEY


def test_the_catalogue_is_whole_and_no_path_stands_twice() -> None:
    assert (len(DOCUMENT), len(PUBLIC_FACTS), len(CATALOGUE)) == (18, 11, 29)
    assert {path: n for path, n in Counter(each.path for each in CATALOGUE.values()).items() if n > 1} == {}


def test_a_query_of_an_order_that_is_not_there_says_so(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        client.send(QueryTransaction(request_id="never-sent"))
    assert (caught.value.http_status, caught.value.code) == (200, "7000")


def test_the_operations_page_is_what_the_catalogue_says() -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert page == operations_page(), "run `python tests/contract/operations_page.py`"


@every_operation
def test_the_operations_page_has_a_section_and_a_row_for_each(name: str) -> None:
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert f"\n## {name}\n" in page
    assert f"`{CATALOGUE[name].path}`" in page


@pytest.mark.parametrize("name", WORK)
def test_work_that_the_page_names_is_there(name: str) -> None:
    work = WORK[name]
    assert CATALOGUE[name].operation_name() == name
    assert work.command in COMMANDS
    assert (FLOWS / f"{work.flow}.py").exists()
    assert not work.sheet or work.sheet in KINDS
    lacking = not all((work.sheet, work.preview, work.results, work.reconciled))
    assert bool(work.reason) == lacking, "an empty cell has a reason, and no other row has one"


def test_every_documented_operation_is_work() -> None:
    documented = {name for name, each in CATALOGUE.items() if each.source.startswith("document, endpoint")}
    assert documented <= WORK.keys()


def test_the_class_table_is_what_the_reconciliation_uses() -> None:
    for name in TABLES:
        page = (DOCS / name).read_text(encoding="utf-8")
        assert page == with_table(name), "run `python -m tests.contract.operations_page`"
