"""Landing a topic in Delta and Iceberg, beside what others use for it: see the README."""
