"""The only code that sends an operation that moves money, and that asks what became of it."""
