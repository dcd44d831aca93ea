"""Card users: created with identity data or with a KYC link, queried and changed (document, endpoints 7-12)."""

from typing import Annotated

from pydantic import Field

from treasury.provider.fields import (
    PERSONAL,
    AnyImage,
    Country,
    Image,
    PersonalText,
    ReplyAddress,
    ReplyId,
    ReplyLabel,
    ReplyMark,
    ReplyText,
    WireDate,
    one_of,
)
from treasury.provider.operation import Effect, Operation, Reply, WireModel

KYC_STATUS = {"0": "not set", "1": "waiting for audit", "2": "in audit", "3": "passed", "4": "refused"}
"""`kyc_status` in words (public fact 2.4)."""

NOT_SET, PASSED, REFUSED = "0", "3", "4"
JUDGED = ("1", "2")
"""`kyc_status` while the service judges."""


class CardUserRecord(Reply):
    """A card user. `kyc_status`: 0 not set, 1 waiting, 2 in audit, 3 passed, 4 refused (public fact 2.4)."""

    user_xid: ReplyId = None
    user_id: ReplyId = None
    kyc_status: ReplyMark = None
    kyc_level: ReplyMark = None
    link: ReplyAddress = None
    email: ReplyText = None
    phone_number: ReplyText = None
    first_name: ReplyText = None
    last_name: ReplyText = None
    document_type: ReplyLabel = None
    document_number: ReplyText = None


class Individual(WireModel):
    """Identity of a cardholder."""

    first_name: PersonalText = Field(description="Given name.")
    last_name: PersonalText = Field(description="Family name.")
    date_of_birth: Annotated[WireDate, PERSONAL] = Field(description="YYYY-MM-DD.")
    occupation: PersonalText | None = Field(None, description="Occupation.")
    annual_income: PersonalText | None = Field(None, description="In card currency.")


class KycDocument(WireModel):
    """A government-issued identification document."""

    type: Annotated[str, one_of("1", "2")] = Field(description="`1` national id, `2` passport (public fact 2.4).")
    number: PersonalText = Field(description="Number of the document.")
    country: Country = Field(description="Issuing country, ISO 3166-1 alpha-2.")
    expiry_date: WireDate = Field(description="YYYY-MM-DD.")
    front: Image = Field(description="Data-URI image, image/jpeg or image/png.")
    back: AnyImage | None = Field(None, description="Data-URI image.")


class KycDocumentWithFace(KycDocument):
    """The document as it accompanies a new card user: a selfie may come with it."""

    face: Image | None = Field(None, description="Selfie, data-URI image.")


class Address(WireModel):
    """Delivery address."""

    country: Country | None = Field(None, description="ISO 3166-1 alpha-2.")
    city: PersonalText | None = Field(None, description="City.")
    post_code: PersonalText | None = Field(None, description="Postal code.")
    details: PersonalText | None = Field(None, description="Street and number.")


class QueryCardUser(Operation[CardUserRecord]):
    """Fetch one card user."""

    path = "/v1/carduser/query"
    effect = Effect.READS
    source = "document, endpoint 10"
    reference = "user_xid"

    user_xid: str = Field(description="External user id.")
    user_id: str | None = Field(None, description="Platform user id.")
    phone_number: PersonalText | None = Field(None, description="Phone number.")
    email: PersonalText | None = Field(None, description="E-mail.")


class CreateCardUser(Operation[CardUserRecord]):
    """Create a cardholder with identity data."""

    path = "/v1/carduser/create"
    effect = Effect.CREATES
    source = "document, endpoint 7"
    reference = "user_xid"

    user_xid: str = Field(description="External id, unique under the partner.")
    user_name: PersonalText | None = Field(None, description="Nickname, not unique.")
    email: PersonalText = Field(description="Cardholder e-mail.")
    individual: Individual = Field(description="Identity information.")
    document: KycDocumentWithFace = Field(description="Identification document.")
    address: Address | None = Field(None, description="Delivery address.")


class CreateCardUserWithKycLink(Operation[CardUserRecord]):
    """Create a cardholder who proves identity on a KYC page."""

    path = "/v1/carduser/create-with-kyc-link"
    effect = Effect.CREATES
    source = "document, endpoint 8"
    reference = "user_xid"

    email: PersonalText = Field(description="Cardholder e-mail.")
    user_xid: str = Field(description="External id, unique under the partner.")
    user_name: PersonalText | None = Field(None, description="Nickname, not unique.")


class KycLink(Operation[CardUserRecord]):
    """Obtain a KYC page address for a cardholder who exists."""

    path = "/v1/carduser/kyc-link"
    effect = Effect.CREATES
    source = "document, endpoint 9"
    reference = "user_xid"

    user_xid: str = Field(description="External user id.")
    level_name: Annotated[str, one_of("LEVEL-1", "LEVEL-2")] | None = Field(
        None, description="`LEVEL-1` (the default) or `LEVEL-2`."
    )


class UploadKyc(Operation[CardUserRecord]):
    """Hand in identity data of a cardholder who exists."""

    path = "/v1/carduser/upload-kyc"
    effect = Effect.CREATES
    source = "document, endpoint 11"
    reference = "user_xid"

    user_xid: str = Field(description="External user id.")
    individual: Individual = Field(description="Identity information.")
    document: KycDocument = Field(description="Identification document.")
    address: Address | None = Field(None, description="Delivery address.")


class EmailChange(Reply):
    """The one reply without an envelope: `{success: bool}`."""

    success: bool | None = None


class ChangeCardUserEmail(Operation[EmailChange]):
    """Change a cardholder's e-mail; the card's follows.

    The document does not say which fields are required; public fact 6 (row 12) has both mandatory.
    """

    path = "/v1/carduser/change-email"
    effect = Effect.CREATES
    source = "document, endpoint 12"
    reference = "user_id"

    user_id: str = Field(description="Platform user id.")
    email: PersonalText = Field(description="New cardholder e-mail.")
