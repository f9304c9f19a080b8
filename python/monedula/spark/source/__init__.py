"""The source: options and schema of a query that reads, its plan on the driver, and the reads of its tasks."""
