"""`treasury connect`."""

from pathlib import Path
from typing import Literal

from flows.commands.common import DONE
from flows.commands.prefect_server import configured_api, prepare_environment
from treasury.errors import ConfigurationError
from treasury.interface.client import Account
from treasury.interface.signing import SigningRules, load_private_key, load_public_key
from treasury.settings import read_key_file, read_private_key, read_settings
from treasury.sheets.writing import write_json


def connect(
    *,
    base_url: str,
    partner_id: str,
    private_key: Path,
    platform_key: Path | None = None,
    name: str = "default",
    hash: Literal["SHA1", "SHA256"] = "SHA1",
    timestamp_unit: Literal["ms", "s"] = "ms",
) -> int:
    """Save which account to work with; keys stay where they are and are only referred to.

    Parameters
    ----------
    base_url:
        Address of the service, for example https://api.example.com.
    partner_id:
        Your partner identifier.
    private_key:
        File with the RSA private key that signs requests: PEM, or bare base64 of PKCS#8.
    platform_key:
        File with the platform's public key, for notifications.
    name:
        Name of the Prefect block that is saved too, when a Prefect server is configured.
    hash:
        The hash that is signed.
    timestamp_unit:
        Unit of the request timestamp.

    """
    settings = read_settings()
    rules = SigningRules(hash=hash, timestamp_unit=timestamp_unit)
    account = Account(base_url, partner_id, read_private_key(private_key), rules=rules)
    load_private_key(account.private_key)
    if not partner_id.strip():
        raise ConfigurationError("the partner id is empty")
    if platform_key is not None:
        load_public_key(read_key_file(platform_key, "platform key"))
    content = {
        "base_url": account.base_url,
        "partner_id": partner_id,
        "private_key_file": str(private_key.absolute()),
        "platform_key_file": None if platform_key is None else str(platform_key.absolute()),
        "hash": hash,
        "timestamp_unit": timestamp_unit,
    }
    write_json(settings.account_file, content)
    print(f"  {settings.account_file}")
    if configured_api() is not None:
        _save_block(account, platform_key, name)
    print(f"connected: partner {partner_id} at {account.base_url}")
    return DONE


def _save_block(account: Account, platform_key: Path | None, name: str) -> None:
    prepare_environment()
    from pydantic import SecretStr

    from blocks import PartnerAccount

    block = PartnerAccount(
        base_url=account.base_url,
        partner_id=account.partner_id,
        private_key=SecretStr(account.private_key),
        platform_key=None if platform_key is None else read_key_file(platform_key, "platform key"),
        hash=account.rules.hash,
        timestamp_unit=account.rules.timestamp_unit,
    )
    block.save(name, overwrite=True)
    print(f"  Prefect block partner-account/{name}")
