"""Reconciliation, pure: what the ledger holds and what the service answered in, classes, breaks and a verdict out.

`classes` names every way in which the two sides relate, `comparison` puts each order into one of them, `statement`
and `balances` make the sums explain themselves, `breaks` gives what is found a life from night to night, and `rules`
is what the policy says about all of it.
"""
