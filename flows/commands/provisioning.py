"""`treasury provision`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from flows.commands.common import DONE, TROUBLE, OutFolder, asking_for_headers, configured_desk, say_files, summary_of
from flows.commands.prefect_server import prefect_api
from treasury.cards.provisioning import BAD_OUTCOMES, OTHER_EMAIL, FoundUser, card_users_of, look_at_users
from treasury.errors import InvalidSheet
from treasury.reports.refused import write_refused
from treasury.sheets.card_users_sheet import LAYOUT


def provision(
    file: Path,
    /,
    *,
    out: OutFolder | None = None,
    sheet: str | None = None,
    update: bool = False,
    dry_run: bool = False,
) -> int:
    """Set up the card users of a spreadsheet, each with a KYC link or with identity data.

    Run again, it finds the same users, and asks for a link for those who still need one.

    Parameters
    ----------
    file:
        The card users, CSV or XLSX (columns: data/README.md).
    out:
        Folder for the results.
    sheet:
        The sheet that is meant, where a workbook has several.
    update:
        Change e-mails at the service to those of the sheet.
    dry_run:
        Say who would be created and who exists; create nobody, ask for no link, write nothing.

    """
    desk = configured_desk()
    folder = (out or desk.settings.run_folder("card-users")).absolute()
    try:
        users = asking_for_headers(lambda: card_users_of(desk, file, sheet))
    except InvalidSheet as error:
        say_files(write_refused(folder, file, error, LAYOUT, sheet))
        raise
    for note in users.notes:
        print(f"  {note}")
    if dry_run:
        return _preview(look_at_users(desk, users, update=update))
    with prefect_api("flows.provision_card_users"):
        from flows.provision_card_users import provision_card_users

        path = str(file.absolute())
        summary = summary_of(lambda: provision_card_users(path, str(folder), sheet=sheet, update=update))
    for user in summary["other_email"]:
        print(f"  {user}: {OTHER_EMAIL}")
    say_files(summary["files"])
    print(", ".join(f"{count} {outcome}" for outcome, count in summary["counts"].items()))
    return TROUBLE if any(summary["counts"].get(outcome) for outcome in BAD_OUTCOMES) else DONE


def _preview(users: Sequence[FoundUser]) -> int:
    for user in users:
        print(f"  {user.user_xid}: {user.said}")
    print(", ".join(f"{count} {known}" for known, count in sorted(Counter(user.known for user in users).items())))
    return TROUBLE if any(user.known == "unknown" for user in users) else DONE
