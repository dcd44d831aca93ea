"""A policy kept in Prefect instead of in a file."""

from pathlib import Path
from typing import cast

from prefect.blocks.core import Block
from pydantic import Field, field_validator

from treasury.errors import ConfigurationError
from treasury.files import path_of, write_text
from treasury.policy_file import policy_of
from treasury.settings import read_settings

PREFIX = "block:"
"""`block:NAME` where a flow takes a policy means the block of this name."""


class TreasuryPolicy(Block):
    """The rules of trading and paying; the same TOML as the file `data/treasury_policy.toml`.

    Example:
        ```python
        from pathlib import Path

        from blocks import TreasuryPolicy

        TreasuryPolicy(toml=Path("policy.toml").read_text()).save("main")
        ```
    """

    _block_type_name = "Treasury Policy"
    _block_type_slug = "treasury-policy"
    _description = "What the rebalancing may trade, and the limits and approvals of payouts."

    toml: str = Field(min_length=1, description="The policy as TOML; data/treasury_policy.toml explains every setting.")

    @field_validator("toml")
    @classmethod
    def _is_a_policy(cls, toml: str) -> str:
        """The text as it is. Raises `InputError` with each line and setting that is wrong, as the file would."""
        policy_of(toml, "the Treasury Policy block")
        return toml


def policy_file(policy: str) -> Path:
    """The file of a policy that a flow was given: a path, or `block:NAME`, whose content is written under the home.

    Raises `ConfigurationError` where there is no such block, and `InputError` for what can be no path.
    """
    if not policy.startswith(PREFIX):
        return path_of(policy)
    name = policy.removeprefix(PREFIX)
    try:
        block = cast(TreasuryPolicy, TreasuryPolicy.load(name))
    except ValueError:
        raise ConfigurationError(f"there is no Treasury Policy block called {name}") from None
    file = read_settings().home / "policies" / f"{name}.toml"
    write_text(file, block.toml)
    return file
