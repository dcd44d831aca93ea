"""Nights: every open order asked about, both sides compared, the report, and what stands open in the morning."""
