"""Sending: `Producer` is in `sync`, `AsyncProducer` in `aio`."""
