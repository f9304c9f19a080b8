"""What `monedula` is in a shell of the tests: hands its streams to the process that forks commands, and waits.

A program of its own, `python -IS forked_command.py SOCKET ARGUMENTS...`, which imports next to nothing.
"""

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM)

# Until it is known to whom they are passed on.
signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
news, status = os.pipe()
request = {"arguments": sys.argv[2:], "cwd": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - an import
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [json.dumps(request).encode()], [0, 1, 2, status])
os.close(status)
# The command alone has the streams, so that others in a pipe learn of its end.
for stream in (0, 1, 2):
    os.close(stream)
with os.fdopen(news) as lines:
    pid = int(lines.readline())
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = os.waitstatus_to_exitcode(int(lines.readline()))
os._exit(code if code >= 0 else 128 - code)
