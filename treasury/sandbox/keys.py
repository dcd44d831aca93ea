"""Throw-away RSA key pairs for partners of the sandbox and for its own notifications."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


def generate_key_pair() -> tuple[str, str]:
    """A new RSA-2048 pair: private PEM (PKCS#8, no passphrase) and public PEM (SubjectPublicKeyInfo)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private.decode(), public_half(key)


def public_half(key: rsa.RSAPrivateKey) -> str:
    """The public key of a pair, PEM."""
    public = key.public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
