"""Card users (document, endpoints 7-12): identity data is audited with the clock, a KYC page by a click."""

from collections.abc import Mapping
from typing import Any

from treasury.provider.card_users import (
    ChangeCardUserEmail,
    CreateCardUser,
    CreateCardUserWithKycLink,
    KycLink,
    QueryCardUser,
    UploadKyc,
)
from treasury.sandbox.answers import Refusal, Repeated, not_there
from treasury.sandbox.dice import digits
from treasury.sandbox.entities import CardUser
from treasury.sandbox.lifecycle import await_audit
from treasury.sandbox.world import World

DEFAULT_LEVEL = "LEVEL-1"


def create(world: World, asked: CreateCardUser) -> dict[str, Any]:
    """Create a cardholder; the audit of the identity data begins."""
    user = _new_user(world, asked.user_xid, asked.email)
    _take_identity(user, asked)
    await_audit(world, user)
    return _created(user)


def create_with_kyc_link(world: World, asked: CreateCardUserWithKycLink) -> dict[str, Any]:
    """Create a cardholder who proves identity on a page."""
    user = _new_user(world, asked.user_xid, asked.email)
    world.save_user(user)
    return {**_created(user), "link": _link(world, user, DEFAULT_LEVEL)}


def kyc_link(world: World, asked: KycLink) -> dict[str, Any]:
    """The page on which this cardholder proves identity, by level."""
    user = _find(world, asked.user_xid)
    return {"user_xid": user.user_xid, "link": _link(world, user, asked.level_name or DEFAULT_LEVEL)}


def query(world: World, asked: QueryCardUser) -> Mapping[str, Any] | None:
    """One cardholder; whatever else is asked for must be theirs too."""
    user = world.users.get(asked.user_xid)
    if user is None or asked.user_id not in (None, user.user_id) or asked.email not in (None, user.email):
        return not_there(world.settings.behaviour.no_such_user, "no card user has all of these")
    return {
        **_created(user),
        "kyc_level": user.kyc_level,
        "email": user.email,
        "phone_number": "",
        "first_name": user.first_name or "",
        "last_name": user.last_name or "",
        "document_type": user.document_type or "",
        "document_number": user.document_number or "",
    }


def upload_kyc(world: World, asked: UploadKyc) -> dict[str, Any]:
    """Hand in identity data: the audit begins again."""
    user = _find(world, asked.user_xid)
    _take_identity(user, asked)
    user.kyc_status = "0"
    await_audit(world, user)
    return _created(user)


def change_email(world: World, asked: ChangeCardUserEmail) -> dict[str, Any]:
    """Change the e-mail; `success` is false for a user who is not there."""
    user = next((user for user in world.users.values() if user.user_id == asked.user_id), None)
    if user is not None:
        user.email = asked.email
        world.save_user(user)
    return {"success": user is not None}


def _new_user(world: World, user_xid: str, email: str) -> CardUser:
    if user_xid in world.users:
        raise Repeated(user_xid, None)
    return CardUser(user_xid, digits(10, world.settings.seed, "user", user_xid), email)


def _take_identity(user: CardUser, asked: CreateCardUser | UploadKyc) -> None:
    user.first_name, user.last_name = asked.individual.first_name, asked.individual.last_name
    user.document_type, user.document_number = asked.document.type, asked.document.number


def _find(world: World, user_xid: str) -> CardUser:
    user = world.users.get(user_xid)
    if user is None:
        raise Refusal(404, "no such card user")
    return user


def _created(user: CardUser) -> dict[str, Any]:
    return {"user_xid": user.user_xid, "user_id": user.user_id, "kyc_status": user.kyc_status}


def _link(world: World, user: CardUser, level: str) -> str:
    return f"{world.public_url}/kyc/{user.user_id}/{level}"
