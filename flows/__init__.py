"""What runs: one file a flow, each reading top to bottom as its DAG."""
