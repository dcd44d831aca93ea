"""Prefect flows, one per file. Each reads from top to bottom as its graph."""
