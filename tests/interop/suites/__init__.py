"""Other clients' own test suites, unmodified, against embedded brokers on the addresses that they expect.

`python -m tests.interop.suites NAME` starts the brokers, runs a suite, and prints the outcome of each of its tests.
Since the addresses are fixed, it runs in a network namespace of its own: `tests/interop/test_suites.py` makes it.
"""
