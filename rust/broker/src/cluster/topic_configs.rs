//! The configs of topics: the table of their definitions, and typed access to those with an effect.

use std::collections::BTreeMap;

use super::config_def::{ConfigDef, Rule};
use crate::settings::{ConfigType, KafkaSettings};

use ConfigType::{Boolean, Double, Int, List, Long, String as Text};

const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
/// Kafka's minimum of segment.bytes.
const MIN_SEGMENT_BYTES: i64 = 1024 * 1024;
/// A config of Kafka's own tests without that minimum. DescribeConfigs does not show it.
const INTERNAL_SEGMENT_BYTES: &str = "internal.segment.bytes";

macro_rules! defs {
    ($($name:literal, $kind:ident, $rule:expr, $default:literal, $server:expr, $effect:literal, $documentation:literal;)*) => {
        &[$(ConfigDef {
            name: $name,
            kind: $kind,
            rule: $rule,
            default: $default,
            server: $server,
            effect: $effect,
            documentation: $documentation,
        },)*]
    };
}

/// The topic configs of Kafka 4.4.0, sorted by name.
#[rustfmt::skip]
pub(crate) const TOPIC_CONFIGS: &[ConfigDef] = defs! {
    "cleanup.policy", List, Rule::OneOf(&["compact", "delete"]), "delete", Some("log.cleanup.policy"), true,
        "What happens to old records: \"delete\" drops segments by age and size, \"compact\" keeps the latest record of each key; both may be set, or neither.";
    "compression.gzip.level", Int, Rule::BetweenOrMinusOne(1, 9), "-1", Some("compression.gzip.level"), false,
        "Compression level of gzip if compression.type is gzip.";
    "compression.lz4.level", Int, Rule::Between(1, 17), "9", Some("compression.lz4.level"), false,
        "Compression level of lz4 if compression.type is lz4.";
    "compression.type", Text, Rule::OneOf(CODECS), "producer", Some("compression.type"), true,
        "Codec of batches in the log; \"producer\" keeps the producer's.";
    "compression.zstd.level", Int, Rule::Between(-131072, 22), "3", Some("compression.zstd.level"), false,
        "Compression level of zstd if compression.type is zstd.";
    "delete.retention.ms", Long, Rule::AtLeast(0), "86400000", Some("log.cleaner.delete.retention.ms"), true,
        "How long compaction keeps a tombstone, in milliseconds.";
    "errors.deadletterqueue.group.enable", Boolean, Rule::Any, "false", None, false,
        "Whether share groups may use this topic as their dead letter queue.";
    "file.delete.delay.ms", Long, Rule::AtLeast(0), "60000", Some("log.segment.delete.delay.ms"), false,
        "How long the file of a deleted segment stays on disk, in milliseconds.";
    "flush.messages", Long, Rule::AtLeast(1), "9223372036854775807", Some("log.flush.interval.messages"), false,
        "Number of records after which the log is flushed to disk.";
    "flush.ms", Long, Rule::AtLeast(0), "9223372036854775807", None, false,
        "Time after which the log is flushed to disk, in milliseconds.";
    "follower.replication.throttled.replicas", List, Rule::ThrottledReplicas, "", None, false,
        "Replicas whose replication is throttled on the follower.";
    "index.interval.bytes", Int, Rule::AtLeast(0), "4096", Some("log.index.interval.bytes"), false,
        "Bytes of the log between two entries of the offset index.";
    "internal.segment.bytes", Int, Rule::AtLeast(14), "", None, true,
        "Size at which a segment is closed, without the lower limit of segment.bytes, for tests.";
    "leader.replication.throttled.replicas", List, Rule::ThrottledReplicas, "", None, false,
        "Replicas whose replication is throttled on the leader.";
    "local.retention.bytes", Long, Rule::AtLeast(-2), "-2", Some("log.local.retention.bytes"), false,
        "How many bytes of a partition stay on local disks with tiered storage.";
    "local.retention.ms", Long, Rule::AtLeast(-2), "-2", Some("log.local.retention.ms"), false,
        "How long segments stay on local disks with tiered storage, in milliseconds.";
    "max.compaction.lag.ms", Long, Rule::AtLeast(1), "9223372036854775807", Some("log.cleaner.max.compaction.lag.ms"), true,
        "Age of a record at which its log is compacted even if min.cleanable.dirty.ratio is not reached, in milliseconds.";
    "max.decompressed.message.bytes", Int, Rule::Between(1, 2147483639), "2147483639", Some("max.decompressed.message.bytes"), false,
        "Largest record after decompression, in bytes.";
    "max.message.bytes", Int, Rule::AtLeast(0), "1048588", Some("message.max.bytes"), true,
        "Largest record batch that a producer may write, in bytes.";
    "message.timestamp.after.max.ms", Long, Rule::AtLeast(0), "3600000", Some("log.message.timestamp.after.max.ms"), true,
        "How far a record's timestamp may lie after the broker's time, in milliseconds.";
    "message.timestamp.before.max.ms", Long, Rule::AtLeast(0), "9223372036854775807", Some("log.message.timestamp.before.max.ms"), true,
        "How far a record's timestamp may lie before the broker's time, in milliseconds.";
    "message.timestamp.type", Text, Rule::OneOf(&["CreateTime", "LogAppendTime"]), "CreateTime", Some("log.message.timestamp.type"), true,
        "Which timestamp records get: the producer's (CreateTime) or the broker's (LogAppendTime).";
    "min.cleanable.dirty.ratio", Double, Rule::Between(0, 1), "0.5", Some("log.cleaner.min.cleanable.ratio"), true,
        "Share of the log, 0 to 1, that must be new since its last compaction before it is compacted again.";
    "min.compaction.lag.ms", Long, Rule::AtLeast(0), "0", Some("log.cleaner.min.compaction.lag.ms"), true,
        "How old a record must be before compaction may remove it, in milliseconds.";
    "min.insync.replicas", Int, Rule::AtLeast(1), "1", Some("min.insync.replicas"), true,
        "How many in-sync replicas a write with acks=all needs.";
    "preallocate", Boolean, Rule::Any, "false", Some("log.preallocate"), false,
        "Whether a segment's file is created in its full size.";
    "remote.copy.lag.bytes", Long, Rule::AtLeast(-1), "-1", Some("log.remote.copy.lag.bytes"), false,
        "How many bytes must follow a segment before it is copied to tiered storage; -1 for as long as it stays local.";
    "remote.copy.lag.ms", Long, Rule::AtLeast(-1), "0", Some("log.remote.copy.lag.ms"), false,
        "Age at which a segment is copied to tiered storage, in milliseconds; -1 for as long as it stays local.";
    "remote.log.copy.disable", Boolean, Rule::Any, "false", None, false,
        "Whether new segments are no longer copied to tiered storage.";
    "remote.log.delete.on.disable", Boolean, Rule::Any, "false", None, false,
        "Whether disabling tiered storage deletes the topic's data in it.";
    "remote.storage.enable", Boolean, Rule::Any, "false", None, false,
        "Whether the topic uses tiered storage.";
    "retention.bytes", Long, Rule::Any, "-1", Some("log.retention.bytes"), true,
        "How many bytes of a partition are kept; negative for all.";
    "retention.ms", Long, Rule::AtLeast(-1), "604800000", Some("log.retention.ms"), true,
        "How long records are kept, in milliseconds; -1 for ever.";
    "segment.bytes", Int, Rule::AtLeast(MIN_SEGMENT_BYTES), "1073741824", Some("log.segment.bytes"), true,
        "Size at which a segment is closed, in bytes.";
    "segment.index.bytes", Int, Rule::AtLeast(4), "10485760", Some("log.index.size.max.bytes"), false,
        "Size of the offset index, in bytes.";
    "segment.jitter.ms", Long, Rule::AtLeast(0), "0", None, false,
        "Most milliseconds by which a segment is closed earlier than segment.ms says, at random.";
    "segment.ms", Long, Rule::AtLeast(1), "604800000", Some("log.roll.ms"), true,
        "Age at which a segment is closed even if it is not full, in milliseconds.";
    "unclean.leader.election.enable", Boolean, Rule::Any, "false", Some("unclean.leader.election.enable"), true,
        "Whether a replica that is not in sync may become leader.";
};

impl ConfigDef {
    pub(crate) fn of_topic(name: &str) -> Option<&'static Self> {
        TOPIC_CONFIGS.iter().find(|def| def.name == name)
    }

    /// True if DescribeConfigs shows it.
    pub(crate) fn is_public(&self) -> bool {
        self.name != INTERNAL_SEGMENT_BYTES
    }
}

macro_rules! typed {
    ($($field:ident: $type:ty, $name:literal, $setting:ident;)*) => {
        /// The values with an effect, parsed once.
        #[derive(Clone, Debug, Default, PartialEq)]
        struct Typed {
            internal_segment_bytes: Option<i32>,
            segment_bytes: Option<i32>,
            cleanup_policy: Option<CleanupPolicy>,
            $($field: Option<$type>,)*
        }

        impl Typed {
            fn read(texts: &BTreeMap<String, String>) -> Self {
                let text = |name: &str| texts.get(name);
                Self {
                    internal_segment_bytes: text(INTERNAL_SEGMENT_BYTES).and_then(|value| value.parse().ok()),
                    segment_bytes: text("segment.bytes").and_then(|value| value.parse().ok()),
                    cleanup_policy: text("cleanup.policy").map(|value| CleanupPolicy::read(value)),
                    $($field: text($name).and_then(|value| value.parse().ok()),)*
                }
            }
        }

        impl TopicConfig {
            $(pub(crate) fn $field(&self, settings: &KafkaSettings) -> $type {
                self.typed.$field.clone().unwrap_or_else(|| settings.$setting.clone())
            })*
        }
    };
}

typed! {
    compression_type: String, "compression.type", compression_type;
    delete_retention_ms: i64, "delete.retention.ms", log_cleaner_delete_retention_ms;
    max_compaction_lag_ms: i64, "max.compaction.lag.ms", log_cleaner_max_compaction_lag_ms;
    max_message_bytes: i32, "max.message.bytes", message_max_bytes;
    message_timestamp_after_max_ms: i64, "message.timestamp.after.max.ms", log_message_timestamp_after_max_ms;
    message_timestamp_before_max_ms: i64, "message.timestamp.before.max.ms", log_message_timestamp_before_max_ms;
    message_timestamp_type: String, "message.timestamp.type", log_message_timestamp_type;
    min_cleanable_dirty_ratio: f64, "min.cleanable.dirty.ratio", log_cleaner_min_cleanable_ratio;
    min_compaction_lag_ms: i64, "min.compaction.lag.ms", log_cleaner_min_compaction_lag_ms;
    min_insync_replicas: i32, "min.insync.replicas", min_insync_replicas;
    retention_bytes: i64, "retention.bytes", log_retention_bytes;
    retention_ms: i64, "retention.ms", log_retention_ms;
    segment_ms: i64, "segment.ms", log_roll_ms;
    unclean_leader_election_enable: bool, "unclean.leader.election.enable", unclean_leader_election_enable;
}

/// The policy for old records. Since Kafka 4.2 both may be off: then everything is kept.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CleanupPolicy {
    pub(crate) compact: bool,
    pub(crate) delete: bool,
}

impl CleanupPolicy {
    fn read(text: &str) -> Self {
        let has = |policy: &str| text.split(',').any(|item| item.trim() == policy);
        Self { compact: has("compact"), delete: has("delete") }
    }
}

/// The configs that were set for a topic itself, under Kafka's names. The broker's settings apply to the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TopicConfig {
    texts: BTreeMap<String, String>,
    typed: Typed,
}

impl TopicConfig {
    /// Parses configs from names and values.
    ///
    /// # Errors
    /// Kafka's message for the first name or value that is invalid.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        for (name, value) in values {
            let def = ConfigDef::of_topic(name).ok_or_else(|| format!("Unknown topic config name: {name}"))?;
            texts.insert(name.to_owned(), def.normalize(value)?);
        }
        Ok(Self { typed: Typed::read(&texts), texts })
    }

    /// Checks that min.compaction.lag.ms is not larger than max.compaction.lag.ms.
    ///
    /// # Errors
    /// Kafka's message.
    pub(crate) fn check_lags(&self, settings: &KafkaSettings) -> Result<(), String> {
        let (min, max) = (self.min_compaction_lag_ms(settings), self.max_compaction_lag_ms(settings));
        if min <= max {
            return Ok(());
        }
        Err(format!("conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// All values that were set, sorted by name.
    pub(crate) fn set_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn cleanup_policy(&self, settings: &KafkaSettings) -> CleanupPolicy {
        self.typed.cleanup_policy.unwrap_or_else(|| CleanupPolicy::read(&settings.log_cleanup_policy))
    }

    /// The age at which a segment is closed. With compaction at most max.compaction.lag.ms, because the active segment
    /// is never compacted.
    pub(crate) fn roll_ms(&self, settings: &KafkaSettings) -> i64 {
        let segment_ms = self.segment_ms(settings);
        if self.cleanup_policy(settings).compact {
            segment_ms.min(self.max_compaction_lag_ms(settings).max(1))
        } else {
            segment_ms
        }
    }

    pub(crate) fn segment_bytes(&self, settings: &KafkaSettings) -> i32 {
        self.typed.internal_segment_bytes.or(self.typed.segment_bytes).unwrap_or(settings.log_segment_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topics_own_value_goes_before_the_brokers() {
        let settings = KafkaSettings::default();
        let config = TopicConfig::new([("retention.ms", " 5 "), ("cleanup.policy", " compact , delete ")]).unwrap();
        assert_eq!((config.retention_ms(&settings), config.get("retention.ms")), (5, Some("5")));
        assert_eq!(config.cleanup_policy(&settings), CleanupPolicy { compact: true, delete: true });
        let config = TopicConfig::default();
        assert_eq!(config.retention_ms(&settings), settings.log_retention_ms);
        assert_eq!(config.cleanup_policy(&settings), CleanupPolicy { compact: false, delete: true });
        let config = TopicConfig::new([("internal.segment.bytes", "100"), ("cleanup.policy", "")]).unwrap();
        assert_eq!(config.segment_bytes(&settings), 100);
        assert_eq!(config.cleanup_policy(&settings), CleanupPolicy::default());
    }

    #[test]
    fn values_are_refused_in_kafkas_words() {
        let cases = [
            ("foo", "1", "Unknown topic config name: foo"),
            ("retention.ms", "bogus", "Invalid value bogus for configuration retention.ms: Not a number of type LONG"),
            ("retention.ms", "-3", "Invalid value -3 for configuration retention.ms: Value must be at least -1"),
            (
                "preallocate",
                " 5 ",
                "Invalid value  5  for configuration preallocate: Expected value to be either true or false",
            ),
            ("segment.bytes", " 5 ", "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576"),
            (
                "max.message.bytes",
                "99999999999",
                "Invalid value 99999999999 for configuration max.message.bytes: Not a number of type INT",
            ),
            (
                "compression.gzip.level",
                "10",
                "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
            ),
            (
                "cleanup.policy",
                "bogus",
                "Invalid value bogus for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            ("cleanup.policy", "delete,,compact", "Configuration 'cleanup.policy' values must not be empty."),
            (
                "min.cleanable.dirty.ratio",
                "-3",
                "Invalid value -3.0 for configuration min.cleanable.dirty.ratio: Value must be at least 0",
            ),
            (
                "message.timestamp.type",
                "createtime",
                "Invalid value createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
            ),
        ];
        for (name, value, words) in cases {
            assert_eq!(TopicConfig::new([(name, value)]), Err(words.to_owned()), "{name}={value}");
        }
        let words = TopicConfig::new([("leader.replication.throttled.replicas", "0:1,x")]).unwrap_err();
        assert!(words.starts_with("Invalid value [0:1, x] for configuration leader.replication"), "{words}");
        assert!(TopicConfig::new([("leader.replication.throttled.replicas", "0:1,1:2")]).is_ok());
    }

    #[test]
    fn the_table_is_sorted_and_its_defaults_are_legal() {
        assert!(TOPIC_CONFIGS.is_sorted_by_key(|def| def.name));
        for def in TOPIC_CONFIGS.iter().filter(|def| def.is_public()) {
            assert_eq!(def.normalize(def.default).as_deref(), Ok(def.default), "{}", def.name);
        }
    }
}
