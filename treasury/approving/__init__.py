"""Approvals: what one is bound to, how a key signs it, and which of them count."""
