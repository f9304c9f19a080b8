"""A fork while the core's thread writes to the log: the child can write to the same streams."""

from tests.runtime.script import run

OPEN = """
import logging
from monedula.testing import Broker

broker = Broker(topics={"orders": 1})
"""

STREAM = """
writing, forks, held = threading.Event(), threading.Event(), threading.Lock()

class Stream:
    # As a stream of the standard library, which no fork gives back.
    def write(self, text):
        with held:
            writing.set()
            forks.wait()
            time.sleep(0)  # the thread that forks goes on

    def flush(self):
        pass

handler = logging.StreamHandler(Stream())
logging.getLogger("monedula").addHandler(handler)
logging.getLogger("monedula").setLevel("DEBUG")
client = monedula.Admin(bootstrap_servers=broker.bootstrap_servers)
os.register_at_fork(before=forks.set)
threading.Thread(target=client.list_topics).start()
writing.wait()
child = os.fork()
if child == 0:
    signal.alarm(120)
    os._exit(7 if held.acquire(timeout=10) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_until_a_line_is_written() -> None:
    assert run(OPEN + STREAM) == "7\n"


STUCK = """
writing, free, held = threading.Event(), threading.Event(), threading.Lock()

class Handler(logging.Handler):
    def emit(self, record):
        writing.set()
        with held:
            pass

logging.getLogger("monedula").addHandler(Handler())
logging.getLogger("monedula").setLevel("DEBUG")
client = monedula.Admin(bootstrap_servers=broker.bootstrap_servers)
with held:
    threading.Thread(target=client.list_topics).start()
    writing.wait()
    child = os.fork()
    if child == 0:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_does_not_wait_for_a_handler_that_waits_for_the_thread_that_forks() -> None:
    assert run(OPEN + STUCK) == "7\n"


PIPE = """
reading, written = os.pipe()
stream = os.fdopen(written, "w")
logging.basicConfig(level="DEBUG", stream=stream)

def drain():
    while os.read(reading, 64):
        pass

def work():
    while not over.is_set():
        with monedula.Admin(bootstrap_servers=broker.bootstrap_servers) as client:
            client.list_topics()

over = threading.Event()
threading.Thread(target=drain, daemon=True).start()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
ended = []
for _ in range(40):
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a child that hangs dies of it
        stream.write("child")
        stream.flush()
        os._exit(7)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
for thread in threads:
    thread.join()
print(set(ended))
"""


def test_children_that_are_forked_while_the_log_is_written_can_write_to_it() -> None:
    assert run(OPEN + PIPE) == "{7}\n"
