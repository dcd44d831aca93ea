"""Make sure that every card user of a spreadsheet exists and has a KYC link."""

from collections.abc import Mapping
from typing import Any

from prefect import flow

from tasks.provisioning import provision_users


@flow(name="provision-card-users")
def provision_card_users(file: str, out: str | None = None, account: str | None = None) -> Mapping[str, Any]:
    """Look up each user, create those who do not exist, refresh the link of those who do.

    Args:
        file: the card users spreadsheet, CSV or XLSX (columns: `data/README.md`).
        out: folder for `card_users.csv`, which holds the links, and `run.json`; `runs/card-users` when left out.
        account: name of the Partner Account block, where no account is configured otherwise.

    """
    return provision_users(file, out, account)


if __name__ == "__main__":
    from flows.commands import run_command

    run_command("provision")
