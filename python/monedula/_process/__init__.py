"""Process-wide concerns of clients: forks, signals, threads and greenlets."""
