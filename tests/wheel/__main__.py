"""Looks into a wheel, installs it alone into a clean environment, and tries it on both brokers."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.kafka.tools import Record

SIZE_MAX_BYTES = 16_000_000
"""Nothing is built for size to stay below it: a wheel beyond it has something in it that nobody meant to be there."""

TOPIC = "wheel"
RECORDS = 1000
TRY = Path(__file__).with_name("smoke.py")


def main() -> None:
    """Try the wheel, or say what is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel", description=__doc__)
    parser.add_argument(
        "path", type=Path, help="a wheel, or a folder: all are looked into, and the one that fits this Python is tried"
    )
    parser.add_argument("--no-kafka", action="store_true", help="try it on the embedded broker only")
    options = parser.parse_args()
    wheels = [options.path] if options.path.suffix == ".whl" else sorted(options.path.glob("monedula-*.whl"))
    if not wheels:
        raise SystemExit(f"no wheel in {options.path}: build one with `make wheel`")
    for wheel in wheels:
        look_into(wheel)
    with tempfile.TemporaryDirectory(prefix="monedula-wheel-") as folder:
        python = install(options.path, Path(folder))
        if options.no_kafka:
            run(python, folder)
            return
        from tests.kafka import KafkaCluster  # only here: it runs where Unix is, a wheel runs on Windows too

        with KafkaCluster() as kafka:
            kafka.helper.create_topic(TOPIC, partitions=2)
            values: list[Record] = [{"key": str(number), "value": f"value {number}"} for number in range(RECORDS)]
            kafka.helper.produce(TOPIC, values, codec="zstd")
            run(python, folder, kafka.bootstrap, TOPIC, str(RECORDS))


NOTICES = "/THIRD-PARTY-NOTICES.txt"
SBOM = ".cyclonedx.json"
CRATES_MIN = 100
"""The extension links 170."""


def look_into(wheel: Path) -> None:
    """Its size; that types, licences, what Spark looks for, and an SBOM with each crate of the notices are in it."""
    size = wheel.stat().st_size
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    wanted = (
        "/py.typed",
        "/_monedula.pyi",
        "/LICENSE",
        NOTICES,
        SBOM,
        "monedula_pytest/__init__.py",
        "pyspark_monedula/__init__.py",
    )
    missing = [end for end in wanted if not any(name.endswith(end) for name in names)]
    if missing:
        raise SystemExit(f"{wheel.name} lacks {', '.join(missing)}")
    notices, sbom = (
        archive.read(next(name for name in names if name.endswith(end))).decode() for end in (NOTICES, SBOM)
    )
    # An SBOM also has what builds the crates, and those of other platforms; that no notice is missing is tested in
    # tests/house/test_release.py.
    crates = {f"{each['name']} {each['version']}" for each in json.loads(sbom)["components"]}
    unknown = sorted(set(re.findall(r"^  (\S+ \d\S*)$", notices, re.MULTILINE)) - crates)
    if unknown or len(crates) < CRATES_MIN:
        raise SystemExit(f"{wheel.name} has notices for {', '.join(unknown) or 'crates'}, which its SBOM lacks")
    if size > SIZE_MAX_BYTES:
        raise SystemExit(f"{wheel.name} has {size:,} bytes, more than {SIZE_MAX_BYTES:,}")
    print(f"{wheel.name}: {size / 1e6:.1f} MB, {len(names)} files", flush=True)


def install(path: Path, folder: Path) -> Path:
    """A clean environment with the wheel (of a folder, the one that fits) and nothing else; its interpreter."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    # --no-index: the wheel needs nothing else, or this fails.
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    command += [str(path)] if path.suffix == ".whl" else ["--find-links", str(path), "monedula"]
    subprocess.run(command, check=True, timeout=300)
    return python


def run(python: Path, folder: str, *arguments: str) -> None:
    """The smoke test, from where no source tree can be imported by mistake."""
    subprocess.run([str(python), "-I", str(TRY), *arguments], cwd=folder, check=True, timeout=120)


if __name__ == "__main__":
    main()
