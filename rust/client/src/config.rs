//! Settings of clients: Kafka's names, with Java's and librdkafka's aliases, parsed from text into typed values.
//!
//! The table [`crate::KEYS`] is the only source of names, defaults, bounds and descriptions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use monedula_engine::assign::{Assignor, Pace, builtin, eager_beside_deferring};
use monedula_engine::backoff::Backoff;
use monedula_engine::fetch::ResetPolicy;
use monedula_engine::group::MemberConfig;
use monedula_engine::group::classic::{ClassicConfig, QUICK_HEARTBEATS};
use monedula_engine::group::consumer::ConsumerProtocolConfig;
use monedula_engine::group::share::ShareMemberConfig;

use crate::config_keys::{BY_DURATION, Role};
pub use crate::config_values::ConfigError;
use crate::config_values::ConfigValues;
use crate::files;
use crate::net::proxy::{PROXY_URL, Proxy};
use crate::net::tls::Tls;
use crate::offsets::UNKNOWN_TO_SOME;
use crate::registry::{SchemaRegistry, registry};
use crate::sasl::{Sasl, TokenSource};
pub use monedula_protocol::security_protocol::SecurityProtocol;

mod checks;
pub(crate) mod iso_duration;

/// `group.protocol`: who computes the assignment of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The member that is the leader (classic protocol).
    Classic,
    /// The coordinator (KIP-848).
    Consumer,
    /// Like [`Self::Consumer`] if the broker supports it, else like [`Self::Classic`].
    Auto,
}

/// Typed settings that only consumers of share groups have.
#[derive(Clone, Copy, Debug)]
pub struct ShareConfig {
    /// `share.acknowledgement.mode=implicit`: undecided rows are accepted when the next batch is asked for.
    pub is_implicit: bool,
    /// `share.acquire.mode=record_limit`.
    pub is_strict: bool,
    /// `max.poll.records`.
    pub max_poll_records: i32,
    /// True if a user who is through with a batch soon is given more than that: it was left out, and is no strict limit.
    pub follows_pace: bool,
    /// `share.renew.max.ms`.
    pub longest_renewal: Duration,
}

/// Typed settings of a consumer, and of the other clients as far as they share them; see
/// [`crate::KEYS`] for the meanings.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each field is a key of the table, described there")]
pub struct ClientConfig {
    pub bootstrap_servers: Vec<(String, u16)>,
    /// The proxy to the brokers; `None` if connections go to them directly.
    pub proxy: Option<Arc<Proxy>>,
    pub security_protocol: SecurityProtocol,
    /// Login of the client; `None` if `security.protocol` has no SASL.
    pub sasl: Option<Arc<Sasl>>,
    /// Parts of TLS connections; `None` if `security.protocol` has none.
    pub tls: Option<Arc<Tls>>,
    pub client_id: String,
    pub client_rack: Option<String>,
    pub metrics_push: bool,
    pub group_id: Option<String>,
    pub group_instance_id: Option<String>,
    pub group_protocol: GroupProtocol,
    /// `None` for the broker's default.
    pub remote_assignor: Option<String>,
    pub assignment_strategy: Vec<String>,
    /// The delays of the assignors `deferred` and `incremental`: `scheduled.rebalance.max.delay.ms`,
    /// `group.initial.rebalance.delay.ms`, `max.moves.per.round`, `round.interval.ms`.
    pub pace: Pace,
    pub session_timeout: Duration,
    pub heartbeat_interval: Duration,
    pub max_poll_interval: Duration,
    /// `None` if `enable.auto.commit` is false.
    pub auto_commit_interval: Option<Duration>,
    /// `None` if it is 0, or if `enable.auto.commit` is false.
    pub auto_commit_records: Option<u64>,
    pub exclude_internal_topics: bool,
    pub reset: ResetPolicy,
    /// Settings of a share group's consumer.
    pub share: ShareConfig,
    pub read_committed: bool,
    pub fetch_min_bytes: i32,
    pub fetch_max_bytes: usize,
    pub fetch_max_wait: Duration,
    pub max_partition_fetch_bytes: i32,
    pub queued_max_bytes: usize,
    pub check_crcs: bool,
    pub max_decompressed_batch_bytes: usize,
    pub decode_threads: usize,
    pub request_timeout: Duration,
    pub default_api_timeout: Duration,
    pub bootstrap_timeout: Duration,
    pub metadata_max_age: Duration,
    pub reconnect_backoff: Backoff,
    pub retry_backoff: Backoff,
    pub connections_max_idle: Duration,
    pub connection_setup_timeout: Duration,
    pub receive_message_max_bytes: usize,
    pub receive_buffer_bytes: Option<usize>,
    pub allow_auto_create_topics: bool,
    pub rebootstrap: bool,
    /// Time after which a topic that no answer knows counts as missing.
    pub propagation: Duration,
    pub rebootstrap_trigger: Duration,
    /// The registry of schemas; `None` if `schema.registry.url` is not given.
    pub schema_registry: Option<Arc<SchemaRegistry>>,
    /// Warnings to log about doubtful settings and about those of other clients' roles.
    pub warnings: Vec<String>,
}

/// Time that a topic may be unknown to brokers before a consumer says so.
const PROPAGATION: Duration = Duration::from_secs(10);

/// `topic.metadata.propagation.max.ms`, or what the role of the client has in its place.
pub(crate) fn propagation(values: &ConfigValues, otherwise: Duration) -> Duration {
    u64::try_from(values.int("topic.metadata.propagation.max.ms")).map_or(otherwise, Duration::from_millis)
}

impl ClientConfig {
    /// Expiry of the client's own certificate, if it has one.
    pub fn certificate_expires(&self) -> Option<SystemTime> {
        self.tls.as_ref()?.certificate_expires()
    }

    /// Parses a consumer's settings. Names may have dots or underscores.
    ///
    /// # Errors
    /// An unknown key (naming the nearest known one), a value that does not parse or is out of bounds, the same
    /// setting given twice under two names, a missing `bootstrap.servers`, and settings that contradict each other.
    pub fn parse<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ConfigError> {
        let values = ConfigValues::collect(given, Role::Consumer)?;
        let mut config = Self::of(&values)?;
        config.check()?;
        config.warn();
        config.warn_of_other_protocol(&values);
        Ok(config)
    }

    /// Like [`Self::parse`], for a consumer of a share group.
    ///
    /// # Errors
    /// As [`Self::parse`]; a setting that share groups have elsewhere, or not at all; a missing `group.id`.
    pub fn parse_share<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ConfigError> {
        let values = ConfigValues::collect(given, Role::Share)?;
        checks::refuse_of_consumer_groups(&values)?;
        let mut config = Self::of(&values)?;
        config.check()?;
        config.warn();
        Ok(config)
    }

    /// The configuration of a member of a share group.
    pub(crate) fn share_membership(&self) -> ShareMemberConfig {
        ShareMemberConfig {
            group_id: self.group_id.clone().unwrap_or_default(),
            rack: self.client_rack.clone(),
            backoff: self.retry_backoff,
        }
    }

    /// Like [`Self::parse`], for an admin client.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_admin<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ConfigError> {
        let values = ConfigValues::collect(given, Role::Admin)?;
        Ok(Self { propagation: propagation(&values, UNKNOWN_TO_SOME), ..Self::of(&values)? })
    }

    /// Checks that a client that logs in with tokens has a source of them. [`Self::set_token_source`] may give one, so
    /// the settings alone do not show it.
    ///
    /// # Errors
    /// If there is none.
    pub fn check_token_source(&self) -> Result<(), ConfigError> {
        self.sasl.as_ref().map_or(Ok(()), |sasl| sasl.check_token_source())
    }

    /// Takes the tokens for OAUTHBEARER from `source`, in place of the source that the settings name. Without effect
    /// for another mechanism.
    pub fn set_token_source(&mut self, source: Arc<dyn TokenSource>) {
        if let Some(sasl) = self.sasl.as_ref().and_then(|sasl| sasl.with_source(source)) {
            self.sasl = Some(Arc::new(sasl));
        }
    }

    pub(crate) fn of(values: &ConfigValues) -> Result<Self, ConfigError> {
        let auto_commit = values.bool("enable.auto.commit");
        let security_protocol = values.security_protocol();
        let mut warnings = values.warnings.clone();
        let secured = secured(values, security_protocol)?;
        warnings.extend(secured.warnings);
        Ok(Self {
            bootstrap_servers: addresses(&values.text("bootstrap.servers"), security_protocol)?,
            proxy: Proxy::of(values, PROXY_URL)?.map(Arc::new),
            security_protocol,
            tls: secured.tls.map(Arc::new),
            sasl: secured.sasl.map(Arc::new),
            client_id: values.text("client.id"),
            client_rack: values.given("client.rack"),
            metrics_push: values.bool("enable.metrics.push"),
            group_id: values.given("group.id"),
            group_instance_id: values.given("group.instance.id"),
            group_protocol: group_protocol(values),
            remote_assignor: values.given("group.remote.assignor"),
            assignment_strategy: assignors(&values.text("partition.assignment.strategy"))?,
            pace: pace(values),
            session_timeout: values.millis("session.timeout.ms"),
            heartbeat_interval: values.millis("heartbeat.interval.ms"),
            max_poll_interval: values.millis("max.poll.interval.ms"),
            auto_commit_interval: auto_commit.then(|| values.millis("auto.commit.interval.ms")),
            auto_commit_records: Some(values.int("auto.commit.records").unsigned_abs())
                .filter(|&records| auto_commit && records > 0),
            exclude_internal_topics: values.bool("exclude.internal.topics"),
            reset: reset_policy(values),
            share: ShareConfig {
                is_implicit: values.text("share.acknowledgement.mode") == "implicit",
                is_strict: values.text("share.acquire.mode") == "record_limit",
                max_poll_records: values.int("max.poll.records") as i32,
                follows_pace: !values.is_given("max.poll.records")
                    && values.text("share.acquire.mode") != "record_limit",
                longest_renewal: values.millis("share.renew.max.ms"),
            },
            read_committed: values.text("isolation.level") == "read_committed",
            fetch_min_bytes: values.int("fetch.min.bytes") as i32,
            fetch_max_bytes: values.int("fetch.max.bytes") as usize,
            fetch_max_wait: values.millis("fetch.max.wait.ms"),
            max_partition_fetch_bytes: values.int("max.partition.fetch.bytes") as i32,
            queued_max_bytes: values.int("queued.max.bytes") as usize,
            check_crcs: values.bool("check.crcs"),
            max_decompressed_batch_bytes: values.int("max.decompressed.batch.bytes") as usize,
            decode_threads: usize::try_from(values.int("decode.threads")).unwrap_or_else(|_| spare_cores()),
            request_timeout: values.millis("request.timeout.ms"),
            default_api_timeout: values.millis("default.api.timeout.ms"),
            bootstrap_timeout: values.millis("bootstrap.timeout.ms"),
            metadata_max_age: values.millis("metadata.max.age.ms"),
            reconnect_backoff: values.backoff("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
            retry_backoff: values.backoff("retry.backoff.ms", "retry.backoff.max.ms"),
            connections_max_idle: values.millis("connections.max.idle.ms"),
            connection_setup_timeout: values.millis("socket.connection.setup.timeout.ms"),
            receive_message_max_bytes: values.int("receive.message.max.bytes") as usize,
            receive_buffer_bytes: usize::try_from(values.int("receive.buffer.bytes")).ok().filter(|&bytes| bytes > 0),
            allow_auto_create_topics: values.bool("allow.auto.create.topics"),
            propagation: propagation(values, PROPAGATION),
            rebootstrap: values.text("metadata.recovery.strategy") == "rebootstrap",
            rebootstrap_trigger: values.millis("metadata.recovery.rebootstrap.trigger.ms"),
            schema_registry: registry(values)?,
            warnings,
        })
    }

    /// The configuration of a member under KIP-848.
    pub(crate) fn consumer_membership(&self) -> ConsumerProtocolConfig {
        ConsumerProtocolConfig {
            member: self.member(),
            assignor: self.remote_assignor.clone(),
            falls_back: self.group_protocol == GroupProtocol::Auto,
        }
    }

    /// The configuration of a member under the classic protocol, with these assignors.
    pub(crate) fn membership(&self, assignors: Vec<Arc<dyn Assignor>>) -> ClassicConfig {
        ClassicConfig { member: self.member(), assignors, heartbeat_interval: self.heartbeat_interval }
    }

    fn member(&self) -> MemberConfig {
        MemberConfig {
            group_id: self.group_id.clone().unwrap_or_default(),
            instance_id: self.group_instance_id.clone(),
            rack: self.client_rack.clone(),
            session_timeout: self.session_timeout,
            quick_heartbeats: QUICK_HEARTBEATS,
            max_poll_interval: self.max_poll_interval,
            auto_commit_interval: self.auto_commit_interval,
            backoff: self.retry_backoff,
        }
    }
}

fn group_protocol(values: &ConfigValues) -> GroupProtocol {
    match values.text("group.protocol").as_str() {
        "consumer" => GroupProtocol::Consumer,
        "auto" => GroupProtocol::Auto,
        _ => GroupProtocol::Classic,
    }
}

fn pace(values: &ConfigValues) -> Pace {
    Pace {
        max_delay: values.millis("scheduled.rebalance.max.delay.ms"),
        initial_delay: values.millis("group.initial.rebalance.delay.ms"),
        max_moves: Some(values.int("max.moves.per.round") as usize).filter(|&moves| moves > 0),
        round_interval: values.millis("round.interval.ms"),
    }
}

fn reset_policy(values: &ConfigValues) -> ResetPolicy {
    match values.text("auto.offset.reset").as_str() {
        "earliest" | "smallest" | "beginning" => ResetPolicy::Earliest,
        "latest" | "largest" | "end" => ResetPolicy::Latest,
        other => {
            let age = other.strip_prefix(BY_DURATION).and_then(|text| iso_duration::parse(text).ok());
            age.map_or(ResetPolicy::Fail, ResetPolicy::ByDuration)
        }
    }
}

/// Shortest wait for files, however short the time for a connection is.
const FILES_PATIENCE: Duration = Duration::from_secs(5);

struct Secured {
    tls: Option<Tls>,
    sasl: Option<Sasl>,
    warnings: Vec<String>,
}

/// The settings of TLS and SASL, with what their files hold. They are read on another thread, which is waited for as
/// long as for a connection.
fn secured(values: &ConfigValues, protocol: SecurityProtocol) -> Result<Secured, ConfigError> {
    let of = move |values: &ConfigValues| {
        let mut warnings = Vec::new();
        let tls = Tls::of(values, protocol.has_tls(), &mut warnings)?;
        let sasl = Sasl::of(values, protocol, &mut warnings)?;
        Ok(Secured { tls, sasl, warnings })
    };
    if protocol == SecurityProtocol::Plaintext {
        return of(values);
    }
    let patience = values.millis("socket.connection.setup.timeout.ms").max(FILES_PATIENCE);
    let owned = values.clone();
    files::within(patience, move || of(&owned)).unwrap_or_else(|| {
        let of_files = |name: &&str| name.ends_with("location") || name.ends_with("file");
        let named: Vec<&str> = values.given_under("").filter(of_files).collect();
        let key = named.first().copied().unwrap_or("ssl.truststore.location");
        let message = format!(
            "{}: the files could not be read within {} ms; their file system may not answer",
            if named.is_empty() { key.to_owned() } else { named.join(", ") },
            patience.as_millis()
        );
        Err(ConfigError { key: key.into(), message })
    })
}

/// All cores but one, which the reading thread uses; at most 8.
fn spare_cores() -> usize {
    std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1).min(8)
}

/// Names of the assignors, with those of Java's classes (accepted with or without their package).
const ASSIGNORS: [(&str, &str); 6] = [
    ("range", "RangeAssignor"),
    ("roundrobin", "RoundRobinAssignor"),
    ("sticky", "StickyAssignor"),
    ("cooperative-sticky", "CooperativeStickyAssignor"),
    // Java has no such assignors.
    ("deferred", "deferred"),
    ("incremental", "incremental"),
];

fn assignors(text: &str) -> Result<Vec<String>, ConfigError> {
    let key = "partition.assignment.strategy";
    let error = |message| Err(ConfigError { key: key.into(), message });
    let known = ASSIGNORS.map(|(name, _)| name).join(", ");
    let mut names: Vec<String> = Vec::new();
    for given in text.split(',').map(str::trim).filter(|given| !given.is_empty()) {
        let class = given.strip_prefix("org.apache.kafka.clients.consumer.").unwrap_or(given);
        let found = ASSIGNORS.iter().find(|(name, java)| name.eq_ignore_ascii_case(given) || *java == class);
        let Some((name, _)) = found else {
            return error(format!("{key}: there is no assignor {given:?}; expected some of {known}"));
        };
        if names.iter().any(|before| before == name) {
            return error(format!("{key}: {name} stands twice in {text:?}"));
        }
        names.push((*name).into());
    }
    if names.is_empty() {
        return error(format!("{key}: expected some of {known}"));
    }
    let found: Vec<_> = names.iter().filter_map(|name| builtin(name)).collect();
    match eager_beside_deferring(&found) {
        Some(message) => error(format!("{key}: {message}")),
        None => Ok(names),
    }
}

fn addresses(text: &str, protocol: SecurityProtocol) -> Result<Vec<(String, u16)>, ConfigError> {
    let wrong = |address: &str, why: &str| ConfigError {
        key: "bootstrap.servers".into(),
        message: format!("bootstrap.servers={text:?}: {address:?} {why}; expected host:port[,host:port...]"),
    };
    if text.contains('@') {
        // The text is left out: what stands before the "@" is probably a password.
        let message = "bootstrap.servers: a server has neither a user nor a password (\"@\"); they go into sasl.username and \
                       sasl.password. Expected host:port[,host:port...]";
        return Err(ConfigError { key: "bootstrap.servers".into(), message: message.into() });
    }
    let mut addresses = Vec::new();
    for address in text.split(',').map(str::trim).filter(|address| !address.is_empty()) {
        // Java accepts "PLAINTEXT://host:port" too.
        let (host, port) = match address.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(protocol.name()) => rest,
            Some(_) => {
                let why = format!("names another protocol than security.protocol={}", protocol.name());
                return Err(wrong(address, &why));
            }
            None => address,
        }
        .rsplit_once(':')
        .ok_or_else(|| wrong(address, "has no port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().ok().filter(|&port| port > 0).ok_or_else(|| wrong(address, "has no valid port"))?;
        if host.is_empty() {
            return Err(wrong(address, "has no host"));
        }
        addresses.push((host.to_owned(), port));
    }
    match addresses.is_empty() {
        true => Err(wrong("", "names no server")),
        false => Ok(addresses),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
