"""Tables of card users (document, endpoints 7-12)."""

from tests.interface.forms.form import Form, Request, may, must, nested
from tests.interface.forms.kinds import COUNTRY, DATE, TEXT, image, one_of

PHOTO = image("image/jpeg", "image/png")
ANY_IMAGE = image()
"""`document.back`: the document names no MIME types for it."""


class Individual(Form):
    """Identity of a cardholder."""

    first_name: str = must(TEXT)
    last_name: str = must(TEXT)
    date_of_birth: str = must(DATE)
    occupation: str | None = may(TEXT)
    annual_income: str | None = may(TEXT)


class UploadedDocument(Form):
    """An identification document as `upload-kyc` takes it: without a selfie."""

    type: str = must(one_of("1", "2"))
    number: str = must(TEXT)
    country: str = must(COUNTRY)
    expiry_date: str = must(DATE)
    front: str = must(PHOTO)
    back: str | None = may(ANY_IMAGE)


class Document(UploadedDocument):
    """An identification document of a new cardholder."""

    face: str | None = may(PHOTO)


class Address(Form):
    """Delivery address."""

    country: str | None = may(COUNTRY)
    city: str | None = may(TEXT)
    post_code: str | None = may(TEXT)
    details: str | None = may(TEXT)


class CreateCardUser(Request):
    """Document, endpoint 7."""

    name = "create_card_user"
    path = "/v1/carduser/create"
    reference = "user_xid"
    acts = True

    user_xid: str = must(TEXT)
    user_name: str | None = may(TEXT)
    email: str = must(TEXT)
    individual: Individual = must(nested(Individual))
    document: Document = must(nested(Document))
    address: Address | None = may(nested(Address))


class CreateCardUserWithKycLink(Request):
    """Document, endpoint 8."""

    name = "create_card_user_with_kyc_link"
    path = "/v1/carduser/create-with-kyc-link"
    reference = "user_xid"
    acts = True

    email: str = must(TEXT)
    user_xid: str = must(TEXT)
    user_name: str | None = may(TEXT)


class KycLink(Request):
    """Document, endpoint 9."""

    name = "kyc_link"
    path = "/v1/carduser/kyc-link"
    reference = "user_xid"
    acts = True

    user_xid: str = must(TEXT)
    level_name: str | None = may(one_of("LEVEL-1", "LEVEL-2"))


class QueryCardUser(Request):
    """Document, endpoint 10."""

    name = "query_card_user"
    path = "/v1/carduser/query"
    reference = "user_xid"

    user_xid: str = must(TEXT)
    user_id: str | None = may(TEXT)
    phone_number: str | None = may(TEXT)
    email: str | None = may(TEXT)


class UploadKyc(Request):
    """Document, endpoint 11."""

    name = "upload_kyc"
    path = "/v1/carduser/upload-kyc"
    reference = "user_xid"
    acts = True

    user_xid: str = must(TEXT)
    individual: Individual = must(nested(Individual))
    document: UploadedDocument = must(nested(UploadedDocument))
    address: Address | None = may(nested(Address))


class ChangeCardUserEmail(Request):
    """Document, endpoint 12, which leaves open what is required; public fact 6, row 12, has both."""

    name = "change_card_user_email"
    path = "/v1/carduser/change-email"
    reference = "user_id"
    acts = True

    user_id: str = must(TEXT)
    email: str = must(TEXT)
