//! The settings of a broker: the layout of the cluster, and Kafka's broker settings by Kafka's names.

mod config_type;
mod first_use;
mod share_groups;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub(crate) use config_type::ConfigType;
pub use first_use::FirstUse;

use crate::BrokerError;
use crate::security::SecuritySettings;

/// The layout of the cluster, and its settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of virtual nodes.
    pub nodes: u16,
    /// The id of the first node; each further one has the next id.
    pub first_node_id: i32,
    /// The host that all nodes listen on.
    pub host: String,
    /// The port of the first node; each further one has the next port. 0 takes any free ports.
    pub port: u16,
    /// The racks of the nodes, in order; empty for none. Further nodes have no rack.
    pub racks: Vec<String>,
    /// The directory that stores topics, offsets, groups and what is set about security; `None` for memory only.
    pub data_dir: Option<PathBuf>,
    /// The topics to create at the start, unless the data directory has them.
    pub topics: Vec<TopicSpec>,
    /// The control port, on loopback; `None` for none, 0 for any free port.
    pub control_port: Option<u16>,
    /// The cluster id.
    pub cluster_id: String,
    /// The seed of all that the broker draws at random: member ids, topic ids, faults with a probability.
    pub seed: u64,
    /// The highest offered version of an API, by the API's code, to imitate an older Kafka. A negative one withdraws
    /// the API.
    pub max_versions: BTreeMap<i16, i16>,
    /// The time for which a coordinator answers COORDINATOR_LOAD_IN_PROGRESS after it has become the leader of a
    /// partition of groups or transactions, in milliseconds.
    pub coordinator_load_ms: i64,
    /// The answers of the cluster at the first use of topics and coordinators.
    pub first_use: FirstUse,
    /// True if the broker takes the metrics that clients push (KIP-714), as a Kafka with a receiver plug-in does.
    pub client_metrics: bool,
    /// Most bytes that a record batch may decompress to. Kafka has no such limit: it reads records as they are
    /// decompressed.
    pub max_decompressed_batch_bytes: usize,
    /// Authentication and authorization of clients.
    pub security: SecuritySettings,
    /// Kafka's other broker settings.
    pub kafka: KafkaSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 1,
            first_node_id: 1,
            host: "127.0.0.1".to_owned(),
            port: 0,
            racks: Vec::new(),
            data_dir: None,
            topics: Vec::new(),
            control_port: None,
            cluster_id: "bW9uZWR1bGEtYnJva2Vy".to_owned(),
            seed: 0,
            max_versions: BTreeMap::new(),
            coordinator_load_ms: 0,
            first_use: FirstUse::default(),
            client_metrics: false,
            max_decompressed_batch_bytes: 256 << 20,
            security: SecuritySettings::default(),
            kafka: KafkaSettings::default(),
        }
    }
}

/// The name of [`Settings::max_decompressed_batch_bytes`], which is no setting of Kafka's.
pub(crate) const MAX_DECOMPRESSED_BATCH_BYTES: &str = "max.decompressed.batch.bytes";

/// The log directory that is reported if there is no data directory.
const MEMORY: &str = "/memory";

impl Settings {
    /// Sets a broker setting by Kafka's name, or the limit on decompressed batches by the client's.
    ///
    /// # Errors
    /// [`BrokerError::Setting`] for an unknown name, or an invalid value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BrokerError> {
        if name == MAX_DECOMPRESSED_BATCH_BYTES {
            let bytes: i32 = parse(name, value)?;
            self.max_decompressed_batch_bytes = bytes.max(0) as usize;
            return Ok(());
        }
        if self.security.set(name, value)? { Ok(()) } else { self.kafka.set(name, value) }
    }

    /// The directory of all logs, as DescribeLogDirs and the config `log.dirs` report it.
    pub(crate) fn log_dir(&self) -> PathBuf {
        let path = self.data_dir.as_deref().unwrap_or(Path::new(MEMORY));
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }
}

/// A topic to create at the start; written `orders:3`, or `orders` for `num.partitions` partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    /// The topic's name.
    pub name: String,
    /// The partition count; `None` for `num.partitions`.
    pub partitions: Option<i32>,
}

impl FromStr for TopicSpec {
    type Err = BrokerError;

    fn from_str(text: &str) -> Result<Self, BrokerError> {
        let Some((name, partitions)) = text.split_once(':') else {
            return Ok(Self { name: text.to_owned(), partitions: None });
        };
        match partitions.parse() {
            Ok(partitions) if partitions > 0 => Ok(Self { name: name.to_owned(), partitions: Some(partitions) }),
            _ => {
                let problem = format!("{text:?}: a topic is written name:partitions, such as orders:3");
                Err(BrokerError::Setting { name: "topics".to_owned(), problem })
            }
        }
    }
}

macro_rules! kafka_settings {
    ($($(#[doc = $doc:literal])* $field:ident: $type:ty = $default:expr, $name:literal;)*) => {
        /// Kafka's broker settings that have an effect here, with Kafka's defaults unless a field says otherwise.
        #[derive(Clone, Debug, PartialEq)]
        pub struct KafkaSettings {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl Default for KafkaSettings {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl KafkaSettings {
            /// The names of all settings, in the order of the table.
            pub const NAMES: &[&str] = &[$($name,)*];

            /// Sets a setting by Kafka's name.
            ///
            /// # Errors
            /// [`BrokerError::Setting`] for an unknown name, or a value of another type.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), BrokerError> {
                match name {
                    $($name => self.$field = parse(name, value)?,)*
                    _ => return Err(unknown(name)),
                }
                Ok(())
            }

            /// The type of a setting.
            pub(crate) fn kind(name: &str) -> Option<ConfigType> {
                match name {
                    $($name => Some(<$type as Text>::KIND),)*
                    _ => None,
                }
            }

            /// The documentation of a setting, which DescribeConfigs returns.
            pub(crate) fn documentation(name: &str) -> Option<&'static str> {
                match name {
                    $($name => Some(concat!($($doc),*).trim_ascii_start()),)*
                    _ => None,
                }
            }

            /// The value of a setting that is a whole number.
            pub(crate) fn number(&self, name: &str) -> Option<i64> {
                match name {
                    $($name => text(&self.$field).parse().ok(),)*
                    _ => None,
                }
            }

            /// Every setting by Kafka's name, its value as text, and whether it is the default.
            pub fn entries(&self) -> Vec<(&'static str, String, bool)> {
                let default = Self::default();
                vec![$(($name, text(&self.$field), self.$field == default.$field),)*]
            }
        }
    };
}

kafka_settings! {
    /// True if a Metadata request for a topic that does not exist creates it.
    auto_create_topics_enable: bool = true, "auto.create.topics.enable";
    /// Partition count of a topic that is created without one.
    num_partitions: i32 = 1, "num.partitions";
    /// Replication factor of a topic that is created without one; at most the number of nodes.
    default_replication_factor: i16 = 1, "default.replication.factor";
    /// Number of in-sync replicas that a write with acks=all needs.
    min_insync_replicas: i32 = 1, "min.insync.replicas";
    /// Largest record batch that a producer may write, in bytes.
    message_max_bytes: i32 = 1_048_588, "message.max.bytes";
    /// Timestamp that records get: the producer's (CreateTime) or the broker's (LogAppendTime).
    log_message_timestamp_type: String = "CreateTime".to_owned(), "log.message.timestamp.type";
    /// Policy for old records: delete, compact, or both.
    log_cleanup_policy: String = "delete".to_owned(), "log.cleanup.policy";
    /// Codec of batches in the log: a codec, uncompressed, or producer for the producer's own.
    compression_type: String = "producer".to_owned(), "compression.type";
    /// Longest time by which a record's timestamp may lie before the broker's, in milliseconds.
    log_message_timestamp_before_max_ms: i64 = i64::MAX, "log.message.timestamp.before.max.ms";
    /// Longest time by which a record's timestamp may lie after the broker's, in milliseconds.
    log_message_timestamp_after_max_ms: i64 = 3_600_000, "log.message.timestamp.after.max.ms";
    /// Time for which compaction keeps a tombstone, in milliseconds.
    log_cleaner_delete_retention_ms: i64 = 86_400_000, "log.cleaner.delete.retention.ms";
    /// Age at which compaction may remove a record, in milliseconds.
    log_cleaner_min_compaction_lag_ms: i64 = 0, "log.cleaner.min.compaction.lag.ms";
    /// Age of a record at which its log is compacted even if log.cleaner.min.cleanable.ratio is not reached, in
    /// milliseconds.
    log_cleaner_max_compaction_lag_ms: i64 = i64::MAX, "log.cleaner.max.compaction.lag.ms";
    /// Share of a log, 0 to 1, that must be new since its last compaction before it is compacted again.
    log_cleaner_min_cleanable_ratio: f64 = 0.5, "log.cleaner.min.cleanable.ratio";
    /// Interval at which the broker looks for logs to compact, in milliseconds.
    log_cleaner_backoff_ms: i64 = 15_000, "log.cleaner.backoff.ms";
    /// True if the broker compacts logs by itself.
    log_cleaner_enable: bool = true, "log.cleaner.enable";
    /// Age at which a segment is closed even if it is not full, in milliseconds.
    log_roll_ms: i64 = 604_800_000, "log.roll.ms";
    /// Time for which records are kept, in milliseconds; -1 for ever.
    log_retention_ms: i64 = 604_800_000, "log.retention.ms";
    /// Number of bytes of a partition that are kept; -1 for all.
    log_retention_bytes: i64 = -1, "log.retention.bytes";
    /// Interval at which the broker looks for segments that retention removes, in milliseconds.
    log_retention_check_interval_ms: i64 = 300_000, "log.retention.check.interval.ms";
    /// Size at which a segment is closed, in bytes. Kafka has 1 GiB; segments in memory are better small, because
    /// retention drops whole ones.
    log_segment_bytes: i32 = 16 * 1024 * 1024, "log.segment.bytes";
    /// Most bytes of records in a Fetch response.
    fetch_max_bytes: i32 = 57_671_680, "fetch.max.bytes";
    /// Number of fetch sessions (KIP-227) that a node keeps.
    max_incremental_fetch_session_cache_slots: i32 = 1000, "max.incremental.fetch.session.cache.slots";
    /// Largest request, in bytes.
    socket_request_max_bytes: i32 = 104_857_600, "socket.request.max.bytes";
    /// Time for which a connection may be idle before the broker closes it, in milliseconds; -1 for ever.
    connections_max_idle_ms: i64 = 600_000, "connections.max.idle.ms";
    /// True if topics may be deleted.
    delete_topic_enable: bool = true, "delete.topic.enable";
    /// True if a replica that is not in sync may become leader.
    unclean_leader_election_enable: bool = false, "unclean.leader.election.enable";
    /// Time for which the broker remembers an idempotent producer that writes nothing, in milliseconds.
    producer_id_expiration_ms: i32 = 86_400_000, "producer.id.expiration.ms";
    /// Time for which the first rebalance of a new classic group waits for more members, in milliseconds. Kafka has 3000.
    group_initial_rebalance_delay_ms: i32 = 0, "group.initial.rebalance.delay.ms";
    /// Shortest session timeout that a classic member may ask for, in milliseconds.
    group_min_session_timeout_ms: i32 = 6000, "group.min.session.timeout.ms";
    /// Longest session timeout that a classic member may ask for, in milliseconds.
    group_max_session_timeout_ms: i32 = 1_800_000, "group.max.session.timeout.ms";
    /// Largest number of members of a classic group.
    group_max_size: i32 = i32::MAX, "group.max.size";
    /// Time without a heartbeat after which a member of a consumer group (KIP-848) is removed, in milliseconds.
    group_consumer_session_timeout_ms: i32 = 45_000, "group.consumer.session.timeout.ms";
    /// Heartbeat interval of members of consumer groups, in milliseconds.
    group_consumer_heartbeat_interval_ms: i32 = 5000, "group.consumer.heartbeat.interval.ms";
    /// Shortest session timeout that a consumer group may be configured with, in milliseconds.
    group_consumer_min_session_timeout_ms: i32 = 45_000, "group.consumer.min.session.timeout.ms";
    /// Longest session timeout that a consumer group may be configured with, in milliseconds.
    group_consumer_max_session_timeout_ms: i32 = 60_000, "group.consumer.max.session.timeout.ms";
    /// Shortest heartbeat interval that a consumer group may be configured with, in milliseconds.
    group_consumer_min_heartbeat_interval_ms: i32 = 5000, "group.consumer.min.heartbeat.interval.ms";
    /// Longest heartbeat interval that a consumer group may be configured with, in milliseconds.
    group_consumer_max_heartbeat_interval_ms: i32 = 15_000, "group.consumer.max.heartbeat.interval.ms";
    /// Shortest time between two assignments of a consumer group, in milliseconds. Kafka has 1000.
    group_consumer_assignment_interval_ms: i32 = 0, "group.consumer.assignment.interval.ms";
    /// Largest number of members of a consumer group.
    group_consumer_max_size: i32 = i32::MAX, "group.consumer.max.size";
    /// Assignors of consumer groups; the first is the default.
    group_consumer_assignors: String = "uniform,range".to_owned(), "group.consumer.assignors";
    /// True if a group with members may change its protocol: disabled, upgrade, downgrade or bidirectional.
    group_consumer_migration_policy: String = "bidirectional".to_owned(), "group.consumer.migration.policy";
    /// Time without a heartbeat after which a member of a share group (KIP-932) is removed, in milliseconds.
    group_share_session_timeout_ms: i32 = 45_000, "group.share.session.timeout.ms";
    /// Shortest session timeout that a share group may be configured with, in milliseconds.
    group_share_min_session_timeout_ms: i32 = 45_000, "group.share.min.session.timeout.ms";
    /// Longest session timeout that a share group may be configured with, in milliseconds.
    group_share_max_session_timeout_ms: i32 = 60_000, "group.share.max.session.timeout.ms";
    /// Heartbeat interval of members of share groups, in milliseconds.
    group_share_heartbeat_interval_ms: i32 = 5000, "group.share.heartbeat.interval.ms";
    /// Shortest heartbeat interval that a share group may be configured with, in milliseconds.
    group_share_min_heartbeat_interval_ms: i32 = 5000, "group.share.min.heartbeat.interval.ms";
    /// Longest heartbeat interval that a share group may be configured with, in milliseconds.
    group_share_max_heartbeat_interval_ms: i32 = 15_000, "group.share.max.heartbeat.interval.ms";
    /// Shortest time between two assignments of a share group, in milliseconds. Kafka has 1000.
    group_share_assignment_interval_ms: i32 = 0, "group.share.assignment.interval.ms";
    /// Largest number of members of a share group.
    group_share_max_size: i32 = 200, "group.share.max.size";
    /// Number of share sessions that a node keeps.
    group_share_max_share_sessions: i32 = 2000, "group.share.max.share.sessions";
    /// Time for which a member of a share group has a record that it has acquired, in milliseconds.
    group_share_record_lock_duration_ms: i32 = 30_000, "group.share.record.lock.duration.ms";
    /// Shortest lock of records that a share group may be configured with, in milliseconds.
    group_share_min_record_lock_duration_ms: i32 = 15_000, "group.share.min.record.lock.duration.ms";
    /// Longest lock of records that a share group may be configured with, in milliseconds.
    group_share_max_record_lock_duration_ms: i32 = 60_000, "group.share.max.record.lock.duration.ms";
    /// Number of times that a share group delivers a record.
    group_share_delivery_count_limit: i32 = 5, "group.share.delivery.count.limit";
    /// Lowest number of deliveries that a share group may be configured with.
    group_share_min_delivery_count_limit: i32 = 2, "group.share.min.delivery.count.limit";
    /// Highest number of deliveries that a share group may be configured with.
    group_share_max_delivery_count_limit: i32 = 10, "group.share.max.delivery.count.limit";
    /// Number of offsets of a partition that may be in flight in a share group.
    group_share_partition_max_record_locks: i32 = 2000, "group.share.partition.max.record.locks";
    /// Lowest number of offsets in flight that a share group may be configured with.
    group_share_min_partition_max_record_locks: i32 = 100, "group.share.min.partition.max.record.locks";
    /// Highest number of offsets in flight that a share group may be configured with.
    group_share_max_partition_max_record_locks: i32 = 4000, "group.share.max.partition.max.record.locks";
    /// Partition count of `__share_group_state`, which has the state of share partitions.
    share_coordinator_state_topic_num_partitions: i32 = 50, "share.coordinator.state.topic.num.partitions";
    /// Beginning that the names of share groups' dead letter topics have to have.
    errors_deadletterqueue_topic_name_prefix: String = "dlq.".to_owned(), "errors.deadletterqueue.topic.name.prefix";
    /// True if a dead letter topic that does not exist is created.
    errors_deadletterqueue_auto_create_topics_enable: bool = false, "errors.deadletterqueue.auto.create.topics.enable";
    /// Partition count of `__consumer_offsets`; the partition of a group decides which node coordinates it.
    offsets_topic_num_partitions: i32 = 50, "offsets.topic.num.partitions";
    /// Time for which committed offsets are kept after their group has become empty, in minutes.
    offsets_retention_minutes: i32 = 10_080, "offsets.retention.minutes";
    /// Interval at which the broker looks for committed offsets to remove, in milliseconds.
    offsets_retention_check_interval_ms: i64 = 600_000, "offsets.retention.check.interval.ms";
    /// Largest metadata of a committed offset, in bytes.
    offset_metadata_max_bytes: i32 = 4096, "offset.metadata.max.bytes";
    /// Partition count of `__transaction_state`.
    transaction_state_log_num_partitions: i32 = 50, "transaction.state.log.num.partitions";
    /// Longest transaction timeout that a producer may ask for, in milliseconds.
    transaction_max_timeout_ms: i32 = 900_000, "transaction.max.timeout.ms";
    /// Interval at which the broker looks for transactions that timed out, in milliseconds.
    transaction_abort_timed_out_transaction_cleanup_interval_ms: i32 = 10_000, "transaction.abort.timed.out.transaction.cleanup.interval.ms";
    /// Interval at which the broker looks for expired transactional ids, in milliseconds.
    transaction_remove_expired_transaction_cleanup_interval_ms: i32 = 3_600_000, "transaction.remove.expired.transaction.cleanup.interval.ms";
    /// True if the broker refuses a transactional write to a partition that the coordinator has not added to the
    /// transaction (KIP-890).
    transaction_partition_verification_enable: bool = true, "transaction.partition.verification.enable";
    /// Time for which an unused transactional id is remembered, in milliseconds.
    transactional_id_expiration_ms: i32 = 604_800_000, "transactional.id.expiration.ms";
    /// `RackAwareReplicaSelector` (or Kafka's full class name) lets consumers fetch from a replica in their rack;
    /// empty means from leaders only.
    replica_selector_class: String = String::new(), "replica.selector.class";
}

/// Conversion of a value from and to Kafka's text form.
trait Text: Sized {
    const KIND: ConfigType;
    fn text(&self) -> String;
    fn parse(value: &str) -> Result<Self, String>;
}

fn text<T: Text>(value: &T) -> String {
    value.text()
}

fn parse<T: Text>(name: &str, value: &str) -> Result<T, BrokerError> {
    T::parse(value.trim()).map_err(|problem| BrokerError::Setting { name: name.to_owned(), problem })
}

fn number<T: FromStr>(value: &str) -> Result<T, String>
where
    T::Err: fmt::Display,
{
    value.parse().map_err(|error| format!("{value:?} is not a number that fits: {error}"))
}

macro_rules! numbers {
    ($($type:ty, $kind:ident;)*) => {
        $(impl Text for $type {
            const KIND: ConfigType = ConfigType::$kind;

            fn text(&self) -> String {
                self.to_string()
            }

            fn parse(value: &str) -> Result<Self, String> {
                number(value)
            }
        })*
    };
}

numbers! { i16, Short; i32, Int; i64, Long; }

impl Text for f64 {
    const KIND: ConfigType = ConfigType::Double;

    fn text(&self) -> String {
        format!("{self:?}")
    }

    fn parse(value: &str) -> Result<Self, String> {
        number(value)
    }
}

impl Text for bool {
    const KIND: ConfigType = ConfigType::Boolean;

    fn text(&self) -> String {
        self.to_string()
    }

    fn parse(value: &str) -> Result<Self, String> {
        match value.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{value:?} is neither true nor false")),
        }
    }
}

impl Text for String {
    const KIND: ConfigType = ConfigType::String;

    fn text(&self) -> String {
        self.clone()
    }

    fn parse(value: &str) -> Result<Self, String> {
        Ok(value.to_owned())
    }
}

fn unknown(name: &str) -> BrokerError {
    let near = KafkaSettings::NAMES.iter().map(|known| (likeness(known, name), *known)).max();
    let problem = match near {
        Some((50.., near)) => format!("this broker has no such setting; perhaps {near} is meant"),
        _ => format!("this broker has no such setting; it has {}", KafkaSettings::NAMES.join(", ")),
    };
    BrokerError::Setting { name: name.to_owned(), problem }
}

/// The similarity of two names in percent: the share of pairs of adjacent bytes that both have.
fn likeness(one: &str, other: &str) -> usize {
    let pairs = |text: &str| text.as_bytes().array_windows().copied().collect::<Vec<[u8; 2]>>();
    let (ones, mut others) = (pairs(one), pairs(other));
    let all = ones.len() + others.len();
    let mut common = 0;
    for pair in ones {
        if let Some(at) = others.iter().position(|other| *other == pair) {
            others.swap_remove(at);
            common += 1;
        }
    }
    200 * common / all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_goes_by_kafkas_name() {
        let mut settings = KafkaSettings::default();
        settings.set("group.min.session.timeout.ms", "100").unwrap();
        settings.set("auto.create.topics.enable", "False").unwrap();
        assert_eq!((settings.group_min_session_timeout_ms, settings.auto_create_topics_enable), (100, false));
        let changed: Vec<_> = settings.entries().into_iter().filter(|(_, _, default)| !default).collect();
        assert_eq!(changed.len(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_setting_is_told() {
        let mut settings = KafkaSettings::default();
        let error = settings.set("num.partitions", "many").unwrap_err().to_string();
        assert!(error.starts_with("num.partitions: \"many\" is not a number"), "{error}");
        let error = settings.set("num.partition", "1").unwrap_err().to_string();
        assert!(error.ends_with("perhaps num.partitions is meant"), "{error}");
        let error = settings.set("x", "1").unwrap_err().to_string();
        assert!(error.contains("no such setting; it has") && error.contains("num.partitions"), "{error}");
    }
}
