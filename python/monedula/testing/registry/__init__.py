"""A schema registry with Confluent's API, for tests: `Broker(registry=True)`.

It is a server of Python's standard library. `routes` says which path is answered by what, `store` is what it remembers,
and each kind of schema has a package that reads schemas and says whether one can read what another has written. It
never decodes a value.
"""

from monedula.testing.registry.registry import Registry
from monedula.testing.registry.server import RegistryRequest

__all__ = ["Registry", "RegistryRequest"]
