"""Forms: what the service asks of an object or a request, as its own reading of the interface; compiled once.

Nothing here knows the client's models: what a client declares wrongly is refused by what stands here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from tests.interface.forms.kinds import Kind, from_json_text, is_absent


class NothingGiven(Exception):
    """An object none of whose members is given: it counts as absent itself."""


class Broken(ValueError):
    """Fields break rules: place and rule of each."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{place}: {rule}" for place, rule in problems))


@dataclass(frozen=True)
class Field:
    """One line of a table: the kind of a field, whether it is required, and its name on the wire."""

    kind: Kind
    required: bool
    wire: str


def must(kind: Kind, wire: str = "") -> Any:
    """A required field; `wire` is its name on the wire where it differs from the attribute's."""
    return Field(kind, required=True, wire=wire)


def may(kind: Kind, wire: str = "") -> Any:
    """An optional field: None when it is absent."""
    return Field(kind, required=False, wire=wire)


@dataclass(frozen=True)
class When:
    """`field` is required (an amount: above zero) when `other` is `value`; `only` forbids it otherwise."""

    field: str
    other: str
    value: str
    only: bool = False

    def check(self, form: "Form") -> tuple[str, str] | None:
        """Return what a form breaks of the rule; a condition on what is not there says nothing."""
        met, given = getattr(form, self.other), getattr(form, self.field)
        if met == self.value and given is None:
            return self.field, f"is required when {self.other} is {self.value}"
        if met == self.value and isinstance(given, Decimal) and given <= 0:
            return self.field, "must be greater than zero"
        if given is not None and self.only and met not in (None, self.value):
            return self.field, f"is allowed only when {self.other} is {self.value}"
        return None


@dataclass(frozen=True)
class EitherOf:
    """At least one of two fields is required."""

    field: str
    other: str

    def check(self, form: "Form") -> tuple[str, str] | None:
        """Return what a form breaks of the rule."""
        absent = getattr(form, self.field) is None and getattr(form, self.other) is None
        return (self.field, f"is required when {self.other} is absent") if absent else None


class Form:
    """An object whose fields a class body lists with `must` and `may`; unknown members are ignored."""

    fields: ClassVar[Mapping[str, Field]] = {}
    """Attribute -> its line of the table."""
    rules: ClassVar[tuple[When | EitherOf, ...]] = ()
    _plan: ClassVar[tuple[tuple[str, str, Callable[[Any], Any], bool], ...]] = ()

    def __init_subclass__(cls) -> None:
        """Compile the table: every attribute that is listed begins as None."""
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        for name, field in own.items():
            own[name] = Field(field.kind, field.required, field.wire or name)
            setattr(cls, name, None)
        cls.fields = {**cls.fields, **own}
        cls._plan = tuple((field.wire, name, field.kind.read, field.required) for name, field in cls.fields.items())

    @classmethod
    def read(cls, given: Any) -> Self:
        """Judge an object's members. Raises `Broken` with everything that is wrong."""
        if not isinstance(given, dict):
            raise ValueError("must be an object")  # noqa: TRY004
        form = cls.__new__(cls)
        values = form.__dict__
        problems: list[tuple[str, str]] = []
        find = given.get
        for wire, name, read, required in cls._plan:
            value = find(wire)
            if value is None or is_absent(value):
                if required:
                    problems.append((wire, "is required"))
                continue
            try:
                values[name] = read(value)
            except NothingGiven:
                if required:
                    problems.append((wire, "is required"))
            except Broken as broken:
                problems += [(f"{wire}.{place}", rule) for place, rule in broken.problems]
            except ValueError as error:
                problems.append((wire, str(error)))
        if cls.rules:
            named = {place.partition(".")[0] for place, _ in problems}
            found = (rule.check(form) for rule in cls.rules)
            problems += [problem for problem in found if problem is not None and problem[0] not in named]
        if problems:
            raise Broken(problems)
        return form

    def body(self) -> dict[str, Any]:
        """The fields that were given, by wire name, amounts as text: the same for requests that say the same."""
        given = ((field.wire, getattr(self, name)) for name, field in self.fields.items())
        return {wire: _plain(value) for wire, value in given if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Form):
        return value.body()
    return format(value, "f") if isinstance(value, Decimal) else value


def _members_of(form: type[Form]) -> Callable[[Any], Form]:
    names = [field.wire for field in form.fields.values()]

    def read(value: Any) -> Form:
        if is_absent(value) or (isinstance(value, dict) and all(is_absent(value.get(name)) for name in names)):
            raise NothingGiven
        return form.read(value)

    return read


def nested(form: type[Form]) -> Kind:
    """An object with a form of its own."""
    return Kind("object", _members_of(form), inside=form)


def json_text(form: type[Form]) -> Kind:
    """Return the field as one that travels as JSON text."""
    return Kind("JSON text", from_json_text(_members_of(form)), inside=form)


class Request(Form):
    """A request: its table, its path, and what names it."""

    name: ClassVar[str]
    """The operation's name in settings, faults and orders."""
    path: ClassVar[str]
    reference: ClassVar[str | None] = None
    """The attribute that names this request for ever."""
    acts: ClassVar[bool] = False
    """True: it moves money or makes something, a quote or a card user. Faults strike those."""

    @property
    def reference_value(self) -> str:
        """Return what names this request."""
        return str(getattr(self, self.reference or ""))
