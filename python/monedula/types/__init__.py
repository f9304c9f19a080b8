"""Types of arguments and results: partitions and offsets, times, reports of sent batches."""
