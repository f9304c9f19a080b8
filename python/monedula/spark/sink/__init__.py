"""The sink: options and columns of a query that writes, and the writes of its tasks."""
