"""Answers: bytes to a reply, or to an error that says what the caller can do."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from treasury.errors import OutcomeUnknown, Refused
from treasury.provider.bounded_json import read_json
from treasury.provider.card_users import EmailChange
from treasury.provider.fields import UNREADABLE
from treasury.provider.operation import Operation, Received, Reply

R = TypeVar("R", bound=Reply)

SUCCESS = "200"
"""The envelope's code of success, as number or text (document, Response envelope)."""


def read_code(envelope: Mapping[str, Any]) -> str | None:
    """The envelope's code as text, whether it came as number or text."""
    code = envelope.get("code")
    return str(code).strip() if isinstance(code, int | str) and not isinstance(code, bool) else None


def read_reply(operation: type[Operation[R]], http_status: int, body: bytes) -> R:
    """Read the answer to an operation.

    Raises `Refused` for an answer that is not success, and `OutcomeUnknown` for one that cannot be read, or that
    contradicts itself (success under an HTTP error).
    """
    name = operation.operation_name()
    try:
        envelope = read_json(body)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict):
        if http_status >= 400:
            raise Refused(name, http_status, None, f"HTTP {http_status} without a readable body")
        raise OutcomeUnknown(name, "the answer is not a JSON object", http_status)
    code, message = read_code(envelope), str(envelope.get("message") or "")
    if code is None and operation.reply_type() is EmailChange and isinstance(envelope.get("success"), bool):
        # The one operation without an envelope (document, Response envelope).
        if not envelope["success"]:
            raise Refused(name, http_status, None, "success: false")
        if not 200 <= http_status < 300:
            raise OutcomeUnknown(name, f"success under HTTP {http_status}", http_status)
        return _build(operation, envelope, envelope, http_status)
    if code != SUCCESS:
        raise Refused(name, http_status, code, message)
    if not 200 <= http_status < 300:
        raise OutcomeUnknown(name, f"code 200 under HTTP {http_status}", http_status, code)
    data = envelope.get("data")
    if not isinstance(data, dict | None):
        raise OutcomeUnknown(name, "`data` is not an object", http_status, code)
    if data is not None and data.get("success") is False:
        raise Refused(name, http_status, None, message or "success: false")
    return _build(operation, data or {}, envelope, http_status)


def _build(operation: type[Operation[R]], data: dict[str, Any], envelope: dict[str, Any], http_status: int) -> R:
    unread: list[str] = []
    try:
        reply = operation.reply_type().model_validate(data, context={UNREADABLE: unread})
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        why = f"`{place}` of the answer cannot be read"
        raise OutcomeUnknown(operation.operation_name(), why, http_status, SUCCESS) from None
    reply._received = Received(envelope, unread)
    return reply
