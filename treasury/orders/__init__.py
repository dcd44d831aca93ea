"""Orders: their records, their states and the steps between them, what may be decided about one payment.

Pure: nothing here touches a database, a file, the network or the clock.
"""
