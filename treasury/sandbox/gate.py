"""The gate: who calls, is it signed, is it fresh, do the fields hold. Whatever fails here has not acted."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from treasury.errors import ConfigurationError, InvalidFields, NotTrusted
from treasury.provider.bounded_json import read_json_as_it_is
from treasury.provider.fields import is_blank
from treasury.provider.operation import Operation, members
from treasury.provider.signing import load_public_key
from treasury.sandbox.answers import Refusal
from treasury.sandbox.signatures import Signatures
from treasury.sandbox.world import World

COMMON = frozenset({"partner_id", "sign_type", "timestamp", "nonce", "sign"})
"""The common parameters of every body (document, Authentication)."""


TIMESTAMP_DIGITS = {"any": (10, 13), "ms": (13,), "s": (10,)}
"""Unit of a timestamp -> how many digits it has; the examples show both (document, Authentication)."""


class Gate:
    """Lets requests of one partner in."""

    def __init__(self, world: World) -> None:
        if not world.settings.public_key:
            raise ConfigurationError("the sandbox needs the partner's public key to check signatures")
        self._world = world
        self._behaviour = world.settings.behaviour
        self._signatures = Signatures(self._behaviour)
        self._key = load_public_key(world.settings.public_key)

    def admit(self, raw: bytes) -> dict[str, Any]:
        """The operation's own fields. Raises `Refusal`: 400, 401, 406 or 412, judged in this order."""
        try:
            body = read_json_as_it_is(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise Refusal(400, "the body is not a JSON object", http_status=400)
        if body.get("partner_id") != self._world.settings.partner_id:
            raise Refusal(401, "partner_id is not known", http_status=401)
        try:
            self._signatures.check(body, self._key)
        except NotTrusted as error:
            raise Refusal(406, str(error)) from None
        if body.get("sign_type") != self._behaviour.sign_type:
            raise Refusal(406, f"sign_type must be {self._behaviour.sign_type}")
        if self._behaviour.nonce_and_time_checked:
            self._check_fresh(str(body.get("timestamp") or ""), str(body.get("nonce") or ""))
        return {name: value for name, value in body.items() if name not in COMMON}

    def _check_fresh(self, timestamp: str, nonce: str) -> None:
        wall, tolerance = self._world.clock.wall(), self._world.settings.timestamp_tolerance_seconds
        lengths = TIMESTAMP_DIGITS[self._behaviour.timestamp_unit]
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) in lengths):
            raise Refusal(412, f"timestamp must have {' or '.join(map(str, lengths))} digits")
        seconds = int(timestamp) / (1000 if len(timestamp) == 13 else 1)
        if abs(wall - seconds) > tolerance:
            raise Refusal(412, f"timestamp is more than {tolerance:g} seconds away")
        if is_blank(nonce):
            raise Refusal(412, "nonce is missing")
        if self._world.nonces.get(nonce, 0.0) > wall:
            raise Refusal(412, "nonce was used before")
        self._world.save_nonce(nonce, wall + 2 * tolerance)


def parse(operation: type[Operation[Any]], fields: Mapping[str, Any]) -> Operation[Any]:
    """The request these fields make, judged by the catalogue; fields it does not know are ignored, at every level.

    The vendor's own clients send some. A rule that breaks is refused with 400 and a message that names the field.
    """
    try:
        return operation(**_known(operation, fields))
    except InvalidFields as error:
        broken = "; ".join(f"{each.field}: {each.rule}" for each in error.problems)
        raise Refusal(400, f"{operation.operation_name()}: {broken}", http_status=400) from None


def _known(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """The members that a model has, also inside its objects and of those that travel as JSON text."""
    return {
        name: given[name] if inside is None else _known_inside(inside, given[name])
        for name, (_, inside) in members(model).items()
        if name in given
    }


def _known_inside(model: type[BaseModel], value: Any) -> Any:
    if isinstance(value, Mapping):
        return _known(model, value)
    try:
        found = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return value
    return json.dumps(_known(model, found)) if isinstance(found, dict) else value
