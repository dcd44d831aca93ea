"""The policy: one model of its file, the people in it, and the judge of its limits.

Pure: nothing here touches a database, a file, the network or the clock.
"""
