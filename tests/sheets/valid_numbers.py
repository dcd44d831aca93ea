"""Numbers that are right, each with where it is published as an example; the reader refuses none of them."""

IBANS = (
    # The examples of the SWIFT IBAN Registry, one for each country, as its public PDF lists them.
    "AD1200012030200359100100", "AE070331234567890123456", "AL47212110090000000235698741", "AT611904300234573201",
    "AZ21NABZ00000000137010001944", "BE68539007547034", "BG80BNBG96611020345678", "BH67BMAG00001299123456",
    "BR1800360305000010009795493C1", "CH9300762011623852957", "CY17002001280000001200527600",
    "CZ6508000000192000145399", "DE89370400440532013000", "DK5000400440116243", "EE382200221020145685",
    "EG380019000500000000263180002", "ES9121000418450200051332", "FI2112345600000785", "FR1420041010050500013M02606",
    "GB29NWBK60161331926819", "GE29NB0000000101904917", "GI75NWBK000000007099453", "GR1601101250000000012300695",
    "HR1210010051863000160", "HU42117730161111101800000000", "IE29AIBK93115212345678", "IL620108000000099999999",
    "IS140159260076545510730339", "IT60X0542811101000000123456", "JO94CBJO0010000000000131000302",
    "KW81CBKU0000000000001234560101", "KZ86125KZT5004100100", "LB62099900000001001901229114", "LI21088100002324013AA",
    "LT121000011101001000", "LU280019400644750000", "LV80BANK0000435195001", "MC5811222000010123456789030",
    "MT84MALT011000012345MTLCAST001S", "NL91ABNA0417164300", "NO9386011117947", "PK36SCBL0000001123456702",
    "PL61109010140000071219812874", "PT50000201231234567890154", "QA58DOHB00001234567890ABCDEFG",
    "RO49AAAA1B31007593840000", "RS35260005601001611379", "SA0380000000608010167519", "SE4550000000058398257466",
    "SI56263300012039086", "SK3112000000198742637541", "SM86U0322509800000000270100", "TN5910006035183598478831",
    "TR330006100519786457841326", "UA213223130000026007233566001", "VA59001123000012345678", "XK051212012345678906",
)  # fmt: skip

BICS = ("DEUTDEFF", "BYLADEM1001", "SOGEDEFF", "NEDSZAJJ", "DABAIE2D", "UNCRITMM", "DSBACNBXSHA", "DEUTDEFF500")
"""Of the article on ISO 9362 in public encyclopedias, and schwifty's documentation."""

ROUTING = ("111000025", "021000021", "011401533", "091000019", "121000248")
"""python-stdnum's documentation, and numbers that US banks print on their own help pages."""

CPFS = ("39053344705", "390.533.447-05", "11144477735", "52998224725")
"""python-stdnum's documentation, and the examples of public descriptions of the check digits."""

CNPJS = ("16727230000197", "16.727.230/0001-97", "11222333000181", "12ABC34501DE35")
"""python-stdnum's documentation (the last is of the form with letters, from July 2026)."""

CBUS = ("2850590940090418135201",)
"""python-stdnum's documentation."""

PANS = ("ACUPA7085R", "AAPPV8261K")
"""python-stdnum's documentation."""

NIKS = ("3171011708450001", "3171012902001234")
"""python-stdnum's documentation."""

NPWPS = ("01.312.166.0-091.000", "016090524017000")
"""python-stdnum's documentation."""

CNICS = ("34201-0891231-8", "42201-0397640-8")
"""python-stdnum's documentation."""

IFSCS = ("HDFC0000123", "SBIN0005943", "ICIC0001245", "UTIB0000001")
"""Branches as the Reserve Bank of India lists them."""

CLABES = ("032180000118359719", "002010077777777771")
"""The example of Banco de México's and of the encyclopedia's description of the check digit."""

PHONES = (
    *(("ID", number) for number in ("6281200001111", "081200002233", "+62 812-0000-1111", "622150960000")),
    *(("BR", number) for number in ("11900003456", "5511961234567", "+55 (11) 96123-4567", "1123456789")),
    *(("VN", number) for number in ("84900004567", "0912345678")),
    *(("IN", number) for number in ("919000005678", "8123456789")),
    *(("PH", number) for number in ("639000006789", "09051234567")),
    *(("PK", number) for number in ("923012345678", "03012345678")),
)
"""libphonenumber's example numbers of each country, and those of the sample data."""

EMAILS = (
    "simple@example.com", "very.common@example.com", "x@example.com", "long.email-address-with-hyphens@and.example.com",
    "user.name+tag@example.com", "o'brien@example.com", "admin@sub.example.org", "zoë@example.com", "a@b.example",
    "info@müller.example", "first_last@example.co.id",
)  # fmt: skip
"""Of the article on e-mail addresses in public encyclopedias (RFC 5322, RFC 6531)."""
