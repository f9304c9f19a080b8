//! The table of settings: names, aliases, bounds, defaults and descriptions.

mod sasl;
mod tls;

/// The type of a setting, with its bounds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// A password or key: any text, taken as it is, with the blanks around it. It is in no error and no log.
    Secret,
    /// true or false.
    Bool,
    /// One of these, ignoring case.
    Choice(&'static [&'static str]),
    /// An integer between bounds, inclusive.
    Int {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
}

/// The kind of client that a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All clients.
    All,
    /// Consumers.
    Consumer,
    /// Producers.
    Producer,
    /// Admin clients.
    Admin,
}

impl Role {
    /// The role in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Consumer => "consumer",
            Self::Producer => "producer",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn serves(self, client: Self) -> bool {
        self == Self::All || self == client
    }
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name in Kafka's Java client, or a name of monedula's own if Kafka has no such setting.
    pub name: &'static str,
    /// Aliases, each with the factor from its unit to this setting's.
    pub aliases: &'static [(&'static str, i64)],
    /// The type and bounds of its values.
    pub kind: Kind,
    /// The default; `None` if the setting is mandatory.
    pub default: Option<&'static str>,
    /// The kind of client that it is for.
    pub role: Role,
    /// A description in one sentence, for `help`.
    pub description: &'static str,
}

const GIB_2: i64 = i32::MAX as i64;
const DAY_MS: i64 = 86_400_000;

const fn key(
    name: &'static str,
    aliases: &'static [(&'static str, i64)],
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> Key {
    Key { name, aliases, kind, default: Some(default), role: Role::All, description }
}

/// Makes it a setting of consumers.
const fn consumer(key: Key) -> Key {
    Key { role: Role::Consumer, ..key }
}

/// Makes it a setting of producers.
const fn producer(key: Key) -> Key {
    Key { role: Role::Producer, ..key }
}

const fn int(min: i64, max: i64) -> Kind {
    Kind::Int { min, max }
}

/// All settings.
pub const KEYS: &[Key] = &joined::<{ count(LISTS) }>(LISTS);

const LISTS: &[&[Key]] = &[GENERAL, tls::KEYS, sasl::KEYS];

const fn count(lists: &[&[Key]]) -> usize {
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        count += lists[list].len();
        list += 1;
    }
    count
}

const fn joined<const COUNT: usize>(lists: &[&[Key]]) -> [Key; COUNT] {
    let mut all = [lists[0][0]; COUNT];
    let (mut list, mut place) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            all[place] = lists[list][index];
            (index, place) = (index + 1, place + 1);
        }
        list += 1;
    }
    all
}

const GENERAL: &[Key] = &[
    Key {
        name: "bootstrap.servers",
        aliases: &[("metadata.broker.list", 1)],
        kind: Kind::Text,
        default: None,
        role: Role::All,
        description: "host:port of one or more brokers, separated by commas; the rest of the cluster is found from them",
    },
    key(
        "enable.metrics.push",
        &[],
        Kind::Bool,
        "true",
        "push metrics to brokers that ask for them (KIP-714); consumers and producers do",
    ),
    key("client.id", &[], Kind::Text, "monedula", "name of this client in the brokers' logs and quotas"),
    consumer(key(
        "client.rack",
        &[],
        Kind::Text,
        "",
        "rack of this client; brokers with a rack-aware selector then name the closest replica (KIP-392)",
    )),
    consumer(key(
        "group.id",
        &[],
        Kind::Text,
        "",
        "name of the consumer group: of subscribe(), and of commit() for partitions that were assigned by hand",
    )),
    consumer(key(
        "group.instance.id",
        &[],
        Kind::Text,
        "",
        "makes the member static (KIP-345): started anew with the same id it gets its partitions back without a rebalance; \
         each running consumer of a group needs one of its own",
    )),
    consumer(key(
        "group.protocol",
        &[],
        Kind::Choice(&["classic", "consumer", "auto"]),
        "classic",
        "classic: the members assign; consumer: the broker does (KIP-848, brokers from 4.0 on); auto: consumer where the broker \
         has it, else classic",
    )),
    consumer(key(
        "group.remote.assignor",
        &[],
        Kind::Text,
        "",
        "under group.protocol=consumer: which of the broker's assignors (group.consumer.assignors) decides, such as uniform or \
         range; none: the broker's choice",
    )),
    consumer(key(
        "partition.assignment.strategy",
        &[],
        Kind::Text,
        "cooperative-sticky",
        "group.protocol=classic: assignors, the preferred first: range, roundrobin, sticky, cooperative-sticky, or Java's class \
         names; deferred waits for lost members, incremental moves partitions a few at a time",
    )),
    consumer(key(
        "scheduled.rebalance.max.delay.ms",
        &[],
        int(0, DAY_MS),
        "300000",
        "with the assignor deferred: partitions of a member that is gone are kept for its return for so long, ms; 0: not at all; a \
         member that came within that time before makes up for it",
    )),
    consumer(key(
        "group.initial.rebalance.delay.ms",
        &[],
        int(0, DAY_MS),
        "0",
        "with deferred or incremental: the first members of a group are assigned partitions after so long, when others have come \
         too, ms",
    )),
    consumer(key(
        "max.moves.per.round",
        &[],
        int(0, i32::MAX as i64),
        "0",
        "with deferred or incremental: at most so many partitions that have an owner move at a time; 0: incremental moves a \
         tenth of the partitions, deferred all that are to",
    )),
    consumer(key(
        "round.interval.ms",
        &[],
        int(1, DAY_MS),
        "10000",
        "with deferred or incremental: the time from one round of moves to the next, ms",
    )),
    consumer(key(
        "session.timeout.ms",
        &[],
        int(1, DAY_MS),
        "45000",
        "a member that the coordinator has not heard of for so long is thrown out; shortly before, it stops handing out \
         records itself, ms. Under group.protocol=consumer the broker has a timeout of its own \
         (group.consumer.session.timeout.ms), and this one must not be longer",
    )),
    consumer(key(
        "heartbeat.interval.ms",
        &[],
        int(1, DAY_MS),
        "3000",
        "group.protocol=classic: time between heartbeats to the coordinator, ms; else the broker says",
    )),
    consumer(key(
        "max.poll.interval.ms",
        &[],
        int(1, DAY_MS),
        "300000",
        "a consumer that is not polled for so long leaves the group; also how long a rebalance waits for its members, ms",
    )),
    consumer(key(
        "enable.auto.commit",
        &[],
        Kind::Bool,
        "true",
        "commit what was finished every auto.commit.interval.ms, and before partitions are revoked; a batch is finished \
         when the next one is asked for",
    )),
    consumer(key("auto.commit.interval.ms", &[], int(1, DAY_MS), "5000", "time between automatic commits, ms")),
    consumer(key(
        "auto.commit.records",
        &[],
        int(0, 1 << 40),
        "0",
        "an automatic commit also after so many finished records; 0: by time only",
    )),
    consumer(key(
        "exclude.internal.topics",
        &[],
        Kind::Bool,
        "true",
        "pattern subscriptions leave out internal topics, such as __consumer_offsets",
    )),
    key(
        "security.protocol",
        &[],
        Kind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        "PLAINTEXT",
        "how to talk to brokers: SSL encrypts the connection and verifies the broker's certificate (TLS), SASL_PLAINTEXT logs in \
         over an open connection, SASL_SSL over an encrypted one",
    ),
    consumer(key(
        "auto.offset.reset",
        &[],
        Kind::Choice(&["earliest", "latest", "none", "smallest", "largest", "beginning", "end", "error"]),
        "latest",
        "where to start without a position, or with one beyond the log's end: earliest, latest, or none (an error). A \
         position that retention has passed by goes to the smallest retained offset under either of the first two",
    )),
    consumer(key(
        "isolation.level",
        &[],
        Kind::Choice(&["read_uncommitted", "read_committed"]),
        "read_uncommitted",
        "read_committed hides records of aborted and of open transactions",
    )),
    consumer(key(
        "fetch.min.bytes",
        &[],
        int(1, GIB_2),
        "1",
        "bytes that a broker waits for before it answers a fetch",
    )),
    consumer(key(
        "fetch.max.bytes",
        &[],
        int(1024, GIB_2),
        "8388608",
        "most bytes of one fetch answer; a single larger record batch still comes through (KIP-74)",
    )),
    consumer(key(
        "fetch.max.wait.ms",
        &[("fetch.wait.max.ms", 1)],
        int(0, 300_000),
        "500",
        "longest time that a broker waits for fetch.min.bytes, ms",
    )),
    consumer(key(
        "max.partition.fetch.bytes",
        &[("fetch.message.max.bytes", 1)],
        int(1, GIB_2),
        "4194304",
        "most bytes of one partition in a fetch answer",
    )),
    consumer(key(
        "queued.max.bytes",
        &[("queued.max.messages.kbytes", 1024)],
        int(1 << 20, 1 << 40),
        "67108864",
        "the byte budget: fetches in flight, fetched and decompressed data not yet handed out, together",
    )),
    consumer(key("check.crcs", &[], Kind::Bool, "true", "verify the CRC-32C of every record batch")),
    consumer(key(
        "max.decompressed.batch.bytes",
        &[],
        int(1024, GIB_2),
        "268435456",
        "most bytes that one record batch may decompress to; more is an error, not an allocation",
    )),
    consumer(key(
        "decode.threads",
        &[],
        int(-1, 64),
        "-1",
        "threads that decompress ahead of the reader, in parallel across partitions; 0 decompresses while reading, -1 takes \
         all cores but one, at most 8",
    )),
    key(
        "request.timeout.ms",
        &[("socket.timeout.ms", 1)],
        int(10, DAY_MS),
        "30000",
        "longest wait for a broker's answer; past it the connection counts as dead and is made anew, ms",
    ),
    key(
        "default.api.timeout.ms",
        &[],
        int(1, DAY_MS),
        "60000",
        "longest time of a call that is given no timeout of its own, retries included, ms",
    ),
    key(
        "bootstrap.timeout.ms",
        &[],
        int(1, DAY_MS),
        "10000",
        "how long the first contact with the cluster is tried before an error names the addresses, ms",
    ),
    key(
        "metadata.max.age.ms",
        &[("topic.metadata.refresh.interval.ms", 1)],
        int(10, DAY_MS),
        "300000",
        "how old metadata may get: new partitions and leaders are noticed at the latest after this, ms",
    ),
    key("reconnect.backoff.ms", &[], int(0, DAY_MS), "50", "wait before the first reconnect to a broker, ms"),
    key(
        "reconnect.backoff.max.ms",
        &[],
        int(0, DAY_MS),
        "1000",
        "longest wait between reconnects; waits grow up to it by retry.backoff.factor, +-20 % jitter (KIP-580), ms",
    ),
    key("retry.backoff.ms", &[], int(0, DAY_MS), "100", "wait before a failed request is repeated, ms"),
    key(
        "retry.backoff.max.ms",
        &[],
        int(0, DAY_MS),
        "1000",
        "longest wait between repetitions; waits grow up to it, +-20 % jitter (KIP-580), ms",
    ),
    key(
        "retry.backoff.factor",
        &[],
        int(1, 100),
        "2",
        "how many times as long each wait is as the one before, of repetitions and of reconnects; 2 is Kafka's",
    ),
    key("connections.max.idle.ms", &[], int(10, DAY_MS), "540000", "unused connections are closed after this, ms"),
    key(
        "socket.connection.setup.timeout.ms",
        &[],
        int(1, DAY_MS),
        "10000",
        "longest time for a connection to be made, ms",
    ),
    key(
        "receive.message.max.bytes",
        &[],
        int(1024, GIB_2),
        "268435456",
        "largest answer that is accepted; a longer one is an error before anything is allocated. A consumer's must exceed \
         fetch.max.bytes by 512",
    ),
    key(
        "receive.buffer.bytes",
        &[("socket.receive.buffer.bytes", 1)],
        int(-1, GIB_2),
        "-1",
        "size of the socket's receive buffer; -1 leaves it to the system",
    ),
    key("allow.auto.create.topics", &[], Kind::Bool, "false", "let brokers create a topic because it was asked for"),
    key(
        "metadata.recovery.strategy",
        &[],
        Kind::Choice(&["rebootstrap", "none"]),
        "rebootstrap",
        "rebootstrap goes back to bootstrap.servers when no known broker answers (KIP-899)",
    ),
    key(
        "metadata.recovery.rebootstrap.trigger.ms",
        &[],
        int(0, GIB_2),
        "300000",
        "without metadata for so long, the known brokers are forgotten and bootstrap.servers asked anew, ms (KIP-1102)",
    ),
    producer(key(
        "acks",
        &[("request.required.acks", 1)],
        Kind::Choice(&["all", "-1", "1", "0"]),
        "all",
        "who must have records before they count as delivered: all in-sync replicas, 1 (the leader) or 0 (nobody)",
    )),
    producer(key(
        "enable.idempotence",
        &[],
        Kind::Bool,
        "true",
        "number the batches, so that repetitions neither duplicate nor reorder (KIP-98)",
    )),
    producer(key(
        "compression.type",
        &[("compression.codec", 1)],
        Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]),
        "none",
        "codec of the batches",
    )),
    producer(key(
        "compression.level",
        &[],
        int(-131_072, 22),
        "-1",
        "level of the codec; -1 leaves it to compression.gzip.level, compression.lz4.level or compression.zstd.level",
    )),
    producer(key("compression.gzip.level", &[], int(-1, 9), "-1", "level of gzip, 1 to 9; -1 is zlib's default, 6")),
    producer(key(
        "compression.lz4.level",
        &[],
        int(-1, 17),
        "-1",
        "level of lz4: 1 and 2 are fast, 3 to 12 compress more, up to 17 as 12; -1 is fast",
    )),
    producer(key("compression.zstd.level", &[], int(-131_072, 22), "3", "level of zstd; negative ones are faster")),
    producer(key(
        "linger.ms",
        &[("queue.buffering.max.ms", 1)],
        int(0, 900_000),
        "5",
        "how long an open batch waits for more records before it is sent, ms",
    )),
    producer(key(
        "batch.size",
        &[],
        int(0, GIB_2),
        "262144",
        "a partition's batch is closed at so many bytes, uncompressed; a larger record has a batch of its own",
    )),
    producer(key(
        "max.request.size",
        &[("message.max.bytes", 1)],
        int(1000, GIB_2),
        "1048576",
        "largest record, uncompressed, and most bytes of batches in one request; topics have such a limit too \
         (max.message.bytes)",
    )),
    producer(key(
        "buffer.memory",
        &[("queue.buffering.max.kbytes", 1024)],
        int(1 << 16, 1 << 40),
        "67108864",
        "memory for records not yet acknowledged; a send waits for room up to max.block.ms",
    )),
    producer(key(
        "max.block.ms",
        &[],
        int(0, DAY_MS),
        "60000",
        "how long send waits for room in buffer.memory before it fails, ms",
    )),
    producer(key(
        "delivery.timeout.ms",
        &[("message.timeout.ms", 1)],
        int(1, i32::MAX as i64),
        "120000",
        "a record that is not acknowledged for so long, repetitions included, fails, ms",
    )),
    producer(key(
        "metadata.max.idle.ms",
        &[],
        int(10, DAY_MS),
        "300000",
        "a topic that nothing was sent to for so long is forgotten, until something is sent to it again, ms",
    )),
    producer(key(
        "retries",
        &[("message.send.max.retries", 1)],
        int(0, i32::MAX as i64),
        "2147483647",
        "how often a batch is sent again; delivery.timeout.ms bounds it as well",
    )),
    producer(key(
        "max.in.flight.requests.per.connection",
        &[("max.in.flight", 1)],
        int(1, 1_000_000),
        "5",
        "requests without an answer, for each broker; at most 5 with idempotence",
    )),
    producer(key(
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
    )),
    producer(key(
        "transactional.id",
        &[],
        Kind::Text,
        "",
        "makes transactions possible; another producer started with the same id fences this one",
    )),
    producer(key(
        "transaction.timeout.ms",
        &[],
        int(1, i32::MAX as i64),
        "60000",
        "the coordinator aborts a transaction that is open for so long, ms",
    )),
];
