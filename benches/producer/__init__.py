"""The producer beside its peers; see README.md."""
