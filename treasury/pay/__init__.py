"""Paying a sheet: its plan, its funding, its start and what remains of it."""
