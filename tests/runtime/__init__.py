"""The process around a consumer: the GIL, signals, forks, exit, threads, sockets. Each test in a Python of its own."""
