"""Card users with identity data, made up."""

PNG = b"\x89PNG\r\n\x1a\n" + b"a picture of a passport, made up" * 40
HEAD = (
    "user_xid,email,first_name,last_name,date_of_birth,document_type,document_number,document_country,"
    "document_expiry_date,document_front,address_city\n"
)
ANN = "u-1,ann@example.com,Ann,Example,1990-01-31,2,P1234567,DE,2031-05-01,front.png,Berlin\n"
