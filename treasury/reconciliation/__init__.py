"""Reconciliation, pure: compares the ledger with the service's answers; gives classes, breaks and a verdict.

`classes` names every way in which the two sides relate, `comparison` puts each order into one of them, `statement` and
`balances` make the sums explain themselves, `arrivals` matches money that comes in, `breaks` follows each finding from
night to night, and `report` puts it all together.
"""
