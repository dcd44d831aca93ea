"""The entrance: the `treasury` command. Each command is imported only when it runs, so `--help` stays quick."""

import gc
import logging
import shlex
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import filterfalse
from typing import NoReturn

from cyclopts import App, CycloptsError

from flows.commands.surroundings import complete_streams, go_past_proxies, lose_unwritten
from treasury.errors import (
    AlreadyServed,
    ApprovalNeeded,
    CannotGoOn,
    ConfigurationError,
    InputError,
    NotTrusted,
    RecoveryRuns,
    Refused,
    RunHeld,
    Stopped,
    TreasuryError,
    WaitingForYes,
)
from treasury.files import as_ours
from treasury.private_files import be_private
from treasury.texts import is_whole

HELP = """Automate a merchant's treasury: no payment is sent twice, none is lost, and every morning a report says so.

Exit codes: 0 done; 1 unexpected; 2 bad input, nothing sent; 3 plan written, waiting for a yes or an approval; 4
finished, with rows rejected, failed, closed, cancelled, held, unknown or not sent; 5 reconciliation found breaks or
could not read everything; 6 another process holds this run.
"""

COMMANDS = {
    "demo": ("demonstration:demo", "The whole story on the sandbox, from nothing."),
    "sandbox": ("sandbox:sandbox", "Start a stand-in for the service, for rehearsals and tests."),
    "connect": ("account:connect", "Save which account to work with."),
    "template": ("templates:template", "Write an empty sheet to fill in."),
    "pay": ("payouts:pay", "Pay the beneficiaries of a spreadsheet."),
    "withdraw": ("payouts:withdraw", "Withdraw crypto assets to the addresses of a spreadsheet."),
    "scan-pay": ("payouts:scan_pay", "Pay the QR codes of a spreadsheet."),
    "policy": ("policies:policy", "The policy in force: adopt, show or check one."),
    "keys": ("approving:keys", "Keys of people who approve: make a pair, or another one."),
    "approvals": ("approving:approvals", "List the plans that wait for approvals."),
    "approve": ("approving:approve", "Approve a plan that waits."),
    "reject": ("control:reject", "Reject a plan that waits."),
    "rebalance": ("rebalancing:rebalance", "Bring every asset back to its target."),
    "provision": ("provisioning:provision", "Set up card users with KYC links."),
    "addresses": ("deposit_addresses:addresses", "Issue deposit addresses, one for each customer and asset."),
    "collect": ("collecting:collect", "Make invoices, and see what was paid."),
    "reconcile": ("reconciliation:reconcile", "Ask what became of every order, and report."),
    "report": ("reconciliation:report", "Write a month of the balance accounts, with entries for the books."),
    "accept": ("reconciliation:accept", "Accept a break of the last reconciliation."),
    "status": ("status:status", "Was everything done, and what does a person have to do?"),
    "balance": ("status:balance", "Show every watched balance, as the service shows it now."),
    "runs": ("reading:runs", "List the runs of the ledger."),
    "results": ("reading:results", "Write the results of a run as they are now; nothing is sent."),
    "payees": ("reading:payees", "List everybody whom payouts name."),
    "payee": ("reading:payee", "Show everything that was paid to one payee."),
    "show": ("reading:show", "Show an order or a run of the ledger."),
    "cancel": ("control:cancel", "Cancel what never left: it never leaves."),
    "release": ("control:release", "Let held orders be sent at the next start of their run."),
    "resolve": ("control:resolve", "Tell the ledger what a person found out about an order."),
    "stop": ("control:stop", "Stop all sending, or lift the stop."),
    "backup": ("keeping:backup", "Write ledger, key and tokens into one file."),
    "restore": ("keeping:restore", "Restore a backup into an empty home."),
    "doctor": ("health:doctor", "What is configured, reachable and safe, line by line."),
    "call": ("calling:call", "Send one operation of the interface."),
    "check-notification": ("calling:check_notification", "Check that the platform signed a notification."),
    "listen": ("listening:listen", "Receive the platform's notifications."),
    "alarms": ("alarms:alarms", "Make the alarms on the Prefect server in use."),
    "serve": ("serving:serve", "Prefect's dashboard, the deployments and their schedules."),
}

REMEDIES: Sequence[tuple[type[TreasuryError], int]] = (
    (RunHeld, 6),
    (AlreadyServed, 6),
    (ApprovalNeeded, 3),
    (RecoveryRuns, 3),
    (WaitingForYes, 3),
    (CannotGoOn, 1),
    (InputError, 2),
    (ConfigurationError, 2),
    (NotTrusted, 2),
    (Stopped, 4),
    (Refused, 4),
)
"""Error -> exit code; anything else is 1."""


def build_app() -> App:
    """The command line."""
    app = App(
        name="treasury", help=HELP, version=_version, result_action="return_value", suppress_keyboard_interrupt=False
    )
    for name, (place, help_text) in COMMANDS.items():
        app.command(f"flows.commands.{place}", name=name, help=help_text)
    return app


def _version() -> str:
    from importlib.metadata import version

    return version("treasury-flows")


def run(arguments: Sequence[str]) -> int:
    """Run a command; its exit code. What it and its children write is readable by its owner alone."""
    be_private()
    go_past_proxies()
    show_warnings()
    if broken := list(filterfalse(is_whole, arguments)):
        remedy = "write it so, or without accents"
        if sys.getfilesystemencoding() != "utf-8":  # it may be one, and Python was told to read no UTF-8
            remedy = "this shell's settings allow none: export PYTHONUTF8=1"
        print(f"treasury: {broken[0]!r} is no text in UTF-8: {remedy}", file=sys.stderr)
        return 2
    try:
        code = build_app()(list(arguments), exit_on_error=False, print_error=False)
        sys.stdout.flush()  # here, where a closed pipe is handled below
    except CycloptsError as error:
        print(f"treasury: {error} (`treasury --help` shows the way)", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        command = shlex.join(["treasury", *arguments])
        with suppress(OSError):  # the terminal may be gone
            print(f"treasury: interrupted, and nothing is lost. To go on: {command}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader closed the pipe, as in `treasury runs | head`
        return 1
    except Exception as error:
        return _say(error)
    return code if isinstance(code, int) else 0


def _say(error: Exception) -> int:
    """Print an error in one line, or an unexpected one whole; the exit code."""
    try:
        error = as_ours(error)
    except Exception:
        traceback.print_exc()
        return 1
    for stream, text in ((sys.stdout, ""), (sys.stderr, f"treasury: {error}\n")):  # in this sequence in one file, too
        with suppress(OSError):  # that may be on the disk that is full
            stream.write(text)
            stream.flush()
    return next((code for kind, code in REMEDIES if isinstance(error, kind)), 1)


class _OneLine(logging.Formatter):
    """Formats a warning as one line without time, name or traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"treasury: {record.getMessage()}"


def show_warnings() -> None:
    """Print the warnings of the logger `treasury` on the terminal. Done once in a process."""
    logging.getLogger("stamina").setLevel(logging.ERROR)  # stamina would log each retry; only the last failure matters
    log = logging.getLogger("treasury")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setLevel(logging.WARNING)
        handler.setFormatter(_OneLine())
        log.addHandler(handler)
        log.propagate = False  # Prefect would print it again in its own format


def main() -> None:
    """The console script."""
    run_alone(sys.argv[1:])


def run_command(name: str) -> None:
    """`python -m flows.<flow>` is the command that starts this flow."""
    run_alone([name, *sys.argv[1:]])


def run_alone(arguments: Sequence[str]) -> NoReturn:
    """Run a command in a process that is its alone, and end it."""
    complete_streams()
    gc.set_threshold(20_000, 20, 50)  # looking for garbage took a fifth of a command's start
    for ends in (signal.SIGTERM, signal.SIGHUP):  # they end a command in order, as Ctrl-C does
        if signal.getsignal(ends) is not signal.SIG_IGN:  # `nohup` ignores one
            signal.signal(ends, signal.default_int_handler)
    code = run(arguments)
    lose_unwritten()
    sys.exit(code)
