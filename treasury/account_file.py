"""The account file: what `treasury connect` writes under the home, read as one model."""

import difflib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from treasury.errors import ConfigurationError
from treasury.files import write_json
from treasury.model_errors import rule_of
from treasury.private_files import read_private, why_unread
from treasury.provider.service_rules import ServiceRules


class AccountFile(BaseModel):
    """The content of an account file; keys stay where they are and are referred to by path."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = None
    partner_id: str | None = None
    private_key_file: str | None = None
    platform_key_file: str | None = None
    ledger_key_file: str | None = None
    token_folder: str | None = None
    service: ServiceRules = ServiceRules()
    """The behaviour of this account's service where the interface document leaves it open."""


def read_account_file(path: Path) -> AccountFile:
    """The account file; an empty one where there is none. Raises `ConfigurationError` that names the entry."""
    try:
        content = json.loads(read_private(path, "account file").decode("utf-8"))
    except FileNotFoundError:
        return AccountFile()
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"the account file {path} cannot be read: it is no JSON ({error})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the account file {path} cannot be read: {why_unread(error)}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"the account file {path} is not a JSON object")
    try:
        return AccountFile.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(f"the account file {path}: {explain(error, AccountFile)}") from None


def write_account_file(path: Path, **changes: Any) -> AccountFile:
    """Change some entries of the account file and keep all others; returns what it says then."""
    before = read_account_file(path)
    after = AccountFile.model_validate({**before.model_dump(exclude_unset=True), **changes})
    write_json(path, after.model_dump(mode="json", exclude_unset=True, exclude_none=True))
    return after


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Every problem of a table in words: the entry, what is wrong, and the nearest known name for an unknown one."""
    said = []
    for each in error.errors(include_url=False):
        place = ".".join(str(part) for part in each["loc"])
        if each["type"] == "extra_forbidden":
            said.append(unknown_entry(place, model))
        else:
            rule = rule_of(each)
            is_whole = place in ("", "service")  # a rule about several entries names them itself
            said.append(f"{place or 'service'}: {rule}" + ("" if is_whole else f" (got {each['input']!r})"))
    return "; ".join(said)


def unknown_entry(place: str, model: type[BaseModel]) -> str:
    """An entry that a table does not have, in words, with the nearest name that it has."""
    known = [*model.model_fields, *(f"service.{name}" for name in ServiceRules.model_fields)]
    near = difflib.get_close_matches(place, known, n=1, cutoff=0.4)
    return f"{place} is not known" + (f"; did you mean {near[0]}?" if near else "")
