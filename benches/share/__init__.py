"""Share groups beside Java's and confluent-kafka's consumers of them: `python -m benches.share`, see README.md."""
