//! Settings of consumers: groups, positions, fetching, decoding.

use super::{DAY_MS, GIB_2, Key, SettingKind, flag, int, key, text};

pub(super) const KEYS: &[Key] = &[
    text(
        "client.rack",
        "rack of this client; brokers with a rack-aware selector then name the closest replica (KIP-392)",
    ),
    text(
        "group.id",
        "name of the consumer group: of subscribe(), and of commit() for partitions that were assigned by hand",
    ),
    text(
        "group.instance.id",
        "makes the member static (KIP-345): started anew with the same id it gets its partitions back without a rebalance; \
         each running consumer of a group needs one of its own",
    ),
    key(
        "group.protocol",
        SettingKind::Choice(&["classic", "consumer", "auto"]),
        "classic",
        "classic: the members assign; consumer: the broker does (KIP-848, brokers from 4.0 on); auto: consumer where the broker \
         has it, else classic",
    ),
    text(
        "group.remote.assignor",
        "under group.protocol=consumer: which of the broker's assignors (group.consumer.assignors) decides, such as uniform or \
         range; none: the broker's choice",
    ),
    key(
        "partition.assignment.strategy",
        SettingKind::Text,
        "cooperative-sticky",
        "group.protocol=classic: assignors, the preferred first: range, roundrobin, sticky, cooperative-sticky, or Java's class \
         names; deferred waits for lost members, incremental moves partitions a few at a time",
    ),
    key(
        "scheduled.rebalance.max.delay.ms",
        int(0, DAY_MS),
        "300000",
        "with the assignor deferred: partitions of a member that is gone are kept for its return for so long, ms; 0: not at all; a \
         member that came within that time before makes up for it",
    ),
    key(
        "group.initial.rebalance.delay.ms",
        int(0, DAY_MS),
        "0",
        "with deferred or incremental: the first members of a group are assigned partitions after so long, when others have come \
         too, ms",
    ),
    key(
        "max.moves.per.round",
        int(0, i32::MAX as i64),
        "0",
        "with deferred or incremental: at most so many partitions that have an owner move at a time; 0: incremental moves a \
         tenth of the partitions, deferred all that are to",
    ),
    key(
        "round.interval.ms",
        int(1, DAY_MS),
        "10000",
        "with deferred or incremental: the time from one round of moves to the next, ms",
    ),
    key(
        "session.timeout.ms",
        int(1, DAY_MS),
        "45000",
        "a member that the coordinator has not heard of for so long is thrown out; shortly before, it stops handing out \
         records itself, ms. Under group.protocol=consumer the broker has a timeout of its own \
         (group.consumer.session.timeout.ms), and this one must not be longer",
    ),
    key(
        "heartbeat.interval.ms",
        int(1, DAY_MS),
        "3000",
        "group.protocol=classic: time between heartbeats to the coordinator, ms; else the broker says",
    ),
    key(
        "max.poll.interval.ms",
        int(1, DAY_MS),
        "300000",
        "a consumer that is not polled for so long leaves the group; also how long a rebalance waits for its members, ms",
    ),
    flag(
        "enable.auto.commit",
        "true",
        "commit what was finished every auto.commit.interval.ms, and before partitions are revoked; a batch is finished \
         when the next one is asked for",
    ),
    key("auto.commit.interval.ms", int(1, DAY_MS), "5000", "time between automatic commits, ms"),
    key(
        "auto.commit.records",
        int(0, 1 << 40),
        "0",
        "an automatic commit also after so many finished records; 0: by time only",
    ),
    flag(
        "exclude.internal.topics",
        "true",
        "pattern subscriptions leave out internal topics, such as __consumer_offsets",
    ),
    key(
        "auto.offset.reset",
        SettingKind::ChoiceOrDuration(&[
            "earliest",
            "latest",
            "none",
            "smallest",
            "largest",
            "beginning",
            "end",
            "error",
        ]),
        "latest",
        "where to start without a position, or with one beyond the log's end: earliest, latest, none (an error), or by_duration:P7D, \
         the first record that is at most so old, as ISO 8601 writes durations (KIP-1106). A position that retention has passed by \
         goes to the smallest retained offset under all but none",
    ),
    key(
        "isolation.level",
        SettingKind::Choice(&["read_uncommitted", "read_committed"]),
        "read_uncommitted",
        "read_committed hides records of aborted and of open transactions",
    ),
    key("fetch.min.bytes", int(1, GIB_2), "1", "bytes that a broker waits for before it answers a fetch"),
    key(
        "fetch.max.bytes",
        int(1024, GIB_2),
        "8388608",
        "most bytes of one fetch answer; a single larger record batch still comes through (KIP-74)",
    ),
    key("fetch.max.wait.ms", int(0, 300_000), "500", "longest time that a broker waits for fetch.min.bytes, ms")
        .aliased(&[("fetch.wait.max.ms", 1)]),
    key("max.partition.fetch.bytes", int(1, GIB_2), "4194304", "most bytes of one partition in a fetch answer")
        .aliased(&[("fetch.message.max.bytes", 1)]),
    key(
        "queued.max.bytes",
        int(1 << 20, 1 << 40),
        "67108864",
        "the byte budget: fetches in flight, fetched and decompressed data not yet handed out, together",
    )
    .aliased(&[("queued.max.messages.kbytes", 1024)]),
    flag("check.crcs", "true", "verify the CRC-32C of every record batch"),
    key(
        "max.decompressed.batch.bytes",
        int(1024, GIB_2),
        "268435456",
        "most bytes that one record batch may decompress to; more is an error, not an allocation",
    ),
    key(
        "decode.threads",
        int(-1, 64),
        "-1",
        "threads that decompress, and decode typed keys and values, ahead of the reader, in parallel across partitions; 0 \
         does so while reading, -1 takes all cores but one, at most 8",
    ),
];
