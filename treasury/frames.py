"""Reads the files of a report as pandas frames, for notebooks and programs."""

from treasury.reports.order_frames import read_orders

__all__ = ["read_orders"]
