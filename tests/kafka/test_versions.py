"""Other versions of Kafka: their jars stand beside the newest's, and the selection that runs on them is there."""

from pathlib import Path

import pytest

from tests.kafka import jars, versions


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        (None, ()),
        ("3.7.2", ("-Dkafka.version=3.7.2", "-Dkafka.tools.version=3.7.2")),
        ("4.0.2", ("-Dkafka.version=4.0.2", "-Dkafka.tools.version=4.0.2")),
        # Of what is newer than the tools, the newest tools.
        ("99.0.0", ("-Dkafka.version=99.0.0", "-Dkafka.tools.version=4.3.1")),
    ],
)
def test_each_kafka_has_jars_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, asked: tuple[str, ...]
) -> None:
    fetched: list[tuple[str, ...]] = []
    monkeypatch.setattr(jars, "_fetch", lambda _wanted, _libs, *properties: fetched.append(properties))
    monkeypatch.setenv(jars.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv(jars.VERSION_VARIABLE, raising=False)
    newest = jars._directory(jars.KAFKA)
    fetched.clear()
    if version is not None:
        monkeypatch.setenv(jars.VERSION_VARIABLE, version)
    assert jars._directory(jars.KAFKA) == (newest if version is None else Path(f"{newest}-{version}"))
    assert fetched == ([] if version is None else [asked])
    # Spark's connector is the same on all.
    assert "-" not in jars._directory(jars.SPARK_CONNECTOR).name.removeprefix("spark-")


@pytest.mark.parametrize(("version", "tools"), [("3.7.2", "3.7.2"), ("4.3.1", "4.3.1"), ("99.0.0", "4.3.1")])
def test_tools_run_on_clients_of_their_own(monkeypatch: pytest.MonkeyPatch, version: str, tools: str) -> None:
    monkeypatch.setattr(jars, "_kafka", str)
    monkeypatch.setenv(jars.VERSION_VARIABLE, version)
    jars.tools_class_path.cache_clear()
    try:
        assert jars.tools_class_path() == f"{tools}/*"
    finally:
        jars.tools_class_path.cache_clear()


def test_versions_are_compared_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.VERSION_VARIABLE, "3.10.1")
    assert jars.speaks("3.9")
    assert jars.speaks("3.10")
    assert not jars.speaks("4.0")


def test_the_selection_is_there() -> None:
    assert all((jars.REPOSITORY_ROOT / path).exists() for path in versions.SELECTION)
    assert versions.VERSIONS[-1].startswith("4.4")
