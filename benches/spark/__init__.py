"""The Spark source against Spark's own: `python -m benches.spark`."""
