"""A single operation, by `treasury call` or as a task of its own."""
