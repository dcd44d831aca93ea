"""The tables in `forms` are a transcription of the document of their own: where the catalogue differs, it shows."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast, get_args

import pytest
from pydantic import BaseModel

from tests.interface.careless import CARELESS
from tests.interface.examples import EXAMPLES
from tests.interface.forms import REQUESTS
from tests.interface.forms.form import Broken, Form, When
from treasury.errors import InvalidFields
from treasury.provider import fields as client_fields
from treasury.provider.catalogue import CATALOGUE
from treasury.provider.operation import Conditional, Effect, members, wire_name

every_request = pytest.mark.parametrize("name", REQUESTS)

Line = tuple[bool, str, tuple[str, ...], tuple[int, int | None]]
"""Of one field: is it required, its kind, its choices, its bounds."""

TELLS = ("is required on one side only", "is of another kind", "takes other choices", "has other bounds")
"""How a difference in each part of a line is told."""

KINDS = {
    "_positive": "amount",
    "_country": "country",
    "_fiat": "fiat currency",
    "_date": "date",
    "_image": "image",
    "_any_image": "image",
}
"""Function of the client's validator -> what the sandbox calls that kind."""


def own_lines(form: type[Form], above: str = "") -> Iterator[tuple[str, Line]]:
    for field in form.fields.values():
        yield (
            above + field.wire,
            (
                field.required,
                field.kind.name,
                field.kind.choices,
                field.kind.bounds,
            ),
        )
        if field.kind.inside is not None:
            yield from own_lines(field.kind.inside, f"{above}{field.wire}.")


def client_lines(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, Line]]:
    for attribute, field in model.model_fields.items():
        wire = wire_name(model, attribute)
        marks = [*field.metadata, *_marks(field.annotation)]
        nested = members(model)[wire][1]
        kind = _kind(marks, nested, str(field.annotation))
        yield above + wire, (field.is_required(), kind, _choices(marks), _bounds(marks))
        if nested is not None:
            yield from client_lines(nested, f"{above}{wire}.")


def _marks(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    for inner in get_args(annotation):
        yield from _marks(inner)


def _kind(marks: list[Any], nested: Any, annotation: str) -> str:
    if nested is not None:
        return "JSON text" if any(type(mark).__name__ == "BeforeValidator" for mark in marks) else "object"
    functions = [getattr(mark, "func", None) for mark in marks]
    named = [KINDS[name] for each in functions if (name := getattr(each, "__name__", "")) in KINDS]
    patterns = [mark.pattern for mark in marks if getattr(mark, "pattern", None)]
    if "dict" in annotation:
        return "object of texts"
    if patterns:
        return "purpose" if "2" in patterns[0] else "symbol"
    return named[0] if named else "enumeration" if _choices(marks) else "text"


def _choices(marks: list[Any]) -> tuple[str, ...]:
    """The values of an enumeration, or the types of an image."""
    for mark in marks:
        function = getattr(mark, "func", None)
        if function is cast(Any, client_fields.Image).__metadata__[0].func:
            return ("image/jpeg", "image/png")
        if isinstance(function, client_fields.OneOf):
            return function.values
    return ()


def _bounds(marks: list[Any]) -> tuple[int, int | None]:
    least: int = 0
    most: int | None = None
    for mark in marks:
        least = getattr(mark, "min_length", None) or least
        most = getattr(mark, "max_length", None) or most
    return least, most


def rules_of(rules: Any) -> dict[Any, bool]:
    """Rule -> whether it also forbids the field otherwise."""
    found: dict[Any, bool] = {}
    for rule in rules:
        if isinstance(rule, Conditional):
            found |= {(rule.field, rule.when, value): rule.exclusive for value in rule.values}
        elif isinstance(rule, When):
            found[rule.field, rule.other, rule.value] = rule.only
        else:
            found[rule.field, rule.other] = False
    return found


def differences(name: str) -> set[str]:
    form, operation = REQUESTS[name], CATALOGUE[name]
    own, theirs = dict(own_lines(form)), dict(client_lines(operation))
    found = {f"{place}: only the sandbox has it" for place in own.keys() - theirs.keys()}
    found |= {f"{place}: only the client has it" for place in theirs.keys() - own.keys()}
    for place in own.keys() & theirs.keys():
        for told, ours, other in zip(TELLS, own[place], theirs[place], strict=True):
            if ours != other:
                found.add(f"{place}: {told}")
    own_rules, their_rules = rules_of(form.rules), rules_of(operation.rules)
    found |= {f"{rule[0]}: only one side has the rule {rule}" for rule in own_rules.keys() ^ their_rules.keys()}
    for rule in own_rules.keys() & their_rules.keys():
        if own_rules[rule] != their_rules[rule]:
            side = "sandbox" if own_rules[rule] else "client"
            found.add(f"{rule[0]}: the {side} alone forbids it otherwise")
    return found


@every_request
def test_the_table_and_the_clients_catalogue_say_the_same(name: str) -> None:
    assert differences(name) == set()


@every_request
def test_path_reference_and_effect_are_the_clients(name: str) -> None:
    form, operation = REQUESTS[name], CATALOGUE[name]
    reference = None if form.reference is None else form.fields[form.reference].wire
    assert (form.path, reference) == (operation.path, operation.reference)
    assert form.acts == (operation.effect is not Effect.READS)


def test_both_know_the_same_operations() -> None:
    assert list(REQUESTS) == list(CATALOGUE)


@every_request
def test_kinds_take_the_same_values_as_the_client(name: str) -> None:
    form, whole = REQUESTS[name], EXAMPLES[name]
    assert form.read(whole).body() == json.loads(json.dumps(whole))
    assert form.read(CATALOGUE[name](**whole).body()).body().keys() == whole.keys()


def test_what_is_read_is_what_was_asked() -> None:
    form: Any = REQUESTS["fiat_payout_quote"].read(EXAMPLES["fiat_payout_quote"])
    assert form.pay_amount == Decimal("100.00")
    assert form.individual_beneficiary.account_no == "DE02120300000000202051"
    assert form.enterprise_beneficiary is None


@pytest.mark.parametrize(("name", "changed", "place"), CARELESS)
def test_what_a_careless_client_sends_is_refused_by_both(name: str, changed: dict[str, Any], place: str) -> None:
    sent = {key: value for key, value in {**EXAMPLES[name], **changed}.items() if value is not None}
    with pytest.raises(Broken, match=place):
        REQUESTS[name].read(sent)
    with pytest.raises(InvalidFields) as caught:
        CATALOGUE[name](**sent)
    assert place.partition(": ")[0] in {problem.field for problem in caught.value.problems}


@pytest.mark.parametrize(("name", "field"), [("payout", "country"), ("withdraw", "address"), ("kyc_link", "user_xid")])
def test_half_a_character_is_no_text(name: str, field: str) -> None:
    sent = {**EXAMPLES[name], field: "\ud800"}
    with pytest.raises(Broken, match=f"{field}: must be a text of whole"):
        REQUESTS[name].read(sent)
    with pytest.raises(InvalidFields, match=f"{field}: must be a text of whole"):
        CATALOGUE[name](**sent)


def test_half_a_character_is_no_text_inside_of_objects() -> None:
    for fields in ({"\ud800": "x"}, {"swift": "A\udfff"}):
        with pytest.raises(InvalidFields, match="must be a text of whole"):
            CATALOGUE["fiat_payout_quote"](**{**EXAMPLES["fiat_payout_quote"], "beneficiaryFields": fields})
