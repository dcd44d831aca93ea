"""The `[people.NAME]` tables: who may make, approve and change policy, known by their keys and OS users."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from treasury.errors import InputError
from treasury.policy.tables import PolicyTable
from treasury.texts import UNSAFE, as_it_looks, count_of, is_clean

PUBLIC_KEY = "ed25519:"
"""The beginning of a public key's text; the base64 of its 32 bytes follows (RFC 8032)."""

MAX_NAME = 100
"""Most characters of a person's name."""

APPROVAL_HOURS = 72
"""How long an approval counts, unless the policy says otherwise."""


class Right(StrEnum):
    """A right of a person."""

    MAKE = "make"
    """Make plans."""
    APPROVE = "approve"
    """Approve plans that others made."""
    CHANGE_POLICY = "change_policy"
    """Adopt a policy, and approve one that others want to adopt."""


def raw_key(text: str) -> bytes:
    """The 32 bytes of a public key from its text. Raises `ValueError`."""
    try:
        raw = base64.b64decode(text.removeprefix(PUBLIC_KEY), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not text.startswith(PUBLIC_KEY) or len(raw) != 32:
        raise ValueError(f"must be a public key as `treasury keys new NAME` prints it: {PUBLIC_KEY}...")
    return raw


def _public_key(text: str) -> str:
    return PUBLIC_KEY + base64.b64encode(raw_key(text.strip())).decode()


class Person(PolicyTable):
    """One person of the list."""

    keys: tuple[Annotated[str, AfterValidator(_public_key)], ...] = ()
    """Public keys, as `treasury keys new` prints them. One that is taken out is revoked."""
    os_users: tuple[str, ...] = ()
    """Names of the operating system's users that this person works as."""
    may: tuple[Right, ...]
    """Any of make, approve and change_policy."""


@dataclass(frozen=True)
class Maker:
    """Who made a plan."""

    name: str
    """The listed person, by a key or by the OS user; else the OS user."""
    os_user: str
    is_listed: bool = False
    is_signed: bool = False
    key: str = ""
    """The public key of the signature, where it is kept: it stays, whatever its owner is called later."""


@dataclass(frozen=True)
class People:
    """The people of a policy; nobody where names that are typed count."""

    listed: Mapping[str, Person] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.listed)

    def with_key(self, key: str) -> str | None:
        """The person whose public key this is."""
        return next((name for name, person in self.listed.items() if key in person.keys), None)

    def with_os_user(self, os_user: str) -> str | None:
        """The person who works as this user of the operating system."""
        return next((name for name, person in self.listed.items() if os_user in person.os_users), None)

    def may(self, name: str, right: Right) -> bool:
        """Tell whether a listed person may do this."""
        return name in self.listed and right in self.listed[name].may

    def with_right(self, right: Right) -> list[str]:
        """The people who may do this. Approving and changing policy take a key."""
        keyless = right is Right.MAKE
        return [name for name, person in self.listed.items() if right in person.may and (keyless or person.keys)]

    def maker(self, os_user: str, signed_by: str | None = None) -> Maker:
        """Who makes a plan: the person who signed it, else the one who works as this OS user, else that user."""
        name = signed_by or self.with_os_user(os_user)
        return Maker(name or os_user, os_user, name is not None, signed_by is not None)

    def needed(self, asked: int, maker: Maker, right: Right = Right.APPROVE) -> int:
        """How many approvals a plan needs of which the policy asks so many.

        A maker who is not on the list needs one more, at most as many as there are people to give them.
        """
        if not asked or not self or maker.is_listed:
            return asked
        return max(asked, min(asked + 1, len(self.with_right(right))))

    def missing(self, needed: int, maker: Maker, right: Right = Right.APPROVE) -> str | None:
        """Why a plan of this maker cannot get its approvals; None when it can."""
        if not self or not needed:
            return None
        others = [name for name in self.with_right(right) if name != maker.name]
        if len(others) >= needed:
            return None
        have = ", ".join(others) or "nobody"
        return (
            f"it needs {count_of(needed, 'approval')} of people besides {maker.name} who may {right} and have a key, "
            f"and the policy lists {len(others)} ({have}): {needed - len(others)} more must be listed under [people]"
        )

    def problems(self) -> Iterator[str]:
        """Yield what no list may have: names that look the same, a key or an OS user of two people."""
        looks: dict[str, str] = {}
        owners: dict[tuple[str, str], str] = {}
        for name, person in self.listed.items():
            if not (look := as_it_looks(name)) or not is_clean(name):
                yield f"people: {name!r} is no name"
            elif len(name) > MAX_NAME:
                yield f"people: {name[:40]!r}... has {len(name)} characters, and a name may have {MAX_NAME}"
            elif look in looks:
                yield f"people.{name}: looks like {looks[look]}; give each person a name that cannot be mistaken"
            looks[look] = name
            for what, value in [("keys", key) for key in person.keys] + [
                ("os_users", each) for each in person.os_users
            ]:
                if owners.setdefault((what, value), name) != name:
                    yield f"people.{name}.{what}: is {owners[what, value]}'s, too; nobody can tell the two apart"


def words_of(text: str) -> str:
    """Return a name, or a reason, that a person gave, on one line.

    Raises `InputError` for characters that nobody sees, or that steer a terminal: what is read of it must be all of it.
    """
    if found := UNSAFE.search(said := " ".join(text.split())):
        shown = f"U+{ord(found[0]):04X}"
        raise InputError(f"a name or a reason holds a character that cannot be shown ({shown}): write it without")
    return said


def names_somebody(text: str) -> bool:
    """Tell whether a text names a person: it has letters or digits that an eye sees.

    Raises `InputError` for one that is longer than the ledger keeps a name.
    """
    if len(text) > MAX_NAME:
        raise InputError(
            f"a person's name may have {MAX_NAME} characters, and this one has {len(text)}: {text[:40]}..."
        )
    return bool(as_it_looks(text))


def same_person(one: str, other: str) -> bool:
    """Tell whether two typed names are one person's, as an eye reads them."""
    return as_it_looks(one) == as_it_looks(other)
