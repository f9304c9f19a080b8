"""What is done once in a worker process of Spark, in a process of its own."""

import subprocess
import sys
import textwrap

import pytest

PAIR = """
import gc, os, socket
from monedula.spark.process import tune
listener = socket.create_server(("127.0.0.1", 0))
jvm = socket.create_connection(listener.getsockname())
ours, _ = listener.accept()
listener.close()

def is_prompt():
    return ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1

def converse():
    jvm.sendall(b"task")
    ours.recv(100)
    ours.sendall(b"rows")
    jvm.recv(100)
"""


def _run(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PAIR + textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_QUICKACK IS LINUX'S: workers elsewhere are not tuned")
def test_the_collection_after_a_task_has_the_next_one_acknowledged_at_once() -> None:
    said = _run("""
        for _ in range(8):
            converse()
        before = is_prompt()
        tune()
        for _ in range(8):
            converse()
        answered = is_prompt()
        gc.collect()
        print(before, answered, is_prompt())
    """)
    assert said == "False False True"


def test_what_is_loaded_is_not_looked_through_again() -> None:
    said = _run("""
        tune()
        frozen = gc.get_freeze_count()
        tune()
        print(frozen > 1000, len(gc.get_objects()) < 100, len(gc.callbacks) <= 1)
    """)
    assert said == "True True True"


def test_a_connection_that_is_closed_since_harms_nobody() -> None:
    said = _run("""
        tune()
        with open(os.devnull) as other:
            os.dup2(other.fileno(), ours.fileno())  # the number is now another file's
            gc.collect()
            print(os.fstat(ours.fileno()).st_rdev == os.fstat(other.fileno()).st_rdev)
    """)
    assert said == "True"


@pytest.mark.parametrize("limited", [True, False])
def test_under_a_limit_threads_share_an_arena(limited: bool) -> None:
    """Each that allocates would otherwise have one of its own, for which glibc maps 64 MB."""
    said = _run(f"""
        import ctypes, resource, threading
        if {limited}:
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        tune()

        def mapped_kb():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmSize"))

        allocated, ends = threading.Event(), threading.Event()

        def allocate():
            ctypes.CDLL(None).malloc(100)
            allocated.set()
            ends.wait()

        before_kb = mapped_kb()
        thread = threading.Thread(target=allocate)
        thread.start()
        allocated.wait()
        print(mapped_kb() - before_kb > 64 << 10)
        ends.set()
    """)
    assert said == str(not limited)
