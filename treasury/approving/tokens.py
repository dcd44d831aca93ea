"""Keys of approvers, bindings of what they sign, and the token that carries a decision to another machine."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from treasury.errors import ConfigurationError, InputError
from treasury.policy.people import PUBLIC_KEY, raw_key
from treasury.private_files import make_once, read_private
from treasury.texts import canonical_json


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half as a policy lists it."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return PUBLIC_KEY + base64.b64encode(raw).decode()


def make_key(file: Path, passphrase: str | None) -> str:
    """Make a pair, its private half in this file (mode 0600, PKCS#8 PEM); returns the public half.

    Raises `InputError` when the file exists: no key is ever overwritten.
    """
    key = Ed25519PrivateKey.generate()
    locked = serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    if file.exists():
        raise InputError(f"{file} exists; name another file, no key is overwritten")
    make_once(file, content)
    if not is_its_key(file, content):
        raise InputError(f"{file} was made by another process just now; name another file")
    return public_text(key)


def is_its_key(file: Path, content: bytes) -> bool:
    """Tell whether a file holds this content."""
    return file.read_bytes() == content


def is_locked(file: Path) -> bool:
    """Tell whether a key file wants a passphrase. Raises `ConfigurationError` when it cannot be read."""
    return b"ENCRYPTED" in _content(file)


def read_key(file: Path, passphrase: str | None = None) -> Ed25519PrivateKey:
    """The private key of a file. Raises `ConfigurationError`, also for a file that others can read."""
    content = _content(file)
    try:
        password = passphrase.encode() if passphrase and b"ENCRYPTED" in content else None
        key = serialization.load_pem_private_key(content, password)
    except (ValueError, TypeError):
        said = "the passphrase is not right, or it is damaged" if b"ENCRYPTED" in content else "it is no PEM key"
        raise ConfigurationError(f"the key file {file} cannot be read: {said}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(f"the key file {file} holds another kind of key; treasury keys new NAME makes one")
    return key


def _content(file: Path) -> bytes:
    try:
        return read_private(file, "key file")
    except OSError as error:
        raise ConfigurationError(f"the key file {file} cannot be read: {error.strerror}") from None


def is_signed_by(public: str, signature: bytes, content: bytes) -> bool:
    """Tell whether the private half of this public key signed the content."""
    try:
        Ed25519PublicKey.from_public_bytes(raw_key(public)).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


PREFIX = "approval1."
"""The beginning of a token: its kind, and the version of its form."""

MAX_TOKEN = 4_000
"""Most characters of a token."""

_CODE = re.compile(r"[0-9]{1,9}-[0-9a-f]{64}")


class Verb(StrEnum):
    """The decision that a signature gives."""

    APPROVE = "approve"
    PROPOSE = "propose"
    REJECT = "reject"
    CANCEL = "cancel"
    RELEASE = "release"
    SENT = "resolve as sent"
    NOT_SENT = "resolve as not sent"
    SETTLED = "resolve as settled"
    FAILED = "resolve as failed"
    ACCEPT = "accept"
    WITHDRAW = "withdraw an acceptance"
    STOP = "stop"
    LIFT = "lift a stop"
    CONSENT = "consent"
    CARRY_OUT = "carry out"
    DISREGARD = "disregard"


@dataclass(frozen=True)
class Binding:
    """The matter that a signature is bound to: one proposal of one run, in one ledger of one account, under one
    policy."""

    account: str
    run_key: str
    plan_sha256: str
    policy: str | None
    """Version of the policy in force."""
    ledger: str = ""
    """The ledger's identity, which changes when it is restored; empty for a proposal, which is made before it."""
    number: int = 0
    """Of the proposal, among those of its run; 0 for a proposal itself."""

    @property
    def code(self) -> str:
        """The number of the proposal and the SHA-256 of all of it: what an approver copies, and signs."""
        content = [self.account, self.ledger, self.run_key, self.number, self.plan_sha256, self.policy]
        return f"{self.number}-{hashlib.sha256(canonical_json(content).encode()).hexdigest()}"


@dataclass(frozen=True)
class Matter:
    """The things that the signature of a decision is bound to, as they stand, in one ledger of one account."""

    purpose: Verb
    subjects: tuple[str, ...]
    """Each thing as it stands: a row and its hold, a stop, a break and its amount."""
    account: str
    ledger: str
    """The ledger's identity."""
    epoch: str
    """When the last epoch of the ledger began; empty when none ever did."""
    detail: str = ""
    """More that is signed: an order number, the end of an acceptance."""

    @property
    def code(self) -> str:
        """The number of things and the SHA-256 of all of it: what a person copies to another machine, and signs."""
        content = [self.account, self.ledger, self.epoch, self.purpose.value, self.detail, sorted(self.subjects)]
        return f"{len(self.subjects)}-{hashlib.sha256(canonical_json(content).encode()).hexdigest()}"


def is_code(text: str) -> bool:
    """Tell whether a text has the form of `Binding.code` and `Matter.code`."""
    return _CODE.fullmatch(text) is not None


@dataclass(frozen=True)
class Token:
    """A signature over a purpose, a run, a code and an expiry."""

    purpose: Verb
    run_key: str
    """Of a decision the name of what it is about; only the code says which thing that was."""
    code: str
    expires_at: int
    """Unix milliseconds."""
    key: str
    """The public key."""
    signature: bytes = b""

    @property
    def content(self) -> bytes:
        """The bytes that are signed: canonical JSON."""
        return canonical_json([PREFIX, self.purpose.value, self.run_key, self.code, self.expires_at]).encode()

    @property
    def is_genuine(self) -> bool:
        """Tell whether the key signed exactly this."""
        return is_signed_by(self.key, self.signature, self.content)

    def __str__(self) -> str:
        """The token as text of one line."""
        members = {
            "for": self.purpose.value,
            "run": self.run_key,
            "code": self.code,
            "expires": self.expires_at,
            "key": self.key,
            "signature": base64.b64encode(self.signature).decode(),
        }
        text = json.dumps(members, separators=(",", ":")).encode()
        return PREFIX + base64.urlsafe_b64encode(text).decode().rstrip("=")


def sign(key: Ed25519PrivateKey, purpose: Verb, run_key: str, code: str, expires_at: int) -> Token:
    """Sign with a key. `expires_at`: Unix milliseconds."""
    unsigned = Token(purpose, run_key, code, expires_at, public_text(key))
    return replace(unsigned, signature=key.sign(unsigned.content))


def key_of(text: str | None) -> str:
    """The public key of a token that was recorded; empty where there is none."""
    try:
        return "" if text is None else read_token(text).key
    except InputError:  # of a ledger that kept less of it
        return ""


def read_token(text: str) -> Token:
    """The token of a text. Raises `InputError` when it is none; whether it is genuine is another question."""
    joined = "".join(text.split())
    if not joined.startswith(PREFIX) or len(joined) > MAX_TOKEN:
        raise InputError(f"this is no token that --print made: it begins with {PREFIX}")
    try:
        raw = joined.removeprefix(PREFIX).encode("ascii")
        members: dict[str, Any] = json.loads(base64.urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)))
        signature = base64.b64decode(str(members["signature"]), validate=True)
        named = {name: str(members[name]) for name in ("run", "code", "key")}
        return Token(
            Verb(members["for"]), named["run"], named["code"], int(members["expires"]), named["key"], signature
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError("this token is damaged: copy it whole, as --print gave it") from None
