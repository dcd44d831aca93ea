"""The account at the service, as a Prefect block."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prefect.blocks.abstract import CredentialsBlock
from prefect.blocks.core import Block
from pydantic import Field, SecretStr, field_validator, model_validator

from treasury.account_file import unknown_entry
from treasury.errors import ConfigurationError
from treasury.provider.address import canonical_url, check_transport
from treasury.provider.client import Account
from treasury.provider.service_rules import ServiceRules
from treasury.settings import read_private_key, read_settings

if TYPE_CHECKING:
    import httpx

OF_PREFECT = "block_type_slug"
"""The field that Prefect keeps with the entries of a block."""


class PartnerAccount(CredentialsBlock):
    """An account at the payments service: where it is, who we are, how we sign.

    Example:
        ```python
        from blocks import PartnerAccount

        with PartnerAccount.load("main").get_client() as client:
            client.post("/v1/no/operation/of/the/catalogue", json={"request_id": "r-1"})
        ```
    """

    _block_type_name = "Partner Account"
    _block_type_slug = "partner-account"
    _description = "An account at the partner payments service, and where the key is that signs its requests."

    base_url: str = Field(
        description="Address of the service, for example https://api.example.com; http:// for this machine alone."
    )
    partner_id: str = Field(
        min_length=1, pattern=r"\S", description="Your partner identifier, as the service's portal shows it."
    )
    private_key_file: str | None = Field(
        default=None,
        description="Path of the file with the RSA private key that signs requests, on each machine that runs flows. "
        "Left empty, the file that TREASURY_PRIVATE_KEY_FILE names there is used.",
    )
    private_key: SecretStr | None = Field(
        default=None,
        description="The key itself, PEM or bare base64 of PKCS#8, instead of its file: whoever may read Prefect's "
        "database, and has its encryption key, has this one too. treasury connect never puts it here.",
    )
    platform_key: str | None = Field(
        default=None, description="The platform's public key, which notifications are verified with."
    )
    service: ServiceRules = Field(
        default=ServiceRules(),
        description="What your service does where the interface document leaves it open (docs/settings.md).",
    )

    @model_validator(mode="before")
    @classmethod
    def _knows_every_entry(cls, content: object) -> object:
        """Raise `ConfigurationError` for an entry that is none: Prefect would keep it, and nothing would read it."""
        names = content if isinstance(content, dict) else {}
        unknown = sorted(name for name in names if name not in {*cls.model_fields, OF_PREFECT})
        if unknown:
            said = "; ".join(unknown_entry(name, cls) for name in unknown)
            raise ConfigurationError(f"the Partner Account block: {said}")
        return content

    @model_validator(mode="after")
    def _names_one_key(self) -> Self:
        if self.private_key is not None and self.private_key_file is not None:
            raise ValueError("private_key_file: name the file, or give the key itself in private_key, not both")
        return self

    @field_validator("base_url")
    @classmethod
    def _is_address_of_a_service(cls, url: str) -> str:
        """The address in its one form. Raises `ConfigurationError`, as the account itself would."""
        url = canonical_url(url)
        check_transport(url)
        return url

    def get_client(self, *, timeout_seconds: float = 30.0) -> "httpx.Client":
        """An HTTP client that signs, for paths of the service that are no operation of the catalogue.

        It refuses the paths that move money (`MovesMoney`): these go through the ledger.
        """
        from treasury.provider.signed_client import signing_client

        return signing_client(self.get_account(), timeout_seconds=timeout_seconds)

    def get_account(self) -> Account:
        """The account, ready to open a desk with. Raises `ConfigurationError` where its key is not on this machine."""
        return Account(self.base_url, self.partner_id, self._key(), self.platform_key, self.service)

    @property
    def identity(self) -> str:
        """The account's identity; for this no key is read."""
        return Account(self.base_url, self.partner_id, "").identity

    def _key(self) -> str:
        if self.private_key is not None:
            return self.private_key.get_secret_value()
        file = read_settings().private_key_file if self.private_key_file is None else Path(self.private_key_file)
        if file is None:
            raise ConfigurationError(
                "the Partner Account block names no private key: fill in its private_key_file, or set "
                "TREASURY_PRIVATE_KEY_FILE where the flow runs; nothing was sent"
            )
        return read_private_key(file)


def account_name(given: Any) -> str | None:
    """The name of the block that a flow's parameter stands for: the block, what Prefect keeps of one, or its name.

    Raises `ConfigurationError` for a block that was not saved: whatever runs later has to find it.
    """
    block = Block.load_from_ref(given["$ref"]) if isinstance(given, dict) else given
    name = block._block_document_name if isinstance(block, Block) else block
    if block is not None and name is None:
        raise ConfigurationError("the Partner Account block of a flow has to be saved first; nothing was sent")
    return None if name is None else str(name)
