"""Provisioning: looks card users up, creates those that are absent, refreshes the KYC links of the others."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treasury.concurrency.turns import run_concurrently
from treasury.errors import InvalidSheet, NotConnected, OutcomeUnknown, Refused
from treasury.files import write_json
from treasury.ledger.seen_card_users import saw_card_user
from treasury.ledger.snapshots import keep_snapshot, snapshot_of
from treasury.masking import known, mask_text
from treasury.payments.desk import Desk
from treasury.provider.card_users import (
    KYC_STATUS,
    PASSED,
    CardUserRecord,
    ChangeCardUserEmail,
    CreateCardUser,
    CreateCardUserWithKycLink,
    KycLink,
    QueryCardUser,
    UploadKyc,
)
from treasury.provider.client import may_pass
from treasury.provider.refusals import ACCOUNT_TROUBLE, says_account_trouble
from treasury.reports.refused import write_refused
from treasury.reports.spreadsheets import PlainBook
from treasury.sheets.card_users_sheet import LAYOUT, CardUserRow, read_card_users
from treasury.sheets.headers import read_mappings
from treasury.sheets.reading import Sheet
from treasury.sheets.writing import write_csv
from treasury.texts import cut_text

LOG = logging.getLogger("treasury")

COLUMNS = ("user_xid", "outcome", "email", "user_id", "kyc_status", "kyc", "kyc_level", "link", "reason")
"""Of `card_users.csv` and its workbook; `email`: as the sheet has it, `kyc`: `kyc_status` in words."""

WIDTHS = {"user_xid": 18, "email": 30, "user_id": 18, "kyc": 20, "link": 60, "reason": 60}

BAD_OUTCOMES = ("rejected", "unknown")

DEFAULT_LEVEL = "LEVEL-1"
"""The level of a link that names none (document, endpoint 9)."""

WITH_IMAGES = 4
"""Users at once whose images are in memory: those of one may take 100 MB."""

HANDED_IN = ("1", "2", PASSED)
"""`kyc_status` of a user whose identity data the service has."""

OTHER_EMAIL = (
    "this user has another e-mail at the service than in this sheet, and keeps it; if the sheet is right, "
    "treasury provision FILE --update changes it"
)


@dataclass(frozen=True)
class FoundUser:
    """A card user of a sheet, as the service knows it."""

    user_xid: str
    known: str
    """`existing`, `absent`, or `unknown` where it could not be asked."""
    said: str
    """A sentence for people: how the service knows the user, and what provisioning would do."""


def provision_users(desk: Desk, file: Path, sheet: str | None = None, *, update: bool = False) -> list[dict[str, Any]]:
    """Make sure that every card user of a file exists and can prove identity; one result a row, in the file's order.

    `sheet`: which one of a workbook, `update`: whether e-mails are changed to those of the file; here and below.
    Run again, it finds the same users. Raises `InvalidSheet`.
    """
    rows = card_users_of(desk, file, sheet)
    most = WITH_IMAGES if any(row.identity is not None for row in rows) else desk.in_flight
    return run_concurrently(lambda row: provision_user(desk, row, update=update), rows, most)


def card_users_of(desk: Desk, file: Path, sheet: str | None = None) -> Sheet[CardUserRow]:
    """The card users of a file, by what people confirmed of its headers. Raises `InvalidSheet`."""
    return read_card_users(file, sheet=sheet, mappings=read_mappings(desk.settings.home))


def look_up_users(desk: Desk, file: Path, sheet: str | None = None, out: Path | None = None) -> dict[str, str]:
    """User -> existing, absent, or unknown when it could not be asked.

    Raises `InvalidSheet`; the sheet then comes back corrected in `out`.
    """

    try:
        rows = card_users_of(desk, file, sheet)
    except InvalidSheet as error:
        write_refused(out or desk.settings.run_folder("card-users"), file, error, LAYOUT, sheet)
        raise
    for note in rows.notes:
        LOG.info("card users: %s", note)
    return {each.user_xid: each.known for each in look_at_users(desk, rows)}


def look_at_users(desk: Desk, users: Sheet[CardUserRow], *, update: bool = False) -> list[FoundUser]:
    """Ask about each user of a sheet, in its order; nobody is created, and no link is asked for."""

    def look_at(row: CardUserRow) -> FoundUser:
        try:
            user = find_card_user(desk, row.user_xid)
        except (Refused, NotConnected, OutcomeUnknown) as error:
            return FoundUser(row.user_xid, "unknown", _trouble(row, "unknown", str(error))["reason"])
        if user is None:
            how = "with a KYC link" if row.identity is None else "with its identity data"
            return FoundUser(row.user_xid, "absent", f"would be created {how}")
        said = "its e-mail would be changed to the sheet's" if update else OTHER_EMAIL
        other = f"; {said}" if _is_other(row, user) else ""
        return FoundUser(row.user_xid, "existing", f"exists, KYC {_in_words(user.kyc_status)}{other}")

    return desk.run_concurrently(look_at, users)


def create_or_link_users(
    desk: Desk, file: Path, found: Mapping[str, str], sheet: str | None = None, *, update: bool = False
) -> dict[str, str]:
    """User -> outcome. Results with links stay in the desk until `write_provisioned` takes them.

    `found`: the result of `look_up_users`. Each user is looked up again right before it is created, so that a repeated
    call creates nobody twice.
    """
    results = provision_users(desk, file, sheet, update=update)
    counts = Counter(found.get(str(each["user_xid"]), "not looked up") for each in results)
    LOG.info("card users: %s", ", ".join(f"{count} {known}" for known, count in sorted(counts.items())))
    desk.provisioned[str(file)] = results
    return {str(result["user_xid"]): str(result["outcome"]) for result in results}


def write_provisioned(
    desk: Desk,
    file: Path,
    provisioned: Mapping[str, str],
    out: Path | None,
    sheet: str | None = None,
    *,
    update: bool = False,
) -> Mapping[str, Any]:
    """Write the results of `create_or_link_users`. In a different process the links are asked for again."""
    results = desk.provisioned.pop(str(file), None)
    if results is None or {str(each["user_xid"]) for each in results} != provisioned.keys():
        results = provision_users(desk, file, sheet, update=update)
    return write_users(desk, results, out)


def provision_user(desk: Desk, row: CardUserRow, *, update: bool = False) -> dict[str, Any]:
    """Look one card user up, and create it when it does not exist; see to the e-mail and identity of one who does."""
    try:
        known = find_card_user(desk, row.user_xid)
    except (Refused, NotConnected, OutcomeUnknown) as error:
        outcome = _outcome(error)
        hint = NO_SUCH_USER if outcome == "rejected" else AGAIN
        if isinstance(error, Refused) and says_account_trouble(error):  # it is about us, not about the user
            hint = f"; look at {ACCOUNT_TROUBLE[str(error.code)]}, then run it again"
        return _trouble(row, outcome, f"{error}{hint}")
    try:
        return _new(desk, row, update=update) if known is None else _existing(desk, row, known, update=update)
    except OSError as error:
        return _trouble(row, "rejected", f"an image cannot be read: {error}")
    except (Refused, NotConnected, OutcomeUnknown) as error:
        outcome = _outcome(error)
        return _trouble(row, outcome, f"{error}{'' if outcome == 'rejected' else AGAIN}")


AGAIN = "; run it again: each user is looked up first, and nobody is created twice"
NO_SUCH_USER = "; if that says that there is no such user, treasury doctor --prove proposes no_such_user"
SYSTEM_ERROR = "500"
"""The code of a service that could not answer, whatever its HTTP status (public fact 3)."""


def _outcome(error: Exception) -> str:
    """The outcome of a user about whom a question or request failed: a service that is busy rejects nobody."""
    is_busy = may_pass(error) or (isinstance(error, Refused) and error.code == SYSTEM_ERROR)
    return "unknown" if is_busy else "rejected"


def _new(desk: Desk, row: CardUserRow, *, update: bool) -> dict[str, Any]:
    try:
        created = _create(desk, row)
    except Refused:
        found = find_card_user(desk, row.user_xid)
        if found is None:
            raise
        return _existing(desk, row, found, update=update)  # Race: another start created it since it was looked up
    saw_card_user(desk.ledger, row.user_xid, created)  # before its link, which may fail: every night asks about it
    # Creation takes no level: another one than the default is asked for with its own link.
    is_other = row.level_name not in (None, DEFAULT_LEVEL)
    is_asked = row.identity is None and (is_other or created.link is None)
    return _result(row, "created", created, _link(desk, row) if is_asked else None)


def _existing(desk: Desk, row: CardUserRow, user: CardUserRecord, *, update: bool) -> dict[str, Any]:
    """See to a user who exists: e-mail, then identity data, else a link for one who still needs it."""
    saw_card_user(desk.ledger, row.user_xid, user)  # whatever else fails: every night asks about it
    outcome = "existing"
    if update and _is_other(row, user):
        if user.user_id is None:
            return _trouble(row, "rejected", "the service does not say the user's id, so its e-mail is not changed")
        changed = desk.client.send(ChangeCardUserEmail(user_id=user.user_id, email=row.email))
        if not changed.success:
            return _trouble(row, "rejected", "the service did not change the e-mail")
        user, outcome = user.model_copy(update={"email": row.email}), "updated"
    if row.identity is not None and user.kyc_status not in HANDED_IN:
        handed = row.with_images()
        if not _was_handed_in(desk, row, handed):
            # The document takes no selfie here (endpoint 11).
            document = {name: value for name, value in handed["document"].items() if name != "face"}
            sent = desk.client.send(UploadKyc(user_xid=row.user_xid, **{**handed, "document": document}))
            _keep_handed_in(desk, row, handed)
            user = user.model_copy(update={"kyc_status": sent.kyc_status})
            saw_card_user(desk.ledger, row.user_xid, user)
            return _result(row, "submitted", user, None)
    link = None if _has_passed(row, user) or row.identity is not None else _link(desk, row)
    return _result(row, outcome, user, link)


def _was_handed_in(desk: Desk, row: CardUserRow, handed: Mapping[str, Any]) -> bool:
    """Tell whether this very identity data was sent for this user before."""
    kept = snapshot_of(desk.ledger, f"identity {row.user_xid}")  # no run key holds a space
    return kept is not None and kept["handed_in"] == desk.ledger.key.keyed_hash(handed)


def _keep_handed_in(desk: Desk, row: CardUserRow, handed: Mapping[str, Any]) -> None:
    content = {"plan_sha256": None, "handed_in": desk.ledger.key.keyed_hash(handed)}
    keep_snapshot(desk.ledger, f"identity {row.user_xid}", None, content)


def _has_passed(row: CardUserRow, user: CardUserRecord) -> bool:
    """Tell whether a user needs no link: the identity check was passed, at the level that the sheet asks for.

    A level that ends in no digit says nothing, and only the default one is taken for passed then.
    """
    asked, has = ((level or DEFAULT_LEVEL)[-1:] for level in (row.level_name, user.kyc_level))
    return user.kyc_status == PASSED and (has >= asked if has.isdecimal() else row.level_name in (None, DEFAULT_LEVEL))


def _link(desk: Desk, row: CardUserRow) -> str:
    """A new link for a user's identity check. Raises as `Client.send` does; an answer without one is no answer."""
    asked = KycLink(user_xid=row.user_xid, level_name=row.level_name)
    link: str | None = desk.client.send(asked).link
    if link is None:
        raise OutcomeUnknown(asked.operation_name(), "the service answered no link")
    return link


def find_card_user(desk: Desk, user_xid: str) -> CardUserRecord | None:
    """The card user as the service shows it; None when it says that there is none. Raises as `Client.read` does."""
    service = desk.account.rules
    try:
        found = desk.client.read(QueryCardUser(user_xid=user_xid))
    except Refused as refusal:
        if service.says_no_such_user(refusal):
            return None
        raise
    return None if service.says_no_such_user(found) else found


def _create(desk: Desk, row: CardUserRow) -> CardUserRecord:
    named = {"email": row.email, "user_xid": row.user_xid, "user_name": row.user_name}
    try:
        if row.identity is not None:
            handed = row.with_images()
            created = desk.client.send(CreateCardUser(**named, **handed))
            _keep_handed_in(desk, row, handed)
            return created
        return desk.client.send(CreateCardUserWithKycLink(**named))
    except OutcomeUnknown:
        found = find_card_user(desk, row.user_xid)
        if found is None:
            raise
        return found


def _result(row: CardUserRow, outcome: str, user: CardUserRecord, link: str | None) -> dict[str, Any]:
    return {
        "user_xid": row.user_xid,
        "outcome": outcome,
        "email": row.email,
        "user_id": user.user_id,
        "kyc_status": user.kyc_status,
        "kyc": _in_words(user.kyc_status),
        "kyc_level": user.kyc_level,
        "link": link or user.link,
        "reason": OTHER_EMAIL if _is_other(row, user) else None,
    }


def _in_words(kyc_status: str | None) -> str | None:
    return KYC_STATUS.get(str(kyc_status), kyc_status)


def _is_other(row: CardUserRow, user: CardUserRecord) -> bool:
    """Return True where the service says an e-mail of this user, and not the sheet's."""
    return (user.email or row.email).casefold() != row.email.casefold()


def _trouble(row: CardUserRow, outcome: str, why: str) -> dict[str, Any]:
    said = mask_text(cut_text(why), known(_personal(row)), (row.user_xid,))
    return {**dict.fromkeys(COLUMNS), "user_xid": row.user_xid, "outcome": outcome, "email": row.email, "reason": said}


def _personal(row: CardUserRow) -> list[str]:
    identity = (row.identity or {}).values()
    return [row.email, row.user_name or "", *(value for members in identity for value in members.values())]


def write_users(desk: Desk, results: Sequence[Mapping[str, Any]], out: Path | None) -> Mapping[str, Any]:
    """Write `card_users.csv`, its workbook (both with the links: for their owner alone) and `run.json`.

    Returns the summary.
    """
    out = out or desk.settings.run_folder("card-users")
    counts = Counter(result["outcome"] for result in results)
    files = [str(out / name) for name in ("card_users.csv", "card_users.xlsx", "run.json")]
    summary = {
        "kind": "provisioning",
        "users": len(results),
        "counts": dict(sorted(counts.items())),
        "other_email": [each["user_xid"] for each in results if each["reason"] == OTHER_EMAIL],
        "files": files,
    }
    book = PlainBook(out / "card_users.xlsx")
    write_csv(out / "card_users.csv", COLUMNS, book.over("Card users", COLUMNS, results, WIDTHS))
    book.finish()
    write_json(out / "run.json", summary)
    return summary
