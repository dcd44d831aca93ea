"""The card users sheet: one row a cardholder to set up with a KYC link, with the images that it names."""

import base64
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from treasury.errors import InvalidFields, Problem
from treasury.provider.card_users import CreateCardUser, CreateCardUserWithKycLink, KycLink
from treasury.provider.operation import Operation
from treasury.sheets.headers import Mappings
from treasury.sheets.identifiers import email as judge_email
from treasury.sheets.identifiers import faults
from treasury.sheets.reading import Layout, Row, Sheet, read_sheet

MAX_BYTES = 5_000_000
"""Of one image. The document names no limit; a photograph of a card has one to three million."""

SIGNATURES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
"""How a file of each accepted type begins (document, endpoint 7)."""

PLACEHOLDER = "data:image/png;base64,AAAA"
"""Stands for an image while its row is judged."""


def fault_of_image(file: Path) -> str | None:
    """Why a file is no image that can be sent, in words; None for one that can."""
    try:
        with file.open("rb") as opened:
            begins, size = opened.read(8), file.stat().st_size
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    if _type_of(begins) is None:
        return "is no JPEG and no PNG"
    return f"has more than {MAX_BYTES // 1_000_000} MB" if size > MAX_BYTES else None


def read_image(file: Path) -> str:
    """The image as it travels, a data URI. Raises `OSError` for one that cannot be read any more."""
    content = file.read_bytes()
    kind = _type_of(content)
    if kind is None or len(content) > MAX_BYTES:
        raise OSError(f"{file.name} is no image that can be sent any more")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _type_of(content: bytes) -> str | None:
    return next((kind for begins, kind in SIGNATURES.items() if content.startswith(begins)), None)


IDENTITY = {
    **{name: ("individual", name) for name in ("first_name", "last_name", "date_of_birth", "occupation")},
    "annual_income": ("individual", "annual_income"),
    **{
        f"document_{name}": ("document", name)
        for name in ("type", "number", "country", "expiry_date", "front", "back", "face")
    },
    **{f"address_{name}": ("address", name) for name in ("country", "city", "post_code", "details")},
}
"""Column -> the object and the field of `CreateCardUser` that it fills."""

IMAGES = ("document_front", "document_back", "document_face")
"""Columns that name a file of an image, beside the sheet unless its whole path is given."""

LAYOUT = Layout(
    key="user_xid",
    required=("email",),
    optional=("user_name", "level_name", *IDENTITY),
    identifiers=frozenset(("document_number", "document_type", "address_post_code")),
    synonyms={
        **dict.fromkeys(("xid", "external_id", "external_user_id"), "user_xid"),
        **dict.fromkeys(("mail", "e_mail_address", "email_address"), "email"),
        **dict.fromkeys(("nickname", "nick_name"), "user_name"),
    },
)

OPERATIONS: tuple[tuple[type[Operation[Any]], tuple[str, ...]], ...] = (
    (CreateCardUserWithKycLink, ("email", "user_name")),
    (KycLink, ("level_name",)),
)
"""Operations that are sent for a card user, and the columns that go into each besides `user_xid`."""


@dataclass(frozen=True)
class CardUserRow:
    """One card user as the sheet asks for it."""

    line: int
    user_xid: str
    email: str = field(repr=False)
    user_name: str | None = field(default=None, repr=False)
    level_name: str | None = None
    """`LEVEL-1` or `LEVEL-2`; None leaves it to the service, whose default is `LEVEL-1`."""
    identity: Mapping[str, Mapping[str, str]] | None = field(default=None, repr=False)
    """`individual`, `document` and `address` as they travel, but for images, which are named; None without any."""
    folder: Path = Path()
    """The folder of images that are named without one."""

    def with_images(self) -> dict[str, dict[str, str]]:
        """Return `identity` as it travels, images read now. Raises `OSError` for one that cannot be."""
        found = {name: dict(members) for name, members in (self.identity or {}).items()}
        for name in (IDENTITY[column][1] for column in IMAGES):
            if name in found.get("document", {}):
                found["document"][name] = read_image(self.folder / found["document"][name])
        return found


def read_card_users(path: Path, *, sheet: str | None = None, mappings: Mappings = Mappings()) -> Sheet[CardUserRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name.

    Raises `InvalidSheet` with every problem of every row. What is to be said about it and is no problem is in `notes`.
    """
    rows = read_sheet(path, LAYOUT, partial(_card_user_row, folder=path.parent), sheet, mappings=mappings)
    by_email: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_email[row.email.casefold()].append(row.user_xid)
    rows.notes += tuple(f"{' and '.join(users)} have one e-mail" for users in by_email.values() if len(users) > 1)
    return rows


def _card_user_row(row: Row, folder: Path) -> CardUserRow:
    problems: list[Problem] = []
    fields: dict[str, Any] = {}
    user_xid = row.ref or "0"  # a missing user_xid is a problem already; the other columns are still judged
    for operation, columns in OPERATIONS:
        try:
            given = {column: row.values.get(column) for column in columns}
            fields |= operation(user_xid=user_xid, **given).body()
        except InvalidFields as error:
            problems += error.problems
    email = row.values.get("email")
    if email is not None:
        problems += faults([("email", email, judge_email)], "")
    identity = _identity(row, folder, problems)
    if problems:
        raise InvalidFields("row", problems)
    return CardUserRow(line=row.line, **fields, identity=identity, folder=folder if identity else Path())


def _identity(row: Row, folder: Path, problems: list[Problem]) -> dict[str, dict[str, str]] | None:
    """The identity data of a row; what is wrong with it is added to the problems, each by its column."""
    given: dict[str, dict[str, str]] = {}
    for column, (name, member) in IDENTITY.items():
        if column in row.values:
            given.setdefault(name, {})[member] = row.values[column]
    if not given:
        return None
    for column in IMAGES:
        if column in row.values and (fault := fault_of_image(folder / row.values[column])) is not None:
            problems.append(Problem(column, fault, code="no_image"))
    shown = {"individual": {}, "document": {}, **given}
    images = {IDENTITY[column][1]: PLACEHOLDER for column in IMAGES if column in row.values}
    try:
        CreateCardUser(user_xid="0", email="a@example.com", **{**shown, "document": {**shown["document"], **images}})
    except InvalidFields as error:
        columns = {f"{name}.{member}": column for column, (name, member) in IDENTITY.items()}
        problems += [replace(each, field=columns.get(each.field, each.field)) for each in error.problems]
    return given
