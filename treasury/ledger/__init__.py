"""The ledger: every order that was ever planned, and every step it took."""
