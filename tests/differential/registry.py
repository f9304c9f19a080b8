"""Every scenario, by its API and name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.differential.script import Script


@dataclass(frozen=True)
class Scenario:
    """One run on both brokers."""

    name: str
    run: Callable[[Script], None]
    nodes: int
    reqs: tuple[str, ...]
    secured: bool = False
    fresh: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    api: str,
    versions: Iterable[int] | None = None,
    *,
    nodes: int = 1,
    reqs: tuple[str, ...] = (),
    secured: bool = False,
    fresh: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a scenario, or with `versions` one for each, which it then takes as its second argument.

    With `secured` it runs on clusters where everybody has to log in, and where an authorizer decides. With `fresh`
    nothing was asked of the clusters before: their coordinators' topics do not exist.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        stem = f"{api}-{function.__name__}"
        if versions is None:
            SCENARIOS[stem] = Scenario(stem, function, nodes, reqs, secured, fresh)
        for version in versions or ():
            name = f"{stem}-v{version}"
            SCENARIOS[name] = Scenario(name, _bound(function, version), nodes, reqs, secured, fresh)
        return function

    return register


def _bound(function: Callable[..., None], version: int) -> Callable[[Script], None]:
    return lambda script: function(script, version)
