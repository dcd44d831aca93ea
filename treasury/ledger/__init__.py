"""The ledger: every order we ever meant to send, and all that happened to it."""
