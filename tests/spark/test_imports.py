import subprocess
import sys

PURE = ("bounds", "kafka_settings", "limits", "offsets", "options", "pattern", "planning", "values")


def test_what_needs_no_spark_imports_neither_pyspark_nor_pyarrow() -> None:
    modules = ", ".join(f"monedula.spark.{name}" for name in PURE)
    program = f"import sys, {modules}; print(*sorted({{'pyspark', 'pyarrow'}} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == []
