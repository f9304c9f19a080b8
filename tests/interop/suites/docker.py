"""`docker compose stop kafka-4` and `start kafka-4`, as Sarama's suite calls them, on a node of the embedded broker.

It is run in the place of `docker`, and asks the toxics' API. Whatever else is asked of it fails.
"""

import json
import os
import sys
from pathlib import Path
from urllib.request import Request, urlopen


def install(folder: Path) -> str:
    """Write a program `docker` into a folder. Returns a PATH with it in front."""
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def main() -> None:
    """Stop or start a node."""
    match sys.argv[1:]:
        case ["compose", "stop" | "start" as what, service]:
            content = json.dumps({"enabled": what == "start"}).encode()
            url = f"{os.environ['TOXIPROXY_ADDR']}/proxies/{service.replace('-', '')}"
            with urlopen(Request(url, content)) as response:
                response.read()
        case other:
            sys.exit(f"docker: there are no containers here: {' '.join(other)}")


if __name__ == "__main__":
    main()
