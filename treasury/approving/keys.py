"""Keys of approvers: Ed25519 pairs (RFC 8032), the private half in a file for its owner alone."""

import base64
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from treasury.errors import ConfigurationError, InputError
from treasury.policy.people import PUBLIC_KEY, raw_key
from treasury.private_files import make_once, read_private


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
