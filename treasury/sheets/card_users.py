"""The card users sheet: one row a cardholder to set up with a KYC link."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treasury.errors import InvalidFields, Problem
from treasury.provider.card_users import CreateCardUserWithKycLink, KycLink
from treasury.provider.operation import Operation
from treasury.sheets.identifiers import email as judge_email
from treasury.sheets.identifiers import faults
from treasury.sheets.mappings import Mappings
from treasury.sheets.reading import Layout, Row, Sheet, read_sheet

LAYOUT = Layout(
    key="user_xid",
    required=("email",),
    optional=("user_name", "level_name"),
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
"""What is sent for a card user, and the columns that go into it besides `user_xid`."""


@dataclass(frozen=True)
class CardUserRow:
    """One card user as the sheet asks for it."""

    line: int
    user_xid: str
    email: str = field(repr=False)
    user_name: str | None = field(default=None, repr=False)
    level_name: str | None = None
    """`LEVEL-1` or `LEVEL-2`; None leaves it to the service, whose default is `LEVEL-1`."""


def read_card_users(path: Path, *, sheet: str | None = None, mappings: Mappings = Mappings()) -> Sheet[CardUserRow]:
    """Read the sheet (columns: `data/README.md`), of a workbook the one of this name.

    Raises `InvalidSheet` with every problem of every row. What is to be said about it and is no problem is in `notes`.
    """
    rows = read_sheet(path, LAYOUT, _card_user_row, sheet, mappings=mappings)
    by_email: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_email[row.email.casefold()].append(row.user_xid)
    rows.notes += tuple(f"{' and '.join(users)} have one e-mail" for users in by_email.values() if len(users) > 1)
    return rows


def _card_user_row(row: Row) -> CardUserRow:
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
    if problems:
        raise InvalidFields("row", problems)
    return CardUserRow(line=row.line, **fields)
