"""What `import monedula` costs over a bare Python, and the size of the wheel. Asserts nothing."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = 20
HEAVY = ("pyarrow", "pandas", "polars", "numpy", "asyncio")


def seconds(code: str) -> float:
    """Wall time of one Python that runs this code and ends."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure both in turns, so that a busy moment hits both alike."""
    bare, ours = [], []
    seconds("import monedula")  # compiles the .pyc files, and shows at once whether it is installed
    for _ in range(RUNS):
        bare.append(seconds("pass"))
        ours.append(seconds("import monedula"))
    over_ms = (statistics.median(ours) - statistics.median(bare)) * 1000
    print(f"import monedula: {over_ms:.1f} ms over bare Python (median of {RUNS})")
    code = f"import sys; import monedula; print(*(name for name in {HEAVY} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    print(f"imported with it, of {', '.join(HEAVY)}: {loaded or 'none'}")
    wheels = sorted((ROOT / "dist").glob("monedula-*.whl"), key=lambda path: path.stat().st_mtime)
    for wheel in wheels[-1:]:
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
    if not wheels:
        print("no wheel in dist/: build one first")


if __name__ == "__main__":
    main()
