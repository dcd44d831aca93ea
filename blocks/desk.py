"""Finds the desk of a flow: from the environment, else the account file, else the block of the given name."""

import dataclasses
import functools
from typing import TYPE_CHECKING, cast

from treasury.errors import ConfigurationError
from treasury.payments.desk import Desk, desk_of
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.settings import Settings, read_settings

if TYPE_CHECKING:
    from blocks.account import PartnerAccount


def open_desk(account: str | None = None) -> Desk:
    """The desk that flows and tasks use. `account`: a `PartnerAccount` block, used when no account is configured.

    A `TreasuryLedger` block of the same name, if there is one, gives the ledger's place. Settings and blocks are read
    once per name; `payments.desk.desk_of` keeps the desks themselves. Raises `ConfigurationError`.
    """
    return desk_of(*configured(account))


@functools.cache
def configured(account: str | None) -> tuple[Account, Settings]:
    """Return account and settings of a name, as `open_desk` takes them."""
    settings = read_settings()
    if account is None:
        return settings.account(), settings
    from blocks.account import PartnerAccount

    try:
        block = cast(PartnerAccount, PartnerAccount.load(account))
    except ValueError:
        raise ConfigurationError(f"there is no Partner Account block called {account}; nothing was sent") from None
    named = _with_ledger(settings, account)
    if settings.has_account:
        _check_same(account, block, named, settings)
        return settings.account(), settings
    return with_settings(block.get_account(), settings), named


def _check_same(name: str, block: "PartnerAccount", named: Settings, settings: Settings) -> None:
    """Raise `ConfigurationError` when a block that was named is not what this machine is configured for."""
    ours = settings.account()
    if block.identity != ours.identity:
        raise ConfigurationError(
            f"account {name} is partner {block.partner_id} at {block.base_url}, and this machine is configured for "
            f"partner {ours.partner_id} at {ours.base_url}: leave the account out, or start it where {name} is meant; "
            "nothing was sent"
        )
    if named.ledger_url != settings.ledger_url:
        raise ConfigurationError(
            f"ledger {name} is another one than this machine is configured for (TREASURY_LEDGER_URL): leave the "
            "account out, or make them the same; nothing was sent"
        )


def with_settings(account: Account, settings: Settings) -> Account:
    """The account of a block, with service rules overridden by those that environment and account file set."""
    block, ours = (rules.model_dump(exclude_unset=True) for rules in (account.rules, settings.service))
    rules = ServiceRules.model_validate({**block, **ours})
    return dataclasses.replace(account, rules=rules)


def _with_ledger(settings: Settings, name: str) -> Settings:
    from blocks.ledger import TreasuryLedger

    try:
        block = cast(TreasuryLedger, TreasuryLedger.load(name))
    except ValueError:
        return settings
    return dataclasses.replace(settings, ledger_url=block.url.get_secret_value(), ledger_key_file=block.key_file)
