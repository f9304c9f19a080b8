"""Share groups (KIP-932): `ShareConsumer` is in `sync`, `AsyncShareConsumer` in `aio`; what both do is in `_base`."""
