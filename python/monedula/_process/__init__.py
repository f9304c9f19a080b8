"""The process around the clients: forks, signals, threads and greenlets."""
