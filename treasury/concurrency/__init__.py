"""Many orders at once: work that gives way while it waits, batches, child processes, places to crash at in tests."""
