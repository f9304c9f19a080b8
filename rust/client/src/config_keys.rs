//! The table of settings: names, aliases, bounds, defaults and descriptions.

mod consumer;
mod producer;
mod registry;
mod sasl;
mod share;
mod tls;

pub(crate) use share::GROUP_SETTINGS;

/// The type of a setting, with its bounds.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// Any text.
    Text,
    /// A password or key: any text, taken as it is, with the blanks around it. It is in no error and no log.
    Secret,
    /// true or false.
    Bool,
    /// One of these, ignoring case.
    Choice(&'static [&'static str]),
    /// One of these, ignoring case, or `by_duration:` and a duration of ISO 8601 that is not negative (KIP-1106).
    ChoiceOrDuration(&'static [&'static str]),
    /// An integer between bounds, inclusive.
    Int {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
}

/// What stands before the duration in a value of [`SettingKind::ChoiceOrDuration`].
pub(crate) const BY_DURATION: &str = "by_duration:";

/// The kind of client that a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All clients.
    All,
    /// Clients whose records have keys and values: consumers and producers.
    Records,
    /// Consumers.
    Consumer,
    /// Consumers of share groups.
    Share,
    /// Producers.
    Producer,
    /// Admin clients.
    Admin,
}

impl Role {
    /// The role, for messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Records => "consumer and producer",
            Self::Consumer => "consumer",
            Self::Share => "share consumer",
            Self::Producer => "producer",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn serves(self, client: Self) -> bool {
        let is_consumer = self == Self::Consumer && client == Self::Share;
        self == Self::All || self == client || is_consumer || (self == Self::Records && client != Self::Admin)
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
    pub kind: SettingKind,
    /// The default; `None` if the setting is mandatory.
    pub default: Option<&'static str>,
    /// The kind of client that it is for.
    pub role: Role,
    /// A description in one sentence, for `help`.
    pub description: &'static str,
}

const GIB_2: i64 = i32::MAX as i64;
const DAY_MS: i64 = 86_400_000;

impl Key {
    /// The same with other names, each with the factor from its unit to this setting's.
    const fn aliased(self, aliases: &'static [(&'static str, i64)]) -> Self {
        Self { aliases, ..self }
    }
}

const fn key(name: &'static str, kind: SettingKind, default: &'static str, description: &'static str) -> Key {
    Key { name, aliases: &[], kind, default: Some(default), role: Role::All, description }
}

const fn flag(name: &'static str, default: &'static str, description: &'static str) -> Key {
    key(name, SettingKind::Bool, default, description)
}

const fn text(name: &'static str, description: &'static str) -> Key {
    key(name, SettingKind::Text, "", description)
}

const fn secret(name: &'static str, description: &'static str) -> Key {
    key(name, SettingKind::Secret, "", description)
}

const fn int(min: i64, max: i64) -> SettingKind {
    SettingKind::Int { min, max }
}

/// All settings.
pub const KEYS: &[Key] = &joined::<{ count(LISTS) }>(LISTS);

const LISTS: &[(Role, &[Key])] = &[
    (Role::All, GENERAL),
    (Role::Consumer, consumer::KEYS),
    (Role::Share, share::KEYS),
    (Role::Producer, producer::KEYS),
    (Role::All, tls::KEYS),
    (Role::All, sasl::KEYS),
    (Role::Records, registry::KEYS),
    (Role::Producer, registry::WRITING),
];

const fn count(lists: &[(Role, &[Key])]) -> usize {
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        count += lists[list].1.len();
        list += 1;
    }
    count
}

const fn joined<const COUNT: usize>(lists: &[(Role, &[Key])]) -> [Key; COUNT] {
    let mut all = [lists[0].1[0]; COUNT];
    let (mut list, mut place) = (0, 0);
    while list < lists.len() {
        let (role, keys) = lists[list];
        let mut index = 0;
        while index < keys.len() {
            all[place] = Key { role, ..keys[index] };
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
        kind: SettingKind::Text,
        default: None,
        role: Role::All,
        description: "host:port of one or more brokers, separated by commas; the rest of the cluster is found from them",
    },
    secret(
        "proxy.url",
        "the proxy that connections to brokers go through: socks5h://host:port (it looks the brokers' names up), \
         socks5://host:port (the client does) or http://host:port (CONNECT), with user:password@ before the host if it asks \
         for them; none: brokers are connected to directly, whatever the environment says",
    )
    .aliased(&[("socks5.proxy", 1)]),
    flag("enable.metrics.push", "true", "push metrics to brokers that ask for them (KIP-714)"),
    key("client.id", SettingKind::Text, "monedula", "name of this client in the brokers' logs and quotas"),
    key(
        "security.protocol",
        SettingKind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        "PLAINTEXT",
        "how to talk to brokers: SSL encrypts the connection and verifies the broker's certificate (TLS), SASL_PLAINTEXT logs in \
         over an open connection, SASL_SSL over an encrypted one",
    ),
    key(
        "request.timeout.ms",
        int(10, DAY_MS),
        "30000",
        "longest wait for a broker's answer; past it the connection counts as dead and is made anew, ms",
    )
    .aliased(&[("socket.timeout.ms", 1)]),
    key(
        "default.api.timeout.ms",
        int(1, DAY_MS),
        "60000",
        "longest time of a call that is given no timeout of its own, retries included, ms",
    ),
    key(
        "bootstrap.timeout.ms",
        int(1, DAY_MS),
        "10000",
        "how long the first contact with the cluster is tried before an error names the addresses, ms",
    ),
    key(
        "metadata.max.age.ms",
        int(10, DAY_MS),
        "300000",
        "how old metadata may get: new partitions and leaders are noticed at the latest after this, ms",
    )
    .aliased(&[("topic.metadata.refresh.interval.ms", 1)]),
    key(
        "topic.metadata.propagation.max.ms",
        int(-1, DAY_MS),
        "-1",
        "how long brokers may not know a topic before it counts as missing: a new one reaches them one after the other, ms. -1 is \
         10000 for consumers, 30000 for producers and 2000 for admin clients",
    ),
    key("reconnect.backoff.ms", int(0, DAY_MS), "50", "wait before the first reconnect to a broker, ms"),
    key(
        "reconnect.backoff.max.ms",
        int(0, DAY_MS),
        "1000",
        "longest wait between reconnects; waits grow up to it by retry.backoff.factor, +-20 % jitter (KIP-580), ms",
    ),
    key("retry.backoff.ms", int(0, DAY_MS), "100", "wait before a failed request is repeated, ms"),
    key(
        "retry.backoff.max.ms",
        int(0, DAY_MS),
        "1000",
        "longest wait between repetitions; waits grow up to it, +-20 % jitter (KIP-580), ms",
    ),
    key(
        "retry.backoff.factor",
        int(1, 100),
        "2",
        "how many times as long each wait is as the one before, of repetitions and of reconnects; 2 is Kafka's",
    ),
    key("connections.max.idle.ms", int(10, DAY_MS), "540000", "unused connections are closed after this, ms"),
    key("socket.connection.setup.timeout.ms", int(1, DAY_MS), "10000", "longest time for a connection to be made, ms"),
    key(
        "receive.message.max.bytes",
        int(1024, GIB_2),
        "268435456",
        "largest answer that is accepted; a longer one is an error before anything is allocated. A consumer's must exceed \
         fetch.max.bytes by 512",
    ),
    key(
        "receive.buffer.bytes",
        int(-1, GIB_2),
        "-1",
        "size of the socket's receive buffer; -1 leaves it to the system",
    )
    .aliased(&[("socket.receive.buffer.bytes", 1)]),
    flag("allow.auto.create.topics", "false", "let brokers create a topic because it was asked for"),
    key(
        "metadata.recovery.strategy",
        SettingKind::Choice(&["rebootstrap", "none"]),
        "rebootstrap",
        "rebootstrap goes back to bootstrap.servers when no known broker answers (KIP-899)",
    ),
    key(
        "metadata.recovery.rebootstrap.trigger.ms",
        int(0, GIB_2),
        "300000",
        "without metadata for so long, the known brokers are forgotten and bootstrap.servers asked anew, ms (KIP-1102)",
    ),
];
