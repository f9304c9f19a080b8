"""A network of one cable between the machine and a namespace, which can be made to drop all packets.

Members live inside; brokers listen on the near end. Cutting gives the neighbour a hardware address that nobody has:
packets are lost silently, as behind a dead switch. No firewall is needed for that.
"""

import os
import random
import shutil
import subprocess
from contextlib import ExitStack
from typing import Self

NOBODY = "02:00:00:00:00:99"
ATTEMPTS = 5


class EdgeUnavailable(Exception):
    """No namespaces here: not root, no `ip`, or no permission."""


class Edge:
    """The cable.

    Attributes:
        address: of the near end, on which brokers listen.
    """

    why_not = ""

    def __init__(self, number: int) -> None:
        self._name = f"mndl{number}"
        self._near, self._far = f"{self._name}a", f"{self._name}b"
        subnet = f"10.231.{number % 250}"
        self.address = f"{subnet}.1"
        self._inside = f"{subnet}.2"

    @classmethod
    def make(cls, stack: ExitStack) -> Self | None:
        """Create a network that is removed with the stack; `None` if that is impossible, and `why_not` says why."""
        if shutil.which("ip") is None or os.geteuid() != 0:
            cls.why_not = "network namespaces need root and the program `ip`"
            return None
        for _ in range(ATTEMPTS):
            edge = cls(random.randrange(10_000))
            try:
                edge._lay()
            except subprocess.CalledProcessError as error:
                cls.why_not = f"{' '.join(error.cmd)}: {error.stderr.strip()}"
                edge.remove()
                continue
            stack.callback(edge.remove)
            return edge
        return None

    @classmethod
    def required(cls, edge: "Edge | None") -> "Edge":
        """The network, if there is one.

        Raises:
            EdgeUnavailable: there is no network.
        """
        if edge is None:
            raise EdgeUnavailable(cls.why_not)
        return edge

    @property
    def prefix(self) -> list[str]:
        """The beginning of the command line of a program inside."""
        return ["ip", "netns", "exec", self._name]

    def cut(self) -> None:
        """Drop the packets that are sent from inside."""
        _ip("-n", self._name, "neigh", "replace", self.address, "lladdr", NOBODY, "dev", self._far, "nud", "permanent")

    def heal(self) -> None:
        """Let it through again."""
        subprocess.run(
            ["ip", "-n", self._name, "neigh", "del", self.address, "dev", self._far], capture_output=True, timeout=30
        )

    def remove(self) -> None:
        """Remove it; programs inside lose their network."""
        for arguments in (("netns", "del", self._name), ("link", "del", self._near)):
            subprocess.run(["ip", *arguments], capture_output=True, timeout=30)

    def _lay(self) -> None:
        _ip("netns", "add", self._name)
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._name)
        _ip("addr", "add", f"{self.address}/30", "dev", self._near)
        _ip("link", "set", self._near, "up")
        _ip("-n", self._name, "addr", "add", f"{self._inside}/30", "dev", self._far)
        _ip("-n", self._name, "link", "set", self._far, "up")
        _ip("-n", self._name, "link", "set", "lo", "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=30)
