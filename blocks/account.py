"""The account at the service, as a Prefect block."""

from typing import Literal

from prefect.blocks.core import Block
from pydantic import Field, SecretStr, field_validator

from treasury.interface.address import canonical_url, check_transport
from treasury.interface.client import Account
from treasury.interface.signing import SigningRules


class PartnerAccount(Block):
    """An account at the payments service: where it is, who we are, how we sign."""

    _block_type_name = "Partner Account"
    _block_type_slug = "partner-account"
    _description = "An account at the partner payments service and the key that signs its requests."

    base_url: str = Field(
        description="Address of the service, for example https://api.example.com; http:// for this machine alone."
    )
    partner_id: str = Field(description="Your partner identifier, as the service's portal shows it.")
    private_key: SecretStr = Field(
        description="The RSA private key that signs requests: PEM, or bare base64 of PKCS#8."
    )
    platform_key: str | None = Field(
        default=None, description="The platform's public key, which notifications are verified with."
    )
    hash: Literal["SHA1", "SHA256"] = Field(default="SHA1", description="The hash that is signed.")
    timestamp_unit: Literal["ms", "s"] = Field(
        default="ms", description="Whether requests carry milliseconds or seconds as their timestamp."
    )
    null_text_is_blank: bool = Field(
        default=True, description="Whether a field with the text `null` counts as absent, as the platform treats it."
    )

    @field_validator("base_url")
    @classmethod
    def _is_address_of_a_service(cls, url: str) -> str:
        """The address in its one form. Raises `ConfigurationError`, as the account itself would."""
        url = canonical_url(url)
        check_transport(url)
        return url

    def get_account(self) -> Account:
        """The account, ready to open a desk with."""
        rules = SigningRules(
            hash=self.hash, timestamp_unit=self.timestamp_unit, null_text_is_blank=self.null_text_is_blank
        )
        return Account(self.base_url, self.partner_id, self.private_key.get_secret_value(), self.platform_key, rules)
