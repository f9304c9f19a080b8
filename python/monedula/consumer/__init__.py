"""Reading: `Consumer` is in `sync`, `AsyncConsumer` in `aio`; what both do is in `_base` and `_group`."""
