"""Benches: one workload, every peer measured in the same run."""
