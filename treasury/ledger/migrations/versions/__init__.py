"""Revisions of the ledger: each is a step from one format to the next."""
