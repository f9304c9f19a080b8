"""What must hold on every Spark that the source supports; `python -m tests.spark.versions` runs it on each of them."""
