"""A picture of a terminal: what the command line shows of a topic and of a group's lag, on the embedded broker.

python docs/_ext/terminal.py docs/_static/terminal.svg
"""

import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import monedula
from monedula.testing import Broker
from rich.console import Console
from rich.text import Text

COLUMNS = 100
ORDERS = [(f"customer-{number % 3}", f'{{"id": {number}, "amount": {number * 1.5}}}') for number in range(6)]
COMMANDS = ["monedula consume orders -n 4", "monedula groups lag billing"]


def shown(command: str, bootstrap: str) -> str:
    """What a command writes to a terminal, with its colours."""
    ours, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, COLUMNS, 0, 0))
    environment = {**os.environ, "MONEDULA_BOOTSTRAP_SERVERS": bootstrap, "TERM": "xterm-256color"}
    arguments = [sys.executable, "-m", *command.split()]
    process = subprocess.Popen(arguments, stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 1 << 16):
            written += part
    except OSError:  # EIO: the other end is closed
        pass
    os.close(ours)
    if process.wait(60):
        raise SystemExit(f"{command} failed:\n{written.decode()}")
    return written.decode().replace("\r\n", "\n")


def main(path: Path) -> None:
    """Fill a topic, let a group read a part of it, run the commands, draw."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with Broker(topics=["orders:3"]) as broker:
        broker.append("orders", ORDERS)
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
        with monedula.Consumer(settings, topics=["orders"]) as consumer:
            consumer.commit(next(consumer.batches(max_rows=2, timeout=30.0)))
        for command in COMMANDS:
            console.print(f"[bold green]$[/] {command}", highlight=False)
            console.print(Text.from_ansi(shown(command, broker.bootstrap_servers)))
    svg = console.export_svg(title="monedula")
    # A page loads no font from elsewhere.
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
