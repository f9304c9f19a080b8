"""Keystores as Java's own `keytool` writes them: JKS and PKCS#12."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from tests.kafka import jars
from tests.kafka.errors import KafkaError, KafkaUnavailable

Kind = Literal["JKS", "PKCS12"]
TIMEOUT_SECONDS = 60


def converted(source: Path, target: Path, kind: Kind, password: str, key_password: str | None = None) -> Path:
    """A PKCS#12 file of one key and its chain as another store with the same password.

    Args:
        source: the file; its store's and its key's password are the same.
        target: the new store.
        kind: of the new store.
        password: of both stores.
        key_password: of the key in a JKS; by default that of the store.
    """
    target.unlink(missing_ok=True)
    alias = source.name.removesuffix(".p12")
    _keytool(
        ["-importkeystore", "-noprompt", "-srckeystore", str(source), "-srcstoretype", "PKCS12"],
        ["-destkeystore", str(target), "-deststoretype", kind, "-srcalias", alias],
        {"-srcstorepass": password, "-deststorepass": password, "-destkeypass": key_password or password},
    )
    return target


def truststore(certificate: Path, target: Path, kind: Kind, password: str) -> Path:
    """A store in which Java trusts a certificate.

    Args:
        certificate: PEM.
        target: the new store.
        kind: of the new store.
        password: of the new store.
    """
    target.unlink(missing_ok=True)
    _keytool(
        ["-importcert", "-noprompt", "-alias", "ca", "-file", str(certificate)],
        ["-keystore", str(target), "-storetype", kind],
        {"-storepass": password},
    )
    return target


def _keytool(action: list[str], options: list[str], passwords: dict[str, str]) -> None:
    # Passwords by `:env`, not on the command line.
    names = {option: f"KEYTOOL{number}" for number, option in enumerate(passwords)}
    arguments = [word for option, name in names.items() for word in (f"{option}:env", name)]
    environment = {**os.environ, **{names[option]: password for option, password in passwords.items()}}
    command = [_path(), "-J-XX:TieredStopAtLevel=1", "-J-Duser.language=en", *action, *options, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_SECONDS)
    if ran.returncode != 0:
        raise KafkaError(f"{' '.join(command)}: {ran.returncode}\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")


def _path() -> str:
    beside = Path(os.path.realpath(jars.java())).parent / "keytool"
    found = str(beside) if beside.exists() else shutil.which("keytool")
    if found is None:
        raise KafkaUnavailable("no `keytool` beside `java` or in PATH: it comes with every JDK and JRE")
    return found
