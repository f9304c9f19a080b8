//! Settings of producers: batches, delivery, compression, transactions.

use super::{DAY_MS, GIB_2, Key, SettingKind, flag, int, key, text};

pub(super) const KEYS: &[Key] = &[
    key(
        "acks",
        SettingKind::Choice(&["all", "-1", "1", "0"]),
        "all",
        "who must have records before they count as delivered: all in-sync replicas, 1 (the leader) or 0 (nobody)",
    )
    .aliased(&[("request.required.acks", 1)]),
    flag(
        "enable.idempotence",
        "true",
        "number the batches, so that repetitions neither duplicate nor reorder (KIP-98)",
    ),
    key(
        "compression.type",
        SettingKind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]),
        "none",
        "codec of the batches",
    )
    .aliased(&[("compression.codec", 1)]),
    key(
        "compression.level",
        int(-131_072, 22),
        "-1",
        "level of the codec; -1 leaves it to compression.gzip.level, compression.lz4.level or compression.zstd.level",
    ),
    key("compression.gzip.level", int(-1, 9), "-1", "level of gzip, 1 to 9; -1 is zlib's default, 6"),
    key(
        "compression.lz4.level",
        int(-1, 17),
        "-1",
        "level of lz4: 1 and 2 are fast, 3 to 12 compress more, up to 17 as 12; -1 is fast",
    ),
    key("compression.zstd.level", int(-131_072, 22), "3", "level of zstd; negative ones are faster"),
    key(
        "linger.ms",
        int(0, 900_000),
        "5",
        "how long an open batch waits for more records before it is sent, ms",
    )
    .aliased(&[("queue.buffering.max.ms", 1)]),
    key(
        "batch.size",
        int(0, GIB_2),
        "262144",
        "a partition's batch is closed at so many bytes, uncompressed; a larger record has a batch of its own",
    ),
    key(
        "max.request.size",
        int(1000, GIB_2),
        "1048576",
        "largest record, uncompressed, and most bytes of batches in one request; topics have such a limit too \
         (max.message.bytes)",
    )
    .aliased(&[("message.max.bytes", 1)]),
    key(
        "buffer.memory",
        int(1 << 16, 1 << 40),
        "67108864",
        "memory for records not yet acknowledged; a send waits for room up to max.block.ms",
    )
    .aliased(&[("queue.buffering.max.kbytes", 1024)]),
    key("max.block.ms", int(0, DAY_MS), "60000", "how long send waits for room in buffer.memory before it fails, ms"),
    key(
        "delivery.timeout.ms",
        int(1, i32::MAX as i64),
        "120000",
        "a record that is not acknowledged for so long, repetitions included, fails, ms",
    )
    .aliased(&[("message.timeout.ms", 1)]),
    key(
        "metadata.max.idle.ms",
        int(10, DAY_MS),
        "300000",
        "a topic that nothing was sent to for so long is forgotten, until something is sent to it again, ms",
    ),
    key(
        "retries",
        int(0, i32::MAX as i64),
        "2147483647",
        "how often a batch is sent again; delivery.timeout.ms bounds it as well",
    )
    .aliased(&[("message.send.max.retries", 1)]),
    key(
        "max.in.flight.requests.per.connection",
        int(1, 1_000_000),
        "5",
        "requests without an answer, for each broker; at most 5 with idempotence",
    )
    .aliased(&[("max.in.flight", 1)]),
    key(
        "partitioner",
        SettingKind::Choice(&[
            "murmur2",
            "murmur2_random",
            "consistent",
            "consistent_random",
            "fnv1a",
            "fnv1a_random",
            "random",
        ]),
        "murmur2_random",
        "partition of a key, by librdkafka's names; murmur2_random is Java's. What it leaves open, such as records without \
         a key, stays with one drawn partition until that has a batch (KIP-480, KIP-794)",
    )
    .aliased(&[("partitioner.class", 1)]),
    text("transactional.id", "makes transactions possible; another producer started with the same id fences this one"),
    key(
        "transaction.timeout.ms",
        int(1, i32::MAX as i64),
        "60000",
        "the coordinator aborts a transaction that is open for so long, ms",
    ),
];
