"""Tries a built wheel as its users will get it; `python -m tests.wheel dist`."""
