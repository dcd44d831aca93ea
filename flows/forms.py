"""The parameters of deployed flows as their forms check them, before a run is made: patterns, bounds and examples.

They are of the form alone: a flow that is called from Python is judged by the domain, in words. Prefect takes the title
of a parameter from its name, and its description from the flow's docstring.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from blocks.account import PartnerAccount
from treasury.approving.tokens import MAX_TOKEN, PREFIX
from treasury.payments.execution import RUN_KEY


def _text(pattern: str, most: int, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "maxLength": most, "examples": [*examples]})


def _number(kind: str, most: int, example: int) -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "minimum": 0, "maximum": most, "examples": [example]})


SAID = r"\S"
"""Something that an eye sees."""

RunKey = Annotated[str, _text(f"^{RUN_KEY}$", 100, "payroll-2026-11")]

KnownRun = Annotated[str, _text(SAID, 200, "payroll-2026-11")]
"""A run of any kind, which the ledger has."""

File = Annotated[str, _text(SAID, 4096, "/srv/treasury/in/payroll.xlsx", "block:remote-file-system/inbox/payroll.xlsx")]
"""A path on the machine of the run, or a file in a storage block (`blocks/files.py`)."""

Folder = Annotated[str, _text(SAID, 4096, "/srv/treasury/runs/payroll-2026-11")]

SheetName = Annotated[str, _text(r"^[^\[\]:*?/\\]+$", 31, "November")]
"""As spreadsheet programs let one be called."""

Policy = Annotated[str, _text(SAID, 4096, "block:main", "/srv/treasury/policy.toml")]

FollowSeconds = Annotated[float, _number("number", 7 * 86_400, 30)]

Token = Annotated[str, _text(f"^\\s*{PREFIX.replace('.', '[.]')}", MAX_TOKEN, f"{PREFIX}eyJmb3IiOiJhcHByb3ZlIiwi...")]

PersonName = Annotated[str, _text(SAID, 100, "Ada Example")]

PlanHash = Annotated[str, _text("^[0-9a-f]{64}$", 64, "1f" * 32)]

WindowDays = Annotated[int, _number("integer", 3660, 35)]

Currency = Annotated[str, _text("^[A-Z0-9][A-Z0-9_]{1,29}$", 30, "USDT", "USDT_TRC20")]

Notification = Annotated[str, _text("^[a-z0-9-]+/[a-z0-9-]+$", 200, "slack-webhook/treasury")]

if TYPE_CHECKING:
    Account = str  # a flow's function is given its name
else:
    Account = PartnerAccount | SkipJsonSchema[str]
    """A block that the form lets pick; in Python its name, too."""
