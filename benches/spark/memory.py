"""Peak memory of a Spark session's processes: Linux keeps a high-water mark of each, and sets it back when told to."""

from contextlib import suppress
from pathlib import Path

from benches.running import high_water_bytes
from benches.spark import cpu

# To what is in memory now; see clear_refs in proc(5).
SET_BACK = "5"


def forget_peaks(jvm_pid: int) -> None:
    """Have the marks begin anew."""
    for pid in (jvm_pid, *cpu.below(jvm_pid)):
        with suppress(OSError):  # it has just ended
            Path(f"/proc/{pid}/clear_refs").write_text(SET_BACK)


def peaks(jvm_pid: int) -> tuple[int, int]:
    """Of the JVM, and of the largest Python process below it, in bytes: shared pages count in each process."""
    return high_water_bytes(jvm_pid), max(map(high_water_bytes, cpu.below(jvm_pid)), default=0)
