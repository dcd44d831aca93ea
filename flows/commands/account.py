"""`treasury connect`."""

from pathlib import Path
from typing import Literal

from flows.commands.common import BAD_INPUT, DONE, configured_desk
from flows.commands.prefect_server import configured_api, prepare_environment
from flows.commands.proving import in_short, show_findings
from treasury.account_file import read_account_file, write_account_file
from treasury.errors import ConfigurationError
from treasury.provider.client import Account
from treasury.provider.signing import load_private_key, load_public_key
from treasury.proving import prove_service
from treasury.settings import read_key_file, read_private_key, read_settings


def connect(
    *,
    base_url: str,
    partner_id: str,
    private_key: Path,
    platform_key: Path | None = None,
    name: str = "default",
    hash: Literal["SHA1", "SHA256"] | None = None,
    timestamp_unit: Literal["ms", "s"] | None = None,
) -> int:
    """Save which account to work with, then compare it with its service (`treasury doctor --prove`).

    Keys stay where they are and are only referred to. What the account file says besides stays as it is.

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
        The hash that is signed; SHA1 unless the account file says otherwise.
    timestamp_unit:
        Unit of the request timestamp; ms unless the account file says otherwise.

    """
    settings = read_settings()
    said = {"hash": hash, "timestamp_unit": timestamp_unit}
    chosen = {entry: value for entry, value in said.items() if value is not None}
    rules = read_account_file(settings.account_file).service.model_copy(update=chosen)
    account = Account(base_url, partner_id, read_private_key(private_key), rules=rules)
    load_private_key(account.private_key)
    if not partner_id.strip():
        raise ConfigurationError("the partner id is empty")
    if platform_key is not None:
        load_public_key(read_key_file(platform_key, "platform key"))
    files = {"private_key_file": private_key, "platform_key_file": platform_key}
    paths = {entry: str(file.absolute()) for entry, file in files.items() if file is not None}
    service = rules.model_dump(mode="json", exclude_unset=True)
    write_account_file(
        settings.account_file, base_url=account.base_url, partner_id=partner_id, service=service, **paths
    )
    print(f"  {settings.account_file}")
    if configured_api() is not None:
        _save_block(account, platform_key, name)
    findings = prove_service(configured_desk())
    show_findings(findings)
    print(f"connected: partner {partner_id} at {account.base_url}: {in_short(findings)}")
    return DONE if findings.is_well else BAD_INPUT


def _save_block(account: Account, platform_key: Path | None, name: str) -> None:
    prepare_environment()
    from pydantic import SecretStr

    from blocks import PartnerAccount

    block = PartnerAccount(
        base_url=account.base_url,
        partner_id=account.partner_id,
        private_key=SecretStr(account.private_key),
        platform_key=None if platform_key is None else read_key_file(platform_key, "platform key"),
        service=account.rules,
    )
    block.save(name, overwrite=True)
    print(f"  Prefect block partner-account/{name}")
