import subprocess
import sys

import pytest

PURE = (
    "offsets",
    "options.kafka_settings",
    "options.values",
    *(f"source.{name}" for name in ("bounds", "limits", "options", "pattern", "planning")),
)


def run(program: str) -> list[str]:
    """The words that a Python of its own prints."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.parametrize("module", ["monedula", "monedula.spark", *(f"monedula.spark.{name}" for name in PURE)])
def test_what_needs_no_spark_imports_neither_pyspark_nor_pyarrow(module: str) -> None:
    assert run(f"import sys, {module}; print(*sorted({{'pyspark', 'pyarrow'}} & sys.modules.keys()))") == []


def test_what_spark_imports_in_every_session_loads_nothing_of_ours() -> None:
    # Spark imports it in each session, also in those that never read Kafka.
    assert run("import sys, pyspark_monedula; print(*(name for name in sys.modules if name[:8] == 'monedula'))") == []


@pytest.mark.parametrize(
    "use",
    [
        "import pyspark_monedula",
        "import monedula.spark; monedula.spark.register(None)",
        "from monedula.spark import LagListener",
    ],
)
def test_without_spark_the_error_says_what_to_install(use: str) -> None:
    program = f"""
import sys
sys.modules["pyspark"] = None
try:
    {use}
except ImportError as error:
    print(error)
"""
    said = " ".join(run(program))
    assert "pip install 'monedula[spark]'" in said
    assert "PySpark 4.0 or newer" in said
