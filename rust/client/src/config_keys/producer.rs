//! Settings of producers: batches, delivery, compression, transactions.

use super::{DAY_MS, GIB_2, Key, Kind, Role, int};

pub(super) const KEYS: &[Key] = &[
    key(
        "acks",
        &[("request.required.acks", 1)],
        Kind::Choice(&["all", "-1", "1", "0"]),
        "all",
        "who must have records before they count as delivered: all in-sync replicas, 1 (the leader) or 0 (nobody)",
    ),
    key(
        "enable.idempotence",
        &[],
        Kind::Bool,
        "true",
        "number the batches, so that repetitions neither duplicate nor reorder (KIP-98)",
    ),
    key(
        "compression.type",
        &[("compression.codec", 1)],
        Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]),
        "none",
        "codec of the batches",
    ),
    key(
        "compression.level",
        &[],
        int(-131_072, 22),
        "-1",
        "level of the codec; -1 leaves it to compression.gzip.level, compression.lz4.level or compression.zstd.level",
    ),
    key("compression.gzip.level", &[], int(-1, 9), "-1", "level of gzip, 1 to 9; -1 is zlib's default, 6"),
    key(
        "compression.lz4.level",
        &[],
        int(-1, 17),
        "-1",
        "level of lz4: 1 and 2 are fast, 3 to 12 compress more, up to 17 as 12; -1 is fast",
    ),
    key("compression.zstd.level", &[], int(-131_072, 22), "3", "level of zstd; negative ones are faster"),
    key(
        "linger.ms",
        &[("queue.buffering.max.ms", 1)],
        int(0, 900_000),
        "5",
        "how long an open batch waits for more records before it is sent, ms",
    ),
    key(
        "batch.size",
        &[],
        int(0, GIB_2),
        "262144",
        "a partition's batch is closed at so many bytes, uncompressed; a larger record has a batch of its own",
    ),
    key(
        "max.request.size",
        &[("message.max.bytes", 1)],
        int(1000, GIB_2),
        "1048576",
        "largest record, uncompressed, and most bytes of batches in one request; topics have such a limit too \
         (max.message.bytes)",
    ),
    key(
        "buffer.memory",
        &[("queue.buffering.max.kbytes", 1024)],
        int(1 << 16, 1 << 40),
        "67108864",
        "memory for records not yet acknowledged; a send waits for room up to max.block.ms",
    ),
    key(
        "max.block.ms",
        &[],
        int(0, DAY_MS),
        "60000",
        "how long send waits for room in buffer.memory before it fails, ms",
    ),
    key(
        "delivery.timeout.ms",
        &[("message.timeout.ms", 1)],
        int(1, i32::MAX as i64),
        "120000",
        "a record that is not acknowledged for so long, repetitions included, fails, ms",
    ),
    key(
        "metadata.max.idle.ms",
        &[],
        int(10, DAY_MS),
        "300000",
        "a topic that nothing was sent to for so long is forgotten, until something is sent to it again, ms",
    ),
    key(
        "retries",
        &[("message.send.max.retries", 1)],
        int(0, i32::MAX as i64),
        "2147483647",
        "how often a batch is sent again; delivery.timeout.ms bounds it as well",
    ),
    key(
        "max.in.flight.requests.per.connection",
        &[("max.in.flight", 1)],
        int(1, 1_000_000),
        "5",
        "requests without an answer, for each broker; at most 5 with idempotence",
    ),
    key(
        "partitioner",
        &[("partitioner.class", 1)],
        Kind::Choice(&[
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
    ),
    key(
        "transactional.id",
        &[],
        Kind::Text,
        "",
        "makes transactions possible; another producer started with the same id fences this one",
    ),
    key(
        "transaction.timeout.ms",
        &[],
        int(1, i32::MAX as i64),
        "60000",
        "the coordinator aborts a transaction that is open for so long, ms",
    ),
];

const fn key(
    name: &'static str,
    aliases: &'static [(&'static str, i64)],
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> Key {
    Key { role: Role::Producer, ..super::key(name, aliases, kind, default, description) }
}
