"""The common base of all operations: its fields and rules, its effect, its reference, its reply."""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, field_validator, model_validator

from treasury.errors import InvalidFields, Problem
from treasury.masking import mask
from treasury.model_errors import rule_of
from treasury.provider.fields import PERSONAL, WORDS, Personal, is_blank, unsignable, without_blanks
from treasury.provider.status import OrderStatus
from treasury.texts import cut_text, is_whole


class Effect(StrEnum):
    """The effect of sending an operation; everything that may be retried or must be recorded follows from it."""

    READS = "reads"
    """Nothing changes at the service; may be repeated at will."""
    CREATES = "creates"
    """Something comes into being, but no balance moves; repeated by its own reference."""
    MOVES_MONEY = "moves money"
    """A balance changes; leaves through the ledger and `submission`, at most once."""


@dataclass(frozen=True)
class SeenOrder:
    """An order as a reply of the service shows it; what the reply does not say is None. Amounts are in `currency`."""

    order_no: str | None = None
    request_id: str | None = None
    status: OrderStatus | None = None
    currency: str | None = None
    amount: Decimal | None = None
    arrive_amount: Decimal | None = None
    fee: Decimal | None = None
    fee_currency: str | None = None
    receive_currency: str | None = None
    receive_amount: Decimal | None = None
    rate: Decimal | None = None
    finish_time: str | None = None
    created_ms: int | None = None
    """When it was made, Unix ms."""
    reason: str | None = None
    destination: tuple[str | None, str | None] = field(default=(None, None), repr=False)
    """The address that it goes to, and the tag there. Personal."""
    unreadable: str | None = None
    """The part of the reply that is not what it should be, if any."""


MAX_UNLISTED = 40
"""Members that the interface does not name, of which the ledger keeps the names."""

MAX_NAME = 60


@dataclass(frozen=True)
class Received:
    """The source of a reply."""

    envelope: dict[str, Any]
    unread: Sequence[str]
    """Fields that could not be read and were left out, by attribute."""


class Reply(BaseModel):
    """Data of a successful answer; a blank field is an absent one, as in a request. Fields that the interface does not
    name are kept (`model_extra`)."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, coerce_numbers_to_str=True)

    _received: Received | None = PrivateAttr(default=None)

    @field_validator("*", mode="before")
    @classmethod
    def _leave_out_blanks(cls, value: object) -> object:
        return None if is_blank(value) else value

    @property
    def envelope(self) -> dict[str, Any]:
        """The whole answer, `code` and `message` included; only unsafe characters are not as they arrived."""
        return {} if self._received is None else self._received.envelope

    @classmethod
    @functools.cache
    def listed(cls) -> set[str]:
        """Names of the fields that the interface names."""
        return set(cls.model_fields)

    @classmethod
    @functools.cache
    def worded(cls) -> frozenset[str]:
        """Wire names of the fields that hold words: whatever the service wants to say."""
        fields = cls.model_fields.items()
        return frozenset(wire_name(cls, name) for name, field in fields if WORDS in field.metadata)

    def unread(self, other: str | None = None) -> str | None:
        """The fields that could not be read and were left out, by wire name, and another part; None when all were."""
        unread = () if self._received is None else self._received.unread
        if not unread:
            return other
        names = [wire_name(type(self), name) for name in unread] + ([other] if other else [])
        return ", ".join(names) or None

    def as_order(self) -> SeenOrder:
        """The order this reply shows; a reply that shows none answers an empty one."""
        return SeenOrder()

    def redacted(self, masked: Callable[[str], str]) -> dict[str, Any]:
        """The data as it came, by wire name, with every personal or unlisted value hidden: fit to be kept.

        `masked` hides what is personal in a text. Of unlisted members the first 40 are named; how many more there were
        is said under `more`.
        """
        only = type(self).listed() if self.model_extra else None
        listed = self.model_dump(mode="json", by_alias=True, exclude_none=True, include=only)
        shown = mask_fields(type(self), listed)
        for name in self.worded() & shown.keys():
            shown[name] = masked(shown[name])
        unlisted = self.model_extra
        if not unlisted:
            return shown
        for name, value in islice(unlisted.items(), MAX_UNLISTED):
            shown[cut_text(masked(name), MAX_NAME)] = (
                "***" if isinstance(value, dict | list) else mask(cut_text(str(value)))
            )
        if len(unlisted) > MAX_UNLISTED:
            shown["more"] = f"(cut, {len(unlisted):,} members)"
        return shown


@dataclass(frozen=True)
class Conditional:
    """`field` is required when `when` has one of `values`; if `exclusive`, it is not allowed otherwise."""

    field: str
    when: str
    values: tuple[str, ...]
    exclusive: bool = False

    def check(self, fields: Mapping[str, Any]) -> Problem | None:
        """Return what these fields (by wire name) break of the rule."""
        needed = str(fields.get(self.when)).casefold() in self._folded
        given = not is_blank(fields.get(self.field))
        if needed and not given:
            return Problem(self.field, f"is required when {self.condition}", code="required")
        if given and self.exclusive and not needed:
            return Problem(self.field, f"is allowed only when {self.condition}", code="not_allowed")
        return None

    @functools.cached_property
    def _folded(self) -> frozenset[str]:
        return frozenset(value.casefold() for value in self.values)

    @property
    def condition(self) -> str:
        """The condition in words."""
        return f"{self.when} is {' or '.join(self.values)}"


@dataclass(frozen=True)
class NeedsOneOf:
    """At least one of two fields is required."""

    field: str
    other: str
    when: str | None = None

    def check(self, fields: Mapping[str, Any]) -> Problem | None:
        """Return what these fields (by wire name) break of the rule."""
        if is_blank(fields.get(self.field)) and is_blank(fields.get(self.other)):
            return Problem(self.field, f"is required when {self.other} is absent")
        return None


class WireModel(BaseModel):
    """An object on the wire: blank members count as absent, unknown members are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_blanks(cls, data: object) -> object:
        return without_blanks(data)


R = TypeVar("R", bound=Reply)


class Operation(WireModel, Generic[R]):
    """One operation of the interface: its fields are the request, its class says how it may be used.

    Raises `InvalidFields` on construction, naming each field, rule and value, before anything is signed.
    """

    path: ClassVar[str]
    effect: ClassVar[Effect]
    source: ClassVar[str]
    """Its source: the document's endpoint, or the public fact."""
    reference: ClassVar[str | None] = None
    """The wire field that names this request for ever: its idempotency key and what it is asked by."""
    rules: ClassVar[tuple[Conditional | NeedsOneOf, ...]] = ()
    asked_with: ClassVar[type["Operation[Any]"] | None] = None
    """The operation that asks what became of this one, by `request_id`."""
    absence_is_evidence: ClassVar[bool] = False
    """True when "no such order" proves that this operation did not act."""
    confirms_quote: ClassVar[bool] = False
    """True when it acts on a quote that was asked for before."""
    may_show_what_arrives: ClassVar[bool] = False
    """True when a query may show it in the currency that is received instead of the one that is paid."""
    due_hours: ClassVar[int] = 0
    """Hours after which one that is not final is late, unless a policy says otherwise. The document names none."""
    is_paid_by_banks: ClassVar[bool] = False
    """Banks pay it: of a policy with `holidays` only hours of business days count towards `due_hours`."""
    limited_by: ClassVar[str] = "payouts"
    """The table of a policy that limits it, if it moves money: payouts, withdrawals or conversions."""
    debits: ClassVar[str | None] = None
    """The currency that it debits, where none of its fields names it."""
    receives: ClassVar[str | None] = None
    """The currency of its `amount`, where that is what arrives and no field names it."""
    refused_for_good: ClassVar[frozenset[str]] = frozenset()
    """Envelope codes that, as an answer to this operation, depend on nothing but the request's own content."""

    def __init__(self, **fields: Any) -> None:
        problems: list[Problem] = []
        try:
            super().__init__(**fields)
        except ValidationError as error:
            problems += _problems(type(self), error)
        if not (problems or self.rules or self._has_objects()) and all(map(is_whole, fields.values())):
            return
        given = fields if problems else self.model_dump(by_alias=True)
        named = {problem.field for problem in problems}
        # A condition on a field that is itself wrong or missing says nothing.
        broken = [rule.check(given) for rule in self.rules if rule.when not in named]
        problems += [problem for problem in broken if problem is not None and problem.field not in named]
        if not problems and (self._has_objects() or not all(map(is_whole, given.values()))):
            problems += unsignable(given)
        if problems:
            raise InvalidFields(self.operation_name(), problems) from None

    @classmethod
    @functools.cache
    def _has_objects(cls) -> bool:
        """Tell whether any field is an object."""
        return any(nested is not None for _, nested in members(cls).values())

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Name what is missing of an operation that moves money, as soon as its class is there."""
        super().__pydantic_init_subclass__(**kwargs)
        if getattr(cls, "effect", None) is not Effect.MOVES_MONEY:
            return
        needed = {"reference": cls.reference, "asked_with": cls.asked_with, "due_hours": cls.due_hours}
        missing = [name for name, value in needed.items() if not value]
        if missing:
            raise TypeError(f"{cls.__name__} moves money and does not say {', '.join(missing)}")

    @property
    def payee(self) -> str | None:
        """Whom it pays, for duplicate checks; personal. By default all that it asks but its reference and amount.

        None for the confirmation of a quote, which names nobody: its quote does.
        """
        if self.confirms_quote:
            return None
        left_out = {self.reference, "amount", "notify_url", "description"}
        asked = {name: value for name, value in self.body().items() if name not in left_out}
        return json.dumps(asked, sort_keys=True)

    @classmethod
    @functools.cache
    def operation_name(cls) -> str:
        """Its name in commands and docs: `FiatPayoutQuote` is `fiat_payout_quote`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    @functools.cache
    def reply_type(cls) -> type[R]:
        """The model of its reply's data."""
        for base in cls.__mro__:
            meta = getattr(base, "__pydantic_generic_metadata__", None)
            if meta and meta["args"]:
                reply: type[R] = meta["args"][0]
                return reply
        raise TypeError(f"{cls.__name__} names no reply type")

    @classmethod
    def question(
        cls,
        request_id: str,
        confirmation: str | None = None,  # noqa: ARG003 - for operations that confirm a quote
        order_no: str | None = None,  # noqa: ARG003 - for operations whose query may not know the request id
    ) -> "Operation[Any]":
        """The operation that asks what became of this one.

        `confirmation`: the quote it acted on, if any. `order_no`: the service's number, if it is known.
        """
        if cls.asked_with is None:
            raise AssertionError(f"{cls.operation_name()} cannot be asked about")
        return cls.asked_with(request_id=request_id)

    @property
    def reference_value(self) -> str | None:
        """The value of the reference field."""
        return None if self.reference is None else str(getattr(self, _attribute(type(self), self.reference)))

    def body(self) -> dict[str, Any]:
        """The request's own fields as they go on the wire: wire names, text amounts, blanks left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def masked(self) -> dict[str, Any]:
        """Return it with every personal value hidden."""
        return mask_fields(type(self), self.body())


def wire_name(model: type[BaseModel], attribute: str) -> str:
    """The name of a field on the wire."""
    field = model.model_fields.get(attribute)
    return (field.alias or attribute) if field else attribute


@functools.cache
def _attribute(model: type[BaseModel], wire: str) -> str:
    return next(name for name in model.model_fields if wire_name(model, name) == wire)


@functools.cache
def members(model: type[BaseModel]) -> dict[str, tuple[Personal | None, type[BaseModel] | None]]:
    """Wire name of each field -> (its mark if it is personal, the model of the object it holds)."""
    found = {}
    for name, item in model.model_fields.items():
        nested = next((kind for kind in _types(item.annotation) if issubclass(kind, BaseModel)), None)
        marks = (*item.metadata, *marks_of(item.annotation))
        personal = next((mark for mark in marks if isinstance(mark, Personal)), None)
        found[wire_name(model, name)] = (personal, nested)
    return found


def _types(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def marks_of(annotation: Any) -> Iterator[object]:
    yield from getattr(annotation, "__metadata__", ())
    for inner in get_args(annotation):
        yield from marks_of(inner)


def mask_fields(model: type[BaseModel], body: Mapping[str, Any]) -> dict[str, Any]:
    """A body with every personal value hidden."""
    shown: dict[str, Any] = {}
    known = members(model)
    for key, value in body.items():
        personal, nested = known.get(key, (PERSONAL, None))
        if personal is not None and isinstance(value, str):
            shown[key] = personal.masked(value)
        elif isinstance(value, str):
            shown[key] = value if nested is None else mask(value)
        elif nested is not None:
            shown[key] = mask_fields(nested, value) if isinstance(value, Mapping) else mask(value)
        elif isinstance(value, Mapping):
            shown[key] = {inner: mask(content) for inner, content in value.items()}
        else:
            shown[key] = mask(value) if personal else value
    return shown


def personal_values(model: type[BaseModel], body: Mapping[str, Any]) -> Iterator[str]:
    """Every personal value of a body, as text: those that `mask_fields` hides, but for pictures."""
    known = members(model)
    for key, value in body.items():
        personal, nested = known.get(key, (PERSONAL, None))
        yield from _values(value, personal=personal is not None, nested=nested)


def _values(value: object, *, personal: bool, nested: type[BaseModel] | None) -> Iterator[str]:
    if nested is not None and isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if nested is not None and isinstance(value, Mapping):
        yield from personal_values(nested, value)
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _values(member, personal=True, nested=None)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _values(member, personal=personal, nested=None)
    elif value is not None and (personal or nested is not None):
        text = str(value)
        if not text.startswith("data:"):
            yield text


def _problems(model: type[BaseModel], error: ValidationError) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        location = [str(part) for part in detail["loc"]]
        kind = detail["type"]
        rule = "is not a field of this operation" if kind == "extra_forbidden" else rule_of(detail)
        yield Problem(
            _place(model, location), rule, _shown(model, location, detail), code=_CODES.get(kind, "not_valid")
        )


def _place(model: type[BaseModel], location: list[str]) -> str:
    return ".".join(location[:1] and [wire_name(model, location[0]), *location[1:]]) or "request"


_CODES = {
    "missing": "required",
    "extra_forbidden": "not_allowed",
    "string_too_short": "too_short",
    "string_too_long": "too_long",
    "string_pattern_mismatch": "not_written",
}
"""Kind of an error -> its stable code."""


def _shown(model: type[BaseModel], location: list[str], detail: Mapping[str, Any]) -> str | None:
    value = detail.get("input")
    if detail["type"] == "missing" or isinstance(value, Mapping | list | BaseModel):
        return None
    current: type[BaseModel] | None = model
    personal: Personal | None = PERSONAL
    for part in location:
        if current is None:
            break
        personal, current = members(current).get(wire_name(current, part), (PERSONAL, None))
    text = mask(value) if personal else str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")
