"""One file a peer. Each runs as `python -m benches.peers.<name>` and prints one JSON line; see `benches.measure`."""
