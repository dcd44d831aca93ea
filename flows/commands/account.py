"""`treasury connect`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from flows.commands.common import BAD_INPUT, DONE, configured_desk
from flows.commands.prefect_server import configured_api, prepare_environment
from flows.commands.proving import in_short, show_findings
from treasury.account_file import read_account_file, write_account_file
from treasury.errors import ConfigurationError, InputError
from treasury.ledger.ledger import Ledger
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.proving import prove_service
from treasury.settings import read_key_file, read_private_key, read_settings

if TYPE_CHECKING:
    from blocks import PartnerAccount


def connect(
    *,
    base_url: str,
    partner_id: str,
    private_key: Path,
    platform_key: Path | None = None,
    name: str = "default",
    hash: Literal["SHA1", "SHA256"] | None = None,
    timestamp_unit: Literal["ms", "s"] | None = None,
    replace: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Save which account to work with, then compare it with its service (`treasury doctor --prove`).

    Keys stay where they are and are only referred to, also by the Prefect block: no key is sent anywhere. What the
    account file says besides stays as it is.

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
        Name of the Prefect block that is saved too, when a Prefect server is configured. It holds the path of the
        private key.
    hash:
        The hash that is signed; SHA1 unless the account file says otherwise.
    timestamp_unit:
        Unit of the request timestamp; ms unless the account file says otherwise.
    replace:
        Overwrite a Prefect block of this name that says something else.

    """
    settings = read_settings()
    said = {"hash": hash, "timestamp_unit": timestamp_unit}
    chosen = {entry: value for entry, value in said.items() if value is not None}
    rules = read_account_file(settings.account_file).service.model_copy(update=chosen)
    account = Account(base_url, partner_id, read_private_key(private_key), rules=rules)
    if not partner_id.strip():
        raise ConfigurationError("the partner id is empty")
    if platform_key is not None:
        read_key_file(platform_key, "platform key")
    files = {"private_key_file": private_key, "platform_key_file": platform_key}
    paths = {entry: str(file.absolute()) for entry, file in files.items() if file is not None}
    save = None
    if configured_api() is not None:  # what stands there is looked at before anything is written
        save = _block_to_save(account, paths["private_key_file"], platform_key, name, replace=replace)
    # The ledger of another account refuses this one here, before anything is saved.
    Ledger(settings.ledger_url, account.identity, settings.ledger_key_file).close()
    service = rules.model_dump(mode="json", exclude_unset=True)
    write_account_file(
        settings.account_file, base_url=account.base_url, partner_id=partner_id, service=service, **paths
    )
    print(f"  {settings.account_file}")
    if save is not None:
        save()
    desk = configured_desk()
    findings = prove_service(desk)
    show_findings(findings)
    asked = desk.account
    if asked.identity != account.identity or asked.private_key != account.private_key:
        print("  what was saved has no effect: TREASURY_BASE_URL, TREASURY_PARTNER_ID or TREASURY_PRIVATE_KEY_FILE")
        print("  of the environment says otherwise, and wins; unset it, and connect again")
    print(f"connected: partner {asked.partner_id} at {asked.base_url}: {in_short(findings)}")
    return DONE if findings.is_well else BAD_INPUT


def _block_to_save(
    account: Account, key_file: str, platform_key: Path | None, name: str, *, replace: bool
) -> Callable[[], None]:
    """Return a function that saves the Prefect block of this account, which refers to the key by its path.

    Raises `InputError` where another block stands under this name and is not to be replaced.
    """
    prepare_environment()
    from blocks import PartnerAccount

    block = PartnerAccount(
        base_url=account.base_url,
        partner_id=account.partner_id,
        private_key_file=key_file,
        platform_key=None if platform_key is None else read_key_file(platform_key, "platform key"),
        service=account.rules,
    )
    is_unreadable = False
    try:
        there = cast(PartnerAccount, PartnerAccount.load(name, validate=False))
    except ValueError:
        there = None
    except ConfigurationError as error:  # it says what no block says
        if not replace:
            raise InputError(
                f"the Prefect block partner-account/{name} stands there already and cannot be read: {error}; nothing "
                "was changed: choose another --name, or overwrite it with --replace"
            ) from None
        there, is_unreadable = None, True
    if there is not None and not replace and _content(there) != _content(block):
        if there.private_key is not None:
            key = "it holds a private key itself"
        else:
            key = f"its private key is the file {there.private_key_file or 'that TREASURY_PRIVATE_KEY_FILE names'}"
        raise InputError(
            f"the Prefect block partner-account/{name} stands there already and says something else: partner "
            f"{there.partner_id} at {there.base_url}, {key}; nothing was changed: choose another --name, or overwrite "
            "it with --replace"
        )

    def save() -> None:
        if is_unreadable:  # Prefect keeps, of a block that is overwritten, the entries that the new one does not have
            PartnerAccount.delete(name)
        block.save(name, overwrite=True)
        print(f"  Prefect block partner-account/{name}: the private key stays in {key_file}")

    return save


def _content(block: "PartnerAccount") -> Mapping[str, Any]:
    """Return the settings of a block; one that holds a key differs from one that holds its path."""
    said = ("base_url", "partner_id", "private_key_file", "platform_key")
    content = {name: getattr(block, name, None) for name in said}
    return {**content, "has_key": block.private_key is not None, "service": ServiceRules.model_validate(block.service)}
