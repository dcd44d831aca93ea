"""Options of the commands by which people decide: a name or a key, a reason, and a token from another machine."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.commands.approving import signing_key
from flows.commands.common import DONE
from treasury.approving.judging import HOUR_MS
from treasury.approving.tokens import Verb, is_code, public_text, read_token, sign
from treasury.clock import MACHINE
from treasury.errors import InputError
from treasury.ledger.decisions import Proof
from treasury.policy.people import APPROVAL_HOURS


@Parameter(name="*")
@dataclass(frozen=True)
class PersonOptions:
    """Who decides, and why.

    Parameters
    ----------
    by:
        Your name, where the policy in force lists no people with keys.
    key:
        Your private key, where it does.
    why:
        The reason: what you checked.
    token:
        A token that --print made on another machine.
    print_token:
        Print a token and record nothing: --token records it. With --code it needs neither ledger nor account.
    code:
        For --print: what is decided, as the command without a key prints it where the ledger is.
    hours:
        How long the token counts.

    """

    by: str = ""
    key: Path | None = None
    why: str = ""
    token: str | None = None
    print_token: Annotated[bool, Parameter(name="--print", negative=())] = False
    code: str | None = None
    hours: int = APPROVAL_HOURS

    @property
    def proof(self) -> Proof | None:
        """Return the proof of whose decision it is. Raises `InputError` for a name or a key too few, or too many."""
        if self.key is not None and self.token is not None:
            raise InputError("give --key FILE or --token TOKEN, not both")
        if self.code is not None:
            raise InputError("--code goes with --print")
        if self.token is not None:
            return read_token(self.token)
        if self.key is not None:
            return signing_key(self.key)
        if not self.by.strip():
            raise InputError(
                "a decision needs a name and a reason: --by NAME --why TEXT, or --key FILE instead of the name where "
                "the policy in force lists people"
            )
        return None

    def print_for(self, purpose: Verb, named: str, find_code: Callable[[], str]) -> int:
        """Print a token of this decision; `find_code` looks into the ledger where no code is given."""
        if self.key is None or self.token is not None:
            raise InputError("--print makes a token with --key FILE")
        if not 1 <= self.hours <= 24 * 30:
            raise InputError("--hours is a number from 1 to 720")
        if self.code is not None and not is_code(self.code):
            raise InputError(f"{self.code[:14]} is no code: copy it whole (NUMBER-HASH), as the command printed it")
        private = signing_key(self.key)
        code = find_code() if self.code is None else self.code
        print(sign(private, purpose, named, code, int(MACHINE.wall() * 1000) + self.hours * HOUR_MS))
        print(f"signed with {public_text(private)}", file=sys.stderr)
        return DONE


NOBODY = PersonOptions()
