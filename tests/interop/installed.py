"""Packages for scenarios in other languages, fetched once from their registries and cached beside Kafka's jars."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.kafka import KafkaUnavailable
from tests.kafka.jars import cache_directory
from tests.kafka.kept import digest, kept

KAFKAJS = Path(__file__).with_name("kafkajs")
SCHEMAREGISTRY = Path(__file__).with_name("schemaregistry")
FRANZ = Path(__file__).with_name("franz")
AZURITE = Path(__file__).parents[1] / "landing" / "azurite"

INSTALL_SECONDS = 600


@cache
def kafkajs_modules() -> Path:
    """`node_modules` with KafkaJS as `package-lock.json` pins it.

    Raises:
        KafkaUnavailable: no Node.js, or npm could not fetch it.
    """
    return _modules(KAFKAJS)


@cache
def schemaregistry_modules() -> Path:
    """`node_modules` with Confluent's client of schema registries as `package-lock.json` pins it.

    Raises:
        KafkaUnavailable: no Node.js, or npm could not fetch it.
    """
    return _modules(SCHEMAREGISTRY)


@cache
def azurite_modules() -> Path:
    """`node_modules` with azurite, which answers as Azure's storage, as `package-lock.json` pins it.

    Raises:
        KafkaUnavailable: no Node.js, or npm could not fetch it.
    """
    return _modules(AZURITE)


def _modules(of: Path) -> Path:
    sources = (of / "package.json", of / "package-lock.json")

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        arguments = ["ci", "--ignore-scripts", "--no-fund", "--no-audit"]
        _run("npm", arguments, folder, needs="Node.js 18 or newer, with npm")

    return kept(cache_directory() / f"{of.name}-{digest(*sources)}", install) / "node_modules"


@cache
def franz_program() -> Path:
    """The Go program over franz-go as `go.sum` pins it.

    Raises:
        KafkaUnavailable: no Go, or the program could not be built.
    """
    return _go("franz", ["build"], ".", sorted(FRANZ.glob("*.go")))


@cache
def franz_tests() -> Path:
    """franz-go's own tests of its client, of the version that `go.sum` pins.

    Raises:
        KafkaUnavailable: no Go, or the tests could not be built.
    """
    return _go("franz-tests", ["test", "-c"], "github.com/twmb/franz-go/pkg/kgo", [])


def _go(name: str, verb: Sequence[str], package: str, sources: Sequence[Path]) -> Path:
    def build(folder: Path) -> None:
        environment = {"GOFLAGS": "-mod=readonly -buildvcs=false", "CGO_ENABLED": "0"}
        arguments = [*verb, "-trimpath", "-o", str(folder / name), package]
        _run("go", arguments, FRANZ, environment, needs="Go 1.26 or newer")

    pinned = digest(*sources, FRANZ / "go.mod", FRANZ / "go.sum")
    return kept(cache_directory() / f"{name}-{pinned}", build) / name


def _run(
    program: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, needs: str
) -> None:
    found = shutil.which(program)
    if found is None:
        raise KafkaUnavailable(f"no `{program}` in PATH: install {needs}")
    command = [found, *arguments]
    surroundings = {**os.environ, **(environment or {})}
    try:
        ran = subprocess.run(
            command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailable(f"{' '.join(command)} took more than {INSTALL_SECONDS} s") from error
    if ran.returncode != 0:
        raise KafkaUnavailable(f"{' '.join(command)} failed:\n{(ran.stdout + ran.stderr)[-2000:]}")
