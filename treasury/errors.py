"""Errors by what the caller can do about them.

    TreasuryError
    ├── InputError                 fix the input; nothing was sent
    │   ├── InvalidFields          an operation's fields break the interface
    │   ├── InvalidSheet           rows of a spreadsheet do, by row and column
    │   │   ├── InvalidRows        some of its rows do; the others could be sent without them
    │   │   └── UnknownHeaders     a person may say what its columns mean
    │   ├── RunKeyConflict         this run key already stands for other rows
    │   ├── ApprovedAlready        this person approved the plan already
    │   ├── PolicyChanged          another policy is in force than the one it was planned under
    │   ├── LimitExceeded          a limit of the policy would be passed
    │   ├── PlanRejected           a person rejected the plan: change what is wrong, or use another run key
    │   └── Overtaken              what it was planned from changed; plan it again
    ├── ConfigurationError         fix keys, account or settings; nothing was sent
    │   ├── CannotGoOn             see to what it says, and start it again; what left before stands in the ledger
    │   │   ├── DiskFull           free some space
    │   │   ├── NotWritable        see to the folder
    │   │   ├── NotWrittenByUs     the database was changed by hand: restore a backup
    │   │   └── LedgerLost         wait until the ledger is back
    │   │       └── LedgerPutBack  the rows of an earlier state were put into it
    │   ├── WrongAccount           the ledger belongs to another account
    │   └── WrongLedgerKey         the ledger's payloads were written with another key
    ├── RunHeld                    another process holds this run; wait for it
    ├── AlreadyServed              another `treasury serve` is at work
    ├── NeedsAttention             it ran to its end, and a person has to look at what came of it
    ├── ApprovalNeeded             a person has to approve the plan first; nothing was sent
    ├── ChangedByHand              it was changed in the ledger by hand: its next start holds it for a person
    ├── NotJudged                  a new day began before it left: it is judged by its limits at the next start
    ├── NotFunded                  its money is not there and cannot be converted now; nothing of it is sent
    ├── WaitingForYes              a person has to say yes once before a schedule may; nothing was sent
    ├── RecoveryRuns               a policy is being recovered; nothing is sent until then
    ├── Stopped                    somebody stopped all sending; nothing more was sent
    ├── NotConnected               no connection was made, so nothing was sent; try again later
    │   └── NotSentInTime          its signature had grown old before it could leave; sign anew
    ├── Refused                    the service answered with something other than success
    ├── OutcomeUnknown             sent, and no readable answer came back; ask before doing anything
    ├── NotTrusted                 a signature does not verify
    └── IllegalTransition          the ledger does not allow this step for this order

No message holds a secret, a signature or personal data; each error keeps its data as attributes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from treasury.texts import MAX_CODE, approval_command, count_of, cut_text, with_person


class TreasuryError(Exception):
    """Anything this package raises on purpose."""

    summary: Mapping[str, Any] = {}
    """The work of its start before it ended with this error, where that is written: counts by outcome, and files."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Prefect pickles what a flow raises; the default would call the constructor with the message alone.
        return _rebuild, (type(self), self.args, vars(self))


def _rebuild(kind: type["TreasuryError"], args: tuple[Any, ...], state: Mapping[str, Any]) -> "TreasuryError":
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)
    return error


class InputError(TreasuryError):
    """The input is wrong; nothing was sent."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one field: which field, which rule, and the value (masked when personal)."""

    field: str
    rule: str
    value: str | None = None
    code: str = dataclass_field(default="not_valid", compare=False)
    """Stable, for programs."""

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}" + (f" (got {self.value})" if self.value is not None else "")


class InvalidFields(InputError):
    """Fields of an operation break a rule of the interface."""

    def __init__(self, operation: str, problems: Sequence[Problem]) -> None:
        self.operation = operation
        self.problems = tuple(problems)
        super().__init__(f"{operation}: " + "; ".join(str(problem) for problem in self.problems))


@dataclass(frozen=True)
class RowProblem:
    """One thing wrong in one place of a spreadsheet."""

    row: int
    """Line of the file, as a spreadsheet program counts it (from 1); 0 for the file as a whole."""
    row_ref: str | None
    column: str
    rule: str
    value: str | None = None
    code: str = dataclass_field(default="not_valid", compare=False)
    """Stable, for programs: `leading_zero_lost`, `hidden_row`."""

    def __str__(self) -> str:
        who = f" ({self.row_ref})" if self.row_ref else ""
        shown = f" (got {self.value})" if self.value is not None else ""
        place = ", ".join(filter(None, (f"row {self.row}{who}", self.column))) if self.row else "the file"
        return f"{place}: {self.rule}{shown}"


class InvalidSheet(InputError):
    """Rows of a spreadsheet cannot be sent as they stand."""

    def __init__(self, file: str, problems: Sequence[RowProblem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        self.corrected: str | None = None
        """The path of a copy of it that says what is wrong with each row."""
        shown = "\n".join(f"  {problem}" for problem in self.problems[:20])
        more = f"\n  and {len(self.problems) - 20} more" if len(self.problems) > 20 else ""
        super().__init__(f"{file}: {count_of(len(self.problems), 'problem')}, nothing was sent\n{shown}{more}")


class InvalidRows(InvalidSheet):
    """Nothing is wrong with a spreadsheet but some of its rows: the others could be sent without them."""


class UnknownHeaders(InvalidSheet):
    """Nothing is wrong with a spreadsheet but names of columns, each of which can stand for only one other.

    `proposal`: header -> the column that a person may say it means; `headers`: all that the sheet has.
    """

    def __init__(
        self, file: str, problems: Sequence[RowProblem], headers: frozenset[str], proposal: Mapping[str, str]
    ) -> None:
        super().__init__(file, problems)
        self.headers = headers
        self.proposal = proposal


class RunKeyConflict(InputError):
    """A run key that already stands for other rows; `rows` names the changed or added ones."""

    CHANGED = (
        "these rows changed since the run began; put them back as they were: another run key pays them once more "
        "(treasury show says what became of them, treasury cancel ends what never left)"
    )

    def __init__(self, run_key: str, rows: Sequence[str], why: str) -> None:
        self.run_key = run_key
        self.rows = tuple(rows)
        shown = ", ".join(self.rows[:20]) + (f" and {len(self.rows) - 20} more" if len(self.rows) > 20 else "")
        super().__init__(f"run {run_key}: {why}: {shown}")


class ApprovedAlready(InputError):
    """An approval of somebody whose approval of this plan, `plan_sha256`, counts already; it is not recorded again."""

    def __init__(self, run_key: str, person: str, plan_sha256: str) -> None:
        self.plan_sha256 = plan_sha256
        super().__init__(
            f"the approval of run {run_key} by {person} does not count and is not recorded: approved this plan already"
        )


class PolicyChanged(InputError):
    """Another policy is in force than the one that a plan was made, or a run recorded, under."""


class LimitExceeded(InputError):
    """A limit of the policy would be passed; nothing was sent."""


class ConfigurationError(TreasuryError):
    """A key, account or setting is missing or wrong; nothing was sent."""


class CannotGoOn(ConfigurationError):
    """Something outside ended the work on its way; what left before stands in the ledger."""


class NotWrittenByUs(CannotGoOn):
    """The ledger holds a value that this program never writes, so that nobody can say what it was."""

    def __init__(self, value: object, place: str) -> None:
        super().__init__(
            f"the ledger holds {cut_text(str(value), MAX_CODE)!r} as {place}, which this program never writes: "
            "somebody changed the database by hand; find out who did it, and restore a backup from before that"
        )


class DiskFull(CannotGoOn):
    """No more can be written; what left before stands in the ledger."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the disk is full ({why}): free some space and start it again; what was sent stands in the ledger, and "
            "nothing is sent twice"
        )


class NotWritable(CannotGoOn):
    """A file of a home or of results cannot be used; what left before stands in the ledger."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(
            f"{file} cannot be used ({why}): see to it and start it again; what was sent stands in the ledger, and "
            "nothing is sent twice"
        )


class LedgerLost(CannotGoOn):
    """The ledger's database went away, or its file was moved away or replaced, while this process worked."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the ledger was lost ({cut_text(why)}): nothing more was sent; start it again once the ledger is back: "
            "nothing is sent twice"
        )


class LedgerPutBack(LedgerLost):
    """The rows of an earlier state were put into the ledger's tables while this process worked."""

    def __init__(self) -> None:
        super().__init__("it was put back to an earlier state while this program worked")


class WrongAccount(ConfigurationError):
    """The ledger belongs to another account (base URL and partner)."""


class WrongLedgerKey(ConfigurationError):
    """The ledger's payloads were encrypted with another key."""


class RunHeld(TreasuryError):
    """Another process holds this run, or this part of a sweep: its name has a space, as no run key has."""

    def __init__(self, run_key: str, holder: str) -> None:
        self.run_key = run_key
        self.holder = holder
        super().__init__(f"{run_key if ' ' in run_key else f'run {run_key}'} is held by {holder}")


class AlreadyServed(TreasuryError):
    """Another `treasury serve` serves the deployments of this Prefect home."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(f"treasury serve is at work already: {where or 'on this machine'}; nothing was started")


class ApprovalNeeded(TreasuryError):
    """The policy asks for approvals that the plan does not have."""

    def __init__(
        self,
        run_key: str,
        needed: int,
        approved_by: Sequence[str],
        refused: Sequence[str] = (),
        code: str | None = None,
        *,
        is_listed: bool | None = None,
    ) -> None:
        self.run_key = run_key
        self.needed = needed
        self.approved_by = tuple(approved_by)
        self.refused = tuple(refused)
        self.code = code
        has = f"approved by {', '.join(self.approved_by)}" if self.approved_by else "approved by nobody yet"
        why = f"; what does not count: {'; '.join(self.refused)}" if self.refused else ""
        how = f"treasury approvals lists it, treasury show {run_key} prints how"
        if code is not None:
            how = approval_command(run_key, code, is_listed=is_listed)
        super().__init__(
            f"run {run_key} needs {count_of(needed, 'approval')}, {has}{why}; nothing was sent: "
            f"waiting for an approval ({how})"
        )


class PlanRejected(InputError):
    """A person rejected the plan that waited."""

    def __init__(self, run_key: str, person: str, why: str) -> None:
        super().__init__(
            f"the plan of run {run_key} was rejected by {person} ({why}); nothing was sent: change what is "
            "wrong with it and start it again, which proposes a new plan, or use another run key"
        )


class WaitingForYes(TreasuryError):
    """A schedule may not start this before a person said yes to it once under the policy in force."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"nobody said yes to a {kind} under the policy in force yet; nothing was sent: waiting for a yes "
            "(treasury rebalance shows the plan and asks; after that the schedule goes on by itself)"
        )


class RecoveryRuns(TreasuryError):
    """A person asked to recover the policy; until it takes effect nothing that moves money leaves."""

    def __init__(self, person: str, until: str) -> None:
        ends = with_person("treasury policy adopt --recover --cancel --by NAME", is_listed=None)
        super().__init__(
            f"{person} asked to recover the policy: nothing that moves money leaves until it takes effect at {until}; "
            f"nothing was sent ({ends} ends the recovery)"
        )


class ChangedByHand(TreasuryError):
    """An order, or its quote, was to leave and has another checksum than the ledger gave it; nothing left."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"{request_id} was not sent: it, or its quote, was changed in the ledger by hand; start its run again, "
            "which holds it for a person"
        )


class NotJudged(TreasuryError):
    """An order was to leave on a day whose limits it was not judged by; nothing left."""


class NotFunded(TreasuryError):
    """A run needs what is not there and cannot be converted now; nothing of it is sent."""


class Overtaken(InputError):
    """The basis of a plan changed before it was recorded; nothing was recorded: it is to be planned again."""


class NeedsAttention(TreasuryError):
    """A run came to its end, and a person has to look at its results.

    `state` names how it ended; `summary` is what it would have returned.
    """

    def __init__(self, state: str, message: str, summary: Mapping[str, Any]) -> None:
        self.state = state
        self.summary = summary
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is handed to another process."""
        return NeedsAttention, (self.state, str(self), self.summary)


class Stopped(TreasuryError):
    """Nothing is sent now: a person stopped all sending, a stop-loss this run, or the service has to answer first."""


class NotConnected(TreasuryError):
    """No connection to the service was made: the request never left."""


class NotSentInTime(NotConnected):
    """The request was signed too long ago to be sent, so it was not: this process may have been stopped meanwhile."""


class Refused(TreasuryError):
    """The service answered, and the answer is not success.

    `code` is the envelope's code as text (None when the answer had no envelope), `http_status` the HTTP status;
    the two overlap in the 4xx range and are not the same thing (public fact 3.3). `code` and `message` are cleaned of
    unsafe characters and cut, to 40 and 500 characters.
    """

    def __init__(self, operation: str, http_status: int, code: str | None, message: str) -> None:
        self.operation = operation
        self.http_status = http_status
        self.code = code = None if code is None else cut_text(code, MAX_CODE)
        self.message = message = cut_text(message)
        self.retry_after_seconds: float | None = None
        """Seconds that the service asked us to wait, when it said so."""
        said = f"code {code}" if code is not None else f"HTTP {http_status}"
        super().__init__(f"{operation}: the service answered {said}: {message}")


class OutcomeUnknown(TreasuryError):
    """The request left and no readable answer came back: it may or may not have acted. `why` is cleaned and cut."""

    def __init__(self, operation: str, why: str, http_status: int | None = None, code: str | None = None) -> None:
        self.operation = operation
        self.why = why = cut_text(why)
        self.http_status = http_status
        self.code = None if code is None else cut_text(code, MAX_CODE)
        super().__init__(f"{operation}: outcome unknown: {why}")


class NotTrusted(TreasuryError):
    """A signature does not verify."""


class IllegalTransition(TreasuryError):
    """The ledger does not allow this step for this order: somebody else moved it first, or it is final."""

    def __init__(self, request_id: str, cause: str) -> None:
        self.request_id = request_id
        super().__init__(f"order {request_id}: {cause} is not allowed in its present state")
