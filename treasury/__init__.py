"""The domain: what money is, how it leaves, what is remembered about it. Imports no Prefect."""
