"""Commands of Kafka's own tools, by chapter. Those of a chapter run in order; later ones see what earlier ones did.

`{t}` is a topic's name of the chapter's own, `{g}` a group's, `{dir}` a folder with the files of `FILES`.
"""

from dataclasses import dataclass

from tests.interop import java

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"


@dataclass(frozen=True)
class Command:
    """One call of a tool.

    Attributes:
        main: the class.
        line: its arguments besides `--bootstrap-server`, as in a shell without quoting.
        given: its standard input.
    """

    main: str
    line: str
    given: str = ""

    def __str__(self) -> str:
        return f"{self.main.rpartition('.')[2]} {self.line}"


FILES = {
    "all.json": '{"topics": [{"topic": "{t}"}], "version": 1}',
    "move.json": '{"version": 1, "partitions": [{"topic": "{t}", "partition": 0, "replicas": [1]}]}',
    "away.json": '{"version": 1, "partitions": [{"topic": "{t}", "partition": 0, "replicas": [9]}]}',
    "elect.json": '{"partitions": [{"topic": "{t}", "partition": 0}]}',
    "before.json": '{"version": 1, "partitions": [{"topic": "{t}", "partition": 0, "offset": 2}]}',
    "beyond.json": '{"version": 1, "partitions": [{"topic": "{t}", "partition": 0, "offset": 99}]}',
    "none.json": '{"version": 1, "partitions": [{"topic": "{t}-none", "partition": 0, "offset": 1}]}',
    "offsets.csv": "{t},0,1\n",
    "configs.properties": "retention.ms=70000\ncleanup.policy=compact\n",
}

TEN = "".join(f"v{number}\n" for number in range(10))


def _of(main: str, *lines: str) -> list[Command]:
    return [Command(main, line) for line in lines]


def _filled(given: str = TEN, more: str = "") -> list[Command]:
    return [
        Command(java.TOPICS, "--create --topic {t} --partitions 1"),
        Command(java.CONSOLE_PRODUCER, f"--topic {{t}} {more}".strip(), given),
    ]


CHAPTERS: dict[str, list[Command]] = {
    "topics": _of(
        java.TOPICS,
        "--create --topic {t} --partitions 3",
        "--create --topic {t} --partitions 3",
        "--create --topic {t} --if-not-exists",
        "--create --topic a/b",
        "--create --topic {t}-2 --replication-factor 2",
        "--create --topic {t}-0 --partitions 0",
        "--create --topic {t}.c --config cleanup.policy=compact --config retention.ms=60000",
        "--create --topic {t}_c",
        "--create --topic {t}-x --config no.such=1",
        "--create --topic {t}-y --config retention.ms=soon",
        "--create --topic {t}-r --replica-assignment 1,1",
        "--list --topic {t}.*",
        "--list --exclude-internal --topic {t}.*",
        "--list --topic {t}-none",
        "--describe --topic {t}",
        "--describe --topic {t}.c",
        "--describe --topic {t}-none",
        "--describe --topic {t}-none --if-exists",
        "--describe --topics-with-overrides --topic {t}.*",
        "--describe --under-replicated-partitions --topic {t}",
        "--describe --unavailable-partitions --topic {t}",
        "--describe --under-min-isr-partitions --topic {t}",
        "--describe --at-min-isr-partitions --topic {t}",
        "--alter --topic {t} --partitions 5",
        "--alter --topic {t} --partitions 2",
        "--alter --topic {t}-r --partitions 3 --replica-assignment 1,1,1",
        "--describe --topic {t}-r",
        "--delete --topic {t}-r",
        "--delete --topic {t}-none",
        "--delete --topic {t}-none --if-exists",
    ),
    "configs": [
        Command(java.TOPICS, "--create --topic {t}"),
        *_of(
            java.CONFIGS,
            "--alter --topic {t} --add-config retention.ms=60000,cleanup.policy=[compact,delete]",
            "--describe --topic {t}",
            "--describe --all --topic {t}",
            "--alter --topic {t} --delete-config retention.ms",
            "--alter --topic {t} --add-config-file {dir}/configs.properties",
            "--describe --topic {t}",
            "--alter --topic {t} --add-config retention.ms=soon",
            "--alter --topic {t} --add-config no.such=1",
            "--alter --topic {t} --delete-config max.message.bytes",
            "--describe --topic {t}-none",
            "--alter --broker 1 --add-config log.cleaner.threads=2",
            "--describe --broker 1",
            "--alter --broker 1 --delete-config log.cleaner.threads",
            "--alter --broker 1 --add-config node.id=7",
            "--alter --broker-defaults --add-config log.retention.ms=100000",
            "--describe --broker-defaults",
            "--alter --broker-defaults --delete-config log.retention.ms",
            "--alter --user {t} --add-config producer_byte_rate=1024,request_percentage=50",
            "--describe --user {t}",
            "--alter --user {t} --client c --add-config consumer_byte_rate=2048",
            "--describe --user {t} --client c",
            "--alter --client-defaults --add-config consumer_byte_rate=4096",
            "--describe --client-defaults",
            "--alter --client-defaults --delete-config consumer_byte_rate",
            "--alter --user {t} --add-config no_such_rate=1",
            "--alter --ip 127.0.0.9 --add-config connection_creation_rate=5",
            "--describe --ip 127.0.0.9",
            "--alter --entity-type groups --entity-name {g} --add-config consumer.session.timeout.ms=50000",
            "--describe --entity-type groups --entity-name {g}",
            "--alter --user {t} --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
            "--describe --user {t}",
        ),
    ],
    "groups": [
        *_filled(),
        Command(java.CONSOLE_CONSUMER, "--topic {t} --group {g} --from-beginning --max-messages 10 --timeout-ms 30000"),
        *_of(
            java.GROUPS,
            "--describe --group {g}",
            "--describe --group {g} --state",
            "--describe --group {g} --members",
            "--describe --group {g} --offsets --verbose",
            "--describe --group {g}-none",
            "--reset-offsets --group {g} --topic {t} --to-earliest --dry-run",
            "--reset-offsets --group {g} --topic {t} --to-earliest --export --dry-run",
            "--reset-offsets --group {g} --topic {t} --shift-by -3 --execute",
            "--reset-offsets --group {g} --topic {t} --to-offset 99 --execute",
            "--reset-offsets --group {g} --topic {t} --to-current --execute",
            "--reset-offsets --group {g} --topic {t} --to-datetime 2020-01-01T00:00:00.000 --execute",
            "--reset-offsets --group {g} --topic {t} --by-duration P1D --execute",
            "--reset-offsets --group {g} --topic {t} --to-latest --execute",
            "--reset-offsets --group {g} --from-file {dir}/offsets.csv --execute",
            "--reset-offsets --group {g} --topic {t}-none --to-latest --execute",
            "--describe --group {g}",
        ),
        *_of(java.ALL_GROUPS, "--list", "--list --consumer", "--list --group-type classic", "--list --protocol none"),
        *_of(
            java.GROUPS,
            "--list --state",
            "--delete-offsets --group {g} --topic {t}",
            "--delete-offsets --group {g}-none --topic {t}",
            "--delete --group {g}",
            "--delete --group {g}-none",
            "--list",
        ),
    ],
    "offsets and records": [
        *_filled(),
        Command(java.CONSOLE_PRODUCER, "--topic {t}", "v10\n"),  # later than those, by its timestamp as well
        *_of(
            java.OFFSETS,
            "--topic {t}",
            "--topic {t} --time earliest",
            "--topic {t} --time -3",
            "--topic {t} --time -4",
            "--topic {t} --time -5",
            "--topic {t} --time 0",
            "--topic-partitions {t}:0-1",
            "--topic {t} --partitions 7",
            "--topic {t}-none",
        ),
        *_of(
            java.DELETE_RECORDS,
            "--offset-json-file {dir}/before.json",
            "--offset-json-file {dir}/beyond.json",
            "--offset-json-file {dir}/none.json",
        ),
        *_of(
            java.CONSOLE_CONSUMER,
            "--topic {t} --partition 0 --offset 5 --max-messages 2 --timeout-ms 30000",
            "--topic {t} --from-beginning --max-messages 8 --timeout-ms 30000 "
            "--formatter-property print.offset=true --formatter-property print.partition=true",
        ),
    ],
    "leaders and replicas": [
        *_filled(),
        *_of(
            java.LEADER_ELECTION,
            "--election-type PREFERRED --topic {t} --partition 0",
            "--election-type UNCLEAN --topic {t} --partition 0",
            "--election-type PREFERRED --path-to-json-file {dir}/elect.json",
            "--election-type PREFERRED --topic {t}-none --partition 0",
        ),
        *_of(
            REASSIGN,
            "--generate --topics-to-move-json-file {dir}/all.json --broker-list 1",
            "--execute --reassignment-json-file {dir}/move.json",
            "--verify --reassignment-json-file {dir}/move.json",
            "--list",
            "--cancel --reassignment-json-file {dir}/move.json",
            "--execute --reassignment-json-file {dir}/away.json",
        ),
        *_of(LOG_DIRS, "--describe --topic-list {t}", "--describe --broker-list 1 --topic-list {t}"),
    ],
    "transactions": [
        *_filled(),
        *_of(
            java.TRANSACTIONS,
            "list",
            "list --duration-filter 1000",
            "describe-producers --topic {t} --partition 0",
            "describe-producers --topic {t}-none --partition 0",
            "describe --transactional-id {t}",
            "find-hanging --broker-id 1",
            "abort --topic {t} --partition 0 --start-offset 0",
        ),
    ],
    "cluster": [
        *_of(CLUSTER, "cluster-id", "list-endpoints"),
        *_of(QUORUM, "describe --status", "describe --replication"),
        *_of(
            java.FEATURES,
            "describe",
            "upgrade --feature group.version=1",
            "upgrade --feature group.version=9",
            "downgrade --feature group.version=0 --dry-run",
        ),
        *_of(java.API_VERSIONS, ""),
        *_of(java.ACLS, "--list", "--add --allow-principal User:anna --operation Read --topic {t}"),
        *_of(TOKENS, "--describe"),
        *_of(
            CLIENT_METRICS,
            "--alter --name {t} --metrics org.apache.kafka.producer. --interval 30000",
            "--describe --name {t}",
            "--list",
            "--delete --name {t}",
            "--describe --name {t}",
        ),
    ],
    "console": [
        *_filled("k1:v1\nk2:v2\n", "--reader-property parse.key=true --reader-property key.separator=:"),
        *_of(
            java.CONSOLE_CONSUMER,
            "--topic {t} --from-beginning --max-messages 2 --timeout-ms 30000 --formatter-property print.key=true",
            "--topic {t} --from-beginning --max-messages 3 --timeout-ms 2000",
            "--topic {t}-none --timeout-ms 2000",
        ),
    ],
}
