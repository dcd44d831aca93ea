"""Money in: invoices, deposit addresses, and what arrived for them."""
