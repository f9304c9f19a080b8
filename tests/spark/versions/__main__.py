"""Runs this folder's tests on each Spark that the source supports, in environments kept in `.cache/spark/`."""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "spark"
LOCK = ROOT / "tests" / "requirements.lock"
HELD = ("pyarrow", "pytest", "pytest-asyncio", "pytest-timeout")
INSTALL_TIMEOUT_SECONDS = 1800
RUN_TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class Environment:
    """A Spark, and what comes with it.

    Attributes:
        spark: the version of PySpark.
        extra: of PySpark, empty for none.
        packages: what else is installed.
    """

    spark: str
    extra: str = ""
    packages: tuple[str, ...] = ()

    @property
    def requirements(self) -> list[str]:
        """What is installed, beside what these need in turn: what `monedula[spark]` asks for, and pytest. No pandas."""
        pyspark = f"pyspark[{self.extra}]=={self.spark}" if self.extra else f"pyspark=={self.spark}"
        return [pyspark, *HELD, *self.packages]


# The newest of each minor version. One has Spark Connect, and that of Iceberg what landing jobs need: their tests are
# skipped elsewhere.
ENVIRONMENTS = {
    each.spark: each
    for each in (
        Environment("4.0.5"),
        Environment("4.1.4", packages=("pyiceberg[sql-sqlite]", "polars")),
        Environment("4.2.1", extra="connect"),
        Environment("4.3.0"),
    )
}


def main() -> None:
    """Install what is missing, run, and tell which versions passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.versions", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="version", help=f"of {', '.join(ENVIRONMENTS)}; all by default")
    parser.add_argument("--install-only", action="store_true", help="make the environments, run nothing")
    options, pytest_options = parser.parse_known_args()
    if unknown := set(options.versions) - set(ENVIRONMENTS):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(ENVIRONMENTS)}")
    outcomes = {}
    for version in options.versions or ENVIRONMENTS:
        python = install(ENVIRONMENTS[version])
        if not options.install_only:
            outcomes[version] = run(version, python, pytest_options)
    for version, passed in outcomes.items():
        print(f"Spark {version}: {'passed' if passed else 'FAILED'}", flush=True)
    raise SystemExit(not all(outcomes.values()))


def install(environment: Environment) -> Path:
    """The interpreter of an environment with this Spark and this tree's monedula, made first if it is not there."""
    pinned = _constraints(environment)
    wanted = [*environment.requirements, *pinned]
    digest = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:12]
    folder = CACHE / f"{environment.spark}-{digest}"
    python = folder / "bin" / "python"
    complete = folder / ".complete"
    if not complete.exists():
        print(f"=== installing Spark {environment.spark} into {folder.relative_to(ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(pinned))
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--constraint", str(constraints), *environment.requirements]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_SECONDS)
        # The packages of this tree, with the extension that `make extension` built.
        site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
        (site / "monedula.pth").write_text(f"{ROOT / 'python'}\n")
        complete.touch()
    return python


def run(version: str, python: Path, pytest_options: list[str]) -> bool:
    """Whether all of this folder's tests passed on this Spark."""
    print(f"=== Spark {version}", flush=True)
    begun = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"MONEDULA_EXPECTED_SPARK": version}
    command = [str(python), "-m", "pytest", "-m", "not slow", str(Path(__file__).parent), *pytest_options]
    ran = subprocess.run(command, cwd=ROOT, env=environment, timeout=RUN_TIMEOUT_SECONDS)
    print(f"Spark {version}: {time.monotonic() - begun:.0f} s", flush=True)
    return ran.returncode == 0


def _constraints(environment: Environment) -> list[str]:
    """The locked versions of what is shared; without their hashes, since not all that is installed has any there."""
    names = {*HELD, *(package.partition("[")[0] for package in environment.packages)}
    pinned = re.findall(r"^([\w.-]+==\S+(?: ; [^\\\n]+)?)", LOCK.read_text(), flags=re.MULTILINE)
    return [each.strip() for each in pinned if each.split("==")[0] in names]


if __name__ == "__main__":
    main()
