"""The process around the clients: its exit, forks, signals, threads and greenlets."""
