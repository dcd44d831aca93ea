"""`treasury status` and `treasury balance`."""

import json
from typing import Annotated

from cyclopts import Parameter

from flows.commands.common import DONE, TROUBLE, configured_desk
from flows.commands.deployments import next_jobs
from treasury.texts import count_of


def status(*, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> int:
    """Say whether everything was done: what ran last, what is open, what a person has to do. Asks the service nothing.

    Exit code 4 when a person is needed.

    Parameters
    ----------
    as_json:
        Print it as JSON, for programs.

    """
    from treasury.nights.standing import standing_of

    desk = configured_desk()
    found = standing_of(desk)
    found["scheduled"] = next_jobs(desk.clock.now())
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return TROUBLE if found["needs"] else DONE
    for job in found["jobs"]:
        print(f"last {job['job']}: {job['last']}  {job['run_key']}".rstrip())
    for job in found["scheduled"]:
        print(f"next {job['job']}: {job['next']}, where `treasury serve` runs")
    for currency, amount in found["unexplained"].items():
        print(f"unexplained: {amount} {currency}")
    backup = found["backup"]
    print(
        "last backup: "
        + ("none from this home" if backup is None else f"{backup['last']}, {count_of(backup['days'], 'day')} ago")
    )
    if (restored := found["restored"]) is not None:
        print(f"last restore of a backup: {restored['last']}, {count_of(restored['days'], 'day')} ago")
    for need in found["needs"]:
        print(f"to do: {need}")
    print(f"{len(found['needs'])} to do" if found["needs"] else "nothing needs a person")
    return TROUBLE if found["needs"] else DONE


def balance() -> int:
    """Show every balance that the reports watch, as the service shows it now. Sends nothing that moves money.

    Exit code 4 when one cannot be read.
    """
    from treasury.nights.standing import balances_of

    rows = balances_of(configured_desk())
    for row in rows:
        if row["balance"] is None:
            print(f"{row['currency']}: not read ({row['note']})")
            continue
        held = "" if row["held"] is None else f"  held for orders {row['held']}"
        open_ends = "".join(
            f"  {words} {row[name]}"
            for name, words in (("may_still_debit", "may still be debited"), ("unexplained", "unexplained"))
            if row[name] != "0"
        )
        print(f"{row['currency']}: {row['balance']}{held}{open_ends}")
    print(count_of(len(rows), "balance"))
    return TROUBLE if any(row["balance"] is None for row in rows) else DONE
