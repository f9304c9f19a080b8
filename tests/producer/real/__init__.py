"""The producer against real brokers: beside other clients, while things go wrong, at its limits."""
