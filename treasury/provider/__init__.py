"""The wire: one class per operation (the catalogue), signing, envelope, client, notifications."""
