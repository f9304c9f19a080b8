"""`monedula broker`: runs the embedded broker as a program."""

import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer import Option

from monedula.cli.files import write_text
from monedula.cli.running import FAILED, WRONG_ARGUMENTS, handled
from monedula.errors import ArgumentError, ConfigError, KafkaError
from monedula.testing import Broker

_TRACE = 5
_REGISTRY_PORT = 8081

# Seconds between two calls of `Broker.log`, which pass the broker's log lines to `logging`.
_LOOK = 0.2


def broker(
    port: Annotated[int, Option(help="Port of the first node; each further one has the next. 0: any.")] = 9092,
    nodes: Annotated[int, Option(help="How many nodes to play.")] = 1,
    first_node_id: Annotated[int, Option(help="Id of the first node; each further one has the next.")] = 1,
    rack: Annotated[
        list[str] | None, Option(help="The rack of the next node, in order; empty for none. Repeatable.")
    ] = None,
    topic: Annotated[list[str] | None, Option(help="A topic to make, as name or name:partitions. Repeatable.")] = None,
    data_dir: Annotated[
        Path | None, Option(help="Where topics, groups, users and rights are kept; in memory only without it.")
    ] = None,
    host: Annotated[str, Option(help="Where to listen.")] = "127.0.0.1",
    setting: Annotated[list[str] | None, Option(help="A broker setting of Kafka's, as key=value. Repeatable.")] = None,
    first_use: Annotated[
        str, Option(help="How long new topics and the first coordinators are unknown: once, or kafka for Kafka's time.")
    ] = "once",
    security: Annotated[
        str, Option(help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; with TLS the broker makes its own CA.")
    ] = "PLAINTEXT",
    listener: Annotated[
        list[str] | None,
        Option(help="A further security protocol, for which each node listens on a port of its own. Repeatable."),
    ] = None,
    user: Annotated[
        list[str] | None,
        Option(
            help="A user who may log in with SASL; the password is in MONEDULA_BROKER_PASSWORD_<NAME>, the name in "
            "capitals, or in --users-file. Repeatable."
        ),
    ] = None,
    users_file: Annotated[
        Path | None, Option(help="A file with users who may log in, one name=password a line.")
    ] = None,
    client_auth: Annotated[
        str, Option(help="Whether clients show a certificate: none, requested or required.")
    ] = "none",
    super_user: Annotated[
        list[str] | None,
        Option(help="A user who may do everything; others then need ACLs for what they do. Repeatable."),
    ] = None,
    ca_file: Annotated[
        Path | None, Option(help="Where to write the certificate of the CA, for clients to trust.")
    ] = None,
    control_port: Annotated[
        int | None, Option(help="Where to take commands as JSON, on loopback; nowhere without it.")
    ] = None,
    registry: Annotated[
        bool, Option("--registry", help="Run a schema registry with Confluent's API beside the nodes.")
    ] = False,
    registry_port: Annotated[
        int | None, Option(help="Port of the registry, which it then runs; 0: any. [default with --registry: 8081]")
    ] = None,
    verbose: Annotated[bool, Option("--verbose", help="Log every request and answer.")] = False,
    trace: Annotated[bool, Option("--trace", help="Log their bytes too.")] = False,
) -> None:
    """Run a Kafka-compatible broker.

    For trying things and for tests, until Ctrl-C or SIGTERM.

    Examples:
        monedula broker --topic orders:3
        monedula broker --port 0 --nodes 3 --data-dir kafka-data
        monedula broker --nodes 2 --rack a --rack b --first-node-id 0
        monedula broker --security SSL --client-auth required --ca-file ca.pem
        monedula broker --port 0 --security SSL --ca-file ca.pem --listener PLAINTEXT
        monedula broker --port 0 --registry --registry-port 0
    """
    _log_to_stderr(_TRACE if trace else logging.DEBUG if verbose else logging.WARNING)
    try:
        running = Broker(
            nodes,
            topic or (),
            port=port,
            racks=rack or (),
            first_node_id=first_node_id,
            data_dir=data_dir,
            host=host,
            settings=dict(_pair(text) for text in setting or ()),
            control_port=control_port,
            first_use=first_use,  # type: ignore[arg-type]
            security=security,  # type: ignore[arg-type]
            listeners=listener or (),  # type: ignore[arg-type]
            users=_users(user or (), users_file),
            client_auth=client_auth,  # type: ignore[arg-type]
            super_users=super_user or (),
            registry={"port": _REGISTRY_PORT if registry_port is None else registry_port}
            if registry or registry_port is not None
            else False,
        )
    except (ArgumentError, ConfigError) as error:
        _give_up(str(error), WRONG_ARGUMENTS)
    except KafkaError as error:
        _give_up(str(error), FAILED)
    # No threading.Event: a handler that sets it while this thread is in wait() waits for a lock that this thread has.
    stopped: list[int] = []
    with handled(lambda number, _: stopped.append(number), signal.SIGINT, signal.SIGTERM), running:
        if ca_file is not None:
            _write_ca(running, ca_file)
        # Flushed, because scripts wait for this line on a pipe.
        print(f"bootstrap.servers={running.bootstrap_servers}", flush=True)
        for protocol in listener or ():
            # Checked at the start: there is a listener for each protocol.
            servers = running.bootstrap_servers_of(protocol.upper())  # type: ignore[arg-type]
            print(f"bootstrap.servers.{protocol.upper()}={servers}", flush=True)
        if running.control_address is not None:
            print(f"control.address={running.control_address}", flush=True)
        if registry or registry_port is not None:
            print(f"schema.registry.url={running.schema_registry_url}", flush=True)
        while not stopped:
            running.log()
            time.sleep(_LOOK)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        _give_up(f"--setting {text}: a setting is written key=value", WRONG_ARGUMENTS)
    return key, value


def _users(names: Iterable[str], file: Path | None) -> dict[str, str]:
    """The users with their passwords. These come from a file or the environment, because others can see arguments."""
    users = {}
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            _give_up(f"--users-file {file}: {error.strerror}", FAILED)
        except UnicodeDecodeError:
            _give_up(f"--users-file {file} is not UTF-8", FAILED)
        for number, line in enumerate(lines, 1):
            name, separator, password = line.partition("=")
            if line and not separator:
                _give_up(f"--users-file {file}: line {number} is not name=password", WRONG_ARGUMENTS)
            if line:
                users[name] = password
    for name in names:
        variable = f"MONEDULA_BROKER_PASSWORD_{re.sub('[^A-Z0-9]', '_', name.upper())}"
        found = os.environ.get(variable, users.get(name))
        if not found:
            _give_up(f"--user {name}: neither {variable} nor --users-file has a password", WRONG_ARGUMENTS)
        users[name] = found
    return users


def _write_ca(running: Broker, file: Path) -> None:
    try:
        write_text(file, running.ca_pem)
    except OSError as error:
        _give_up(f"--ca-file {file}: {error.strerror}", FAILED)
    except KafkaError as error:
        _give_up(f"--ca-file {file}: {error}", FAILED)


def _give_up(problem: str, code: int) -> NoReturn:
    print(f"monedula broker: {problem}", file=sys.stderr)
    raise typer.Exit(code)


def _log_to_stderr(level: int) -> None:
    logging.addLevelName(_TRACE, "TRACE")
    logging.basicConfig(stream=sys.stderr, force=True, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("monedula.broker").setLevel(level)
