"""Reconciliation, pure: compares the ledger with the service's answers; gives classes, breaks and a verdict.

`classes` names every way in which the two sides relate, `comparison` puts each order into one of them, `statement` and
`balances` make the sums explain themselves, `breaks` follows each finding from night to night, and `rules` is what the
policy says about all of it.
"""
