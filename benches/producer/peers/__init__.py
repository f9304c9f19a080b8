"""Each produces the pool of `workload.py` over and over until it has sent what it is to send."""
