"""`treasury call` and `treasury check-notification`: the interface, one operation at a time. Prefect is not needed."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from flows.commands.approving import signing_key
from flows.commands.common import DONE, TROUBLE, agreed, configured_desk, say_waiting
from treasury.call.calls import preview_operation, send_operation, submit_operation, warnings_of
from treasury.errors import InputError
from treasury.payments.approving import signer
from treasury.payments.governing import governing
from treasury.private_files import read_bounded, why_unread
from treasury.provider.bounded_json import check_depth
from treasury.provider.catalogue import CATALOGUE, find_operation
from treasury.provider.engine import MAX_BYTES
from treasury.provider.operation import Effect, Operation
from treasury.provider.signing import load_public_key, read_notification
from treasury.reports.results import BAD_OUTCOMES, result_row
from treasury.settings import read_key_file, read_settings
from treasury.texts import cut_text


def call(
    operation: str | None = None,
    /,
    *,
    json_text: Annotated[str | None, Parameter(name="--json")] = None,
    list_all: Annotated[bool, Parameter(name="--list", negative=())] = False,
    yes: Annotated[bool, Parameter(negative=())] = False,
    key: Path | None = None,
) -> int:
    """Send one operation of the interface and print the answer.

    What moves money goes through the ledger, at most once for its reference, and asks first.

    Parameters
    ----------
    operation:
        Its name or path, as `--list` prints them.
    json_text:
        Its fields, a JSON object with the wire's names; @FILE reads them from a file.
    list_all:
        Print the catalogue instead: name, path, effect, source.
    yes:
        Send what moves money without asking.
    key:
        Your private key, where the policy in force lists people: you sign what moves money as its maker.

    """
    if list_all:
        return _list_operations()
    if operation is None:
        raise InputError("name an operation, or `--list` to see them all")
    request = find_operation(operation)(**_read_fields(json_text))
    if request.effect is not Effect.MOVES_MONEY:
        print(json.dumps(send_operation(configured_desk(), request), ensure_ascii=False, indent=2, default=str))
        return DONE
    return _submit(request, key, yes=yes)


def _submit(request: Operation[Any], key: Path | None, *, yes: bool) -> int:
    desk = configured_desk()
    print(json.dumps({"operation": request.operation_name(), **request.masked()}, ensure_ascii=False))
    warnings = [f"warning: {each}" for each in warnings_of(request)]
    for line in warnings if yes else preview_operation(desk, request):
        print(line)
    if not agreed(yes=yes):
        return say_waiting(f"{request.operation_name()} {request.reference_value} checked")
    order = submit_operation(desk, request, signer(desk, None if key is None else signing_key(key)))
    row = result_row(order, is_listed=bool(governing(desk).people))
    print(json.dumps(row, ensure_ascii=False, indent=2, default=str))
    print(f"{order.state.outcome}: {order.request_id}")
    return TROUBLE if order.state.outcome in BAD_OUTCOMES else DONE


def _read_fields(text: str | None) -> dict[str, Any]:
    if text is not None and text.startswith("@"):
        try:
            text = read_bounded(Path(text[1:])).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{text[1:]} cannot be read: {why_unread(error)}") from None
    try:
        check_depth(text or "")
        # A number keeps its digits: 0.10 stays 0.10.
        fields = json.loads(text or "{}", parse_float=Decimal, object_pairs_hook=_fields_once)
    except ValueError as error:
        raise InputError(f"--json is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InputError("--json must be a JSON object of fields")
    return fields


def _fields_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object. Raises `InputError` for a name that is there twice: which one is meant nobody knows."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = cut_text(next(name for name in names if names.count(name) > 1))
        raise InputError(f"--json names {twice} more than once; nothing was sent")
    return fields


def _list_operations() -> int:
    width = max(map(len, CATALOGUE))
    for name, operation in CATALOGUE.items():
        print(f"{name:{width}}  {operation.path:42}  {operation.effect.value:12}  {operation.source}")
    print(f"{len(CATALOGUE)} operations")
    return DONE


def check_notification(file: Path, /, *, platform_key: Path | None = None) -> int:
    """Check that the platform signed a notification; exit 0 when it did, 2 when not.

    Parameters
    ----------
    file:
        The body of the notification, as it arrived.
    platform_key:
        The platform's public key: PEM, or bare base64; the connected account's unless another one is named.

    """
    settings = read_settings()
    key_file = platform_key or settings.platform_key_file
    if key_file is None:
        raise InputError("no platform key is connected: name its file with --platform-key FILE")
    key = load_public_key(read_key_file(key_file, "platform key"))
    try:
        body = read_bounded(file, MAX_BYTES)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    fields = read_notification(body, key, settings.service)
    named = cut_text(f"{fields.get('order_type', 'notification')} {fields.get('request_id', '')}")
    print(f"valid: the platform signed this ({named})")
    return DONE
