"""Batches in the hands of pyarrow, pandas, polars and DuckDB."""
