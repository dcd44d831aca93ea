"""Card users and their identity checks."""
