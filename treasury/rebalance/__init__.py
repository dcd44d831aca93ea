"""Rebalancing: the market that is read, the plan of a round, its trades and what they cost."""
