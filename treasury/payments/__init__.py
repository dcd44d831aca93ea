"""Payments: the desk, what may leave, sending and following it, and what a person decides about it."""
