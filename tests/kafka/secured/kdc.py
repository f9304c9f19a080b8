"""A KDC of MIT Kerberos (Debian's krb5-kdc and krb5-admin-server) with a realm of its own, on a loopback port."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.kafka.errors import KafkaUnavailable, NodeFailed
from tests.kafka.reaper import Reaper

REALM = "MONEDULA.TEST"
SERVICE = "kafka"
SYSTEM_FOLDERS = os.pathsep.join(("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/opt/krb5/sbin"))
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local")
PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user")
TIMEOUT_SECONDS = 30.0


class KdcUnavailable(KafkaUnavailable):
    """This machine has no KDC. The message says what to install."""


class Kdc:
    """Started by `start`, and ended with the session.

    Args:
        directory: for its database, its settings, and keytabs.
        port: where it listens, for UDP and TCP.
        host: the name by which clients reach the services.
    """

    def __init__(self, directory: Path, port: int, host: str = "localhost") -> None:
        self.directory = directory
        self.port = port
        self.service = f"{SERVICE}/{host}@{REALM}"
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper: Reaper | None = None

    @property
    def settings(self) -> Path:
        """The `krb5.conf` of clients and services: `KRB5_CONFIG`, and Java's `java.security.krb5.conf`."""
        return self.directory / "krb5.conf"

    @property
    def service_keytab(self) -> Path:
        """The key of the broker."""
        return self.directory / "service.keytab"

    def keytab(self, user: str) -> Path:
        """The keys of a user."""
        return self.directory / f"{user}.keytab"

    def environment(self, cache: Path | None = None) -> dict[str, str]:
        """For a client: `KRB5_CONFIG` and, with a cache of tickets, `KRB5CCNAME`."""
        return {"KRB5_CONFIG": str(self.settings), **({"KRB5CCNAME": f"FILE:{cache}"} if cache is not None else {})}

    def start(self, users: dict[str, str], reaper: Reaper | None = None) -> None:
        """Create the database with these users and their passwords, and start; returns when it listens.

        Raises:
            KdcUnavailable: the programs are not installed.
            NodeFailed: one of them failed.
        """
        tools = available()
        self.directory.mkdir(mode=0o700, parents=True)
        self._write_settings()
        _run([tools["kdb5_util"], "create", "-s", "-r", REALM, "-P", secrets.token_hex(8)], self._server_environment())
        commands = [f"addprinc -randkey {self.service}", f"ktadd -k {self.service_keytab} {self.service}"]
        for user, password in users.items():
            escaped = password.replace('"', '""')
            commands += [f'addprinc -pw "{escaped}" {user}', f"ktadd -norandkey -k {self.keytab(user)} {user}"]
        _run([tools["kadmin.local"], "-r", REALM], self._server_environment(), "\n".join(commands) + "\n")
        missing = [path for path in (self.service_keytab, *map(self.keytab, users)) if not path.exists()]
        if missing:
            raise NodeFailed(f"kadmin.local made no {missing}")
        with (self.directory / "kdc.output").open("wb") as output:
            self._process = subprocess.Popen(
                [tools["krb5kdc"], "-n", "-r", REALM],
                env=self._server_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._reaper = reaper
        if reaper is not None:
            reaper.watch(self._process.pid)
        self._wait_listening()

    def administer(self, *commands: str) -> None:
        """Run commands of `kadmin.local`."""
        lines = "\n".join(commands) + "\n"
        _run([available()["kadmin.local"], "-r", REALM], self._server_environment(), lines)

    def add(self, user: str, options: str = "") -> Path:
        """Add a user with a random key; its keytab."""
        self.keytab(user).unlink(missing_ok=True)
        self.administer(f"addprinc -randkey {options} {user}", f"ktadd -norandkey -k {self.keytab(user)} {user}")
        return self.keytab(user)

    def tickets_given(self, user: str) -> int:
        """How often the KDC has given this user a ticket with which others are got."""
        log = (self.directory / "kdc.log").read_text(errors="replace")
        issued = [line for line in log.splitlines() if "AS_REQ" in line and "ISSUE" in line]
        return sum(f"{user}@{REALM} for krbtgt/" in line for line in issued)

    def kinit(self, user: str, *, lifetime: str | None = None) -> Path:
        """Get a user's ticket with its keytab; the cache it is in.

        Args:
            user: who.
            lifetime: of the ticket, as `kinit -l` takes it; as long as may be unless given.

        Raises:
            KdcUnavailable: there is no `kinit` (krb5-user).
        """
        found = shutil.which("kinit")
        if found is None:
            raise KdcUnavailable("no `kinit`: install krb5-user")
        cache = self.directory / (f"{user}.cache" if lifetime is None else f"{user}-{lifetime}.cache")
        options = [] if lifetime is None else ["-l", lifetime]
        _run([found, "-k", "-t", str(self.keytab(user)), *options, user], {**os.environ, **self.environment(cache)})
        return cache

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait(TIMEOUT_SECONDS)
        if self._reaper is not None:
            self._reaper.forget(process.pid)

    def _write_settings(self) -> None:
        self.settings.write_text(
            f"""[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{REALM} = {{
  kdc = 127.0.0.1:{self.port}
}}
[domain_realm]
localhost = {REALM}
"""
        )
        (self.directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
kdc_listen = 127.0.0.1:{self.port}
kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
{REALM} = {{
  database_name = {self.directory}/principal
  key_stash_file = {self.directory}/stash
  acl_file = {self.directory}/acl
  max_renewable_life = 7d
}}
[logging]
kdc = FILE:{self.directory}/kdc.log
admin_server = FILE:{self.directory}/kadmin.log
"""
        )

    def _server_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment(), "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf")}

    def _wait_listening(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
                return
            except OSError as error:
                said = (self.directory / "kdc.output").read_text(errors="replace")
                if self._process.poll() is not None:
                    raise NodeFailed(f"krb5kdc ended with {self._process.returncode}: {said}") from error
                if time.monotonic() > deadline:
                    raise NodeFailed(f"krb5kdc does not listen after {TIMEOUT_SECONDS} s: {said}") from error
                time.sleep(0.05)


def available() -> dict[str, str]:
    """The programs of a KDC, and where they are.

    Raises:
        KdcUnavailable: one of them is missing.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), SYSTEM_FOLDERS))
    found = {tool: shutil.which(tool, path=path) for tool in TOOLS}
    missing = [tool for tool, where in found.items() if where is None]
    if missing:
        raise KdcUnavailable(
            f"no {', '.join(missing)}: install a KDC, on Debian `apt-get install {' '.join(PACKAGES)}`"
        )
    return {tool: where for tool, where in found.items() if where is not None}


def _run(command: list[str], environment: dict[str, str], answers: str | None = None) -> None:
    ran = subprocess.run(
        command, env=environment, input=answers, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    if ran.returncode != 0:
        raise NodeFailed(f"{command[0]}: {ran.returncode}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
