"""`treasury provision`."""

from pathlib import Path

from flows.commands.common import DONE, TROUBLE, configured_desk, say_files, summary_of
from flows.commands.prefect_server import prefect_api
from treasury.errors import InvalidSheet
from treasury.runs.provisioning import BAD_OUTCOMES
from treasury.sheets.card_users import read_card_users
from treasury.sheets.writing import write_errors


def provision(file: Path, /, *, out: Path | None = None) -> int:
    """Set up the card users of a spreadsheet, each with a KYC link.

    Run again, it finds the same users and refreshes their links.

    Parameters
    ----------
    file:
        The card users, CSV or XLSX (columns: data/README.md).
    out:
        Folder for the results.

    """
    desk = configured_desk()
    folder = (out or desk.settings.run_folder("card-users")).absolute()
    try:
        read_card_users(file)
    except InvalidSheet as error:
        write_errors(folder / "errors.csv", error)
        say_files([folder / "errors.csv"])
        raise
    with prefect_api("flows.provision_card_users"):
        from flows.provision_card_users import provision_card_users

        summary = summary_of(lambda: provision_card_users(str(file.absolute()), str(folder)))
    say_files(summary["files"])
    print(", ".join(f"{count} {outcome}" for outcome, count in summary["counts"].items()))
    return TROUBLE if any(summary["counts"].get(outcome) for outcome in BAD_OUTCOMES) else DONE
