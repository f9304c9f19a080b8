//! Broker configs of Kafka that are described but have no effect on this broker: static ones that say where the nodes
//! are or that clients and tools read, and dynamic ones whose changes have no effect.
//! [`KafkaSettings`](crate::settings::KafkaSettings) has those with an effect.

use super::config_def::ConfigType;
use crate::cluster::NodeId;
use crate::core::Core;
use crate::security::SecurityProtocol;

use ConfigType::{Boolean, Double, Int, List, Long, Short, String as Text};

/// A broker config that is described.
#[derive(Copy, Clone, Debug)]
pub(crate) struct StaticConfig {
    pub(crate) name: &'static str,
    pub(crate) kind: ConfigType,
    /// Kafka's default, or the value that applies here if that differs; `None` if there is no default.
    pub(crate) default: Option<&'static str>,
    /// Whether Kafka allows changes at runtime. A changed value is stored and described.
    pub(crate) dynamic: bool,
    pub(crate) documentation: &'static str,
}

macro_rules! statics {
    ($($name:literal, $kind:ident, $default:expr, $dynamic:literal, $documentation:literal;)*) => {
        &[$(StaticConfig {
            name: $name,
            kind: $kind,
            default: $default,
            dynamic: $dynamic,
            documentation: $documentation,
        },)*]
    };
}

/// Kafka's class of the authorizer whose rules are those of this broker.
const AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// Sorted by name.
#[rustfmt::skip]
pub(crate) const STATIC_CONFIGS: &[StaticConfig] = statics! {
    "advertised.listeners", List, None, false, "Where clients are told to find the broker.";
    "authorizer.class.name", Text, Some(""), false, "Who says what a client may do; without it everybody may do everything.";
    "auto.leader.rebalance.enable", Boolean, Some("false"), false, "Whether preferred replicas become leaders by themselves.";
    "background.threads", Int, Some("10"), true, "Threads for housekeeping.";
    "broker.id", Int, Some("-1"), false, "The broker's id.";
    "broker.rack", Text, None, false, "The rack of the broker.";
    "compression.gzip.level", Int, Some("-1"), true, "The level of gzip where compression.type is gzip.";
    "compression.lz4.level", Int, Some("9"), true, "The level of lz4 where compression.type is lz4.";
    "compression.zstd.level", Int, Some("3"), true, "The level of zstd where compression.type is zstd.";
    "controlled.shutdown.enable", Boolean, Some("true"), false, "Whether a broker that stops gives its leaders away first.";
    "controller.listener.names", List, None, false, "Listeners of controllers.";
    "controller.quorum.voters", List, Some(""), false, "The controllers that vote.";
    "group.coordinator.rebalance.protocols", List, Some("classic,consumer"), false, "Protocols of groups.";
    "inter.broker.listener.name", Text, None, false, "The listener between brokers.";
    "listener.security.protocol.map", Text, Some("PLAINTEXT:PLAINTEXT"), true, "The security protocol of each listener.";
    "listeners", List, Some("PLAINTEXT://:9092"), true, "Where the broker listens.";
    "log.cleaner.dedupe.buffer.size", Long, Some("134217728"), true, "Memory of compaction.";
    "log.cleaner.io.buffer.load.factor", Double, Some("0.9"), true, "How full compaction's table of keys may be.";
    "log.cleaner.io.buffer.size", Int, Some("524288"), true, "Buffers of compaction.";
    "log.cleaner.io.max.bytes.per.second", Double, Some("1.7976931348623157E308"), true, "How fast compaction reads and writes.";
    "log.cleaner.threads", Int, Some("1"), true, "Threads of compaction.";
    "log.dir", List, Some("/tmp/kafka-logs"), false, "The directory of logs where log.dirs is not set.";
    "log.dirs", List, None, false, "The directories of logs.";
    "log.flush.interval.messages", Long, Some("9223372036854775807"), true, "After how many records a log is forced to disk.";
    "log.flush.interval.ms", Long, None, true, "After which time a log is forced to disk.";
    "log.flush.scheduler.interval.ms", Long, Some("9223372036854775807"), false, "How often that is looked at.";
    "log.index.interval.bytes", Int, Some("4096"), true, "After how many bytes the offset index gets an entry.";
    "log.index.size.max.bytes", Int, Some("10485760"), true, "The size of the offset index.";
    "log.local.retention.bytes", Long, Some("-2"), true, "Bytes that stay local where there is tiered storage.";
    "log.local.retention.ms", Long, Some("-2"), true, "How long segments stay local where there is tiered storage.";
    "log.preallocate", Boolean, Some("false"), true, "Whether the file of a segment is made in full size.";
    "log.retention.hours", Int, Some("168"), false, "How long records are kept where nothing finer is set.";
    "log.retention.minutes", Int, None, false, "How long records are kept where log.retention.ms is not set.";
    "log.roll.hours", Int, Some("168"), false, "After which time a segment is closed where log.roll.ms is not set.";
    "log.roll.jitter.hours", Int, Some("0"), false, "By how much at most segments are closed earlier.";
    "log.roll.jitter.ms", Long, None, true, "By how much at most segments are closed earlier.";
    "log.segment.delete.delay.ms", Long, Some("60000"), true, "How long the file of a deleted segment stays on disk.";
    "max.connection.creation.rate", Int, Some("2147483647"), true, "Connections that may be made in a second.";
    "max.connections", Int, Some("2147483647"), true, "Connections that there may be.";
    "max.connections.per.ip", Int, Some("2147483647"), true, "Connections that there may be from one address.";
    "node.id", Int, None, false, "The node's id.";
    "num.io.threads", Int, Some("8"), true, "Threads that serve requests.";
    "num.network.threads", Int, Some("3"), true, "Threads of a listener.";
    "num.recovery.threads.per.data.dir", Int, Some("2"), true, "Threads that read logs at the start.";
    "num.replica.fetchers", Int, Some("1"), true, "Threads that fetch from another broker.";
    "offsets.commit.timeout.ms", Int, Some("5000"), false, "How long a commit waits for its replicas.";
    "offsets.topic.replication.factor", Short, Some("3"), false, "Replicas of __consumer_offsets, at most the nodes there are.";
    "process.roles", List, None, false, "Whether the node is a broker, a controller or both.";
    "queued.max.requests", Int, Some("500"), false, "Requests that may wait to be served.";
    "remote.log.storage.system.enable", Boolean, Some("false"), false, "Whether there is tiered storage.";
    "replica.fetch.max.bytes", Int, Some("1048576"), false, "Bytes of a partition that a replica fetches at once.";
    "replica.lag.time.max.ms", Long, Some("30000"), false, "After which time a replica that is behind is out of sync.";
    "request.timeout.ms", Int, Some("30000"), false, "How long a broker waits for an answer of another.";
    "security.inter.broker.protocol", Text, Some("PLAINTEXT"), false, "The security protocol between brokers.";
    "socket.receive.buffer.bytes", Int, Some("102400"), false, "The receive buffer of a connection.";
    "socket.send.buffer.bytes", Int, Some("102400"), false, "The send buffer of a connection.";
    "transaction.state.log.min.isr", Int, Some("2"), false, "Replicas in sync that __transaction_state needs.";
    "transaction.state.log.replication.factor", Short, Some("3"), false, "Replicas of __transaction_state, at most the nodes there are.";
};

/// The config of this name, if it is in [`STATIC_CONFIGS`].
pub(crate) fn static_config(name: &str) -> Option<&'static StaticConfig> {
    STATIC_CONFIGS.binary_search_by_key(&name, |config| config.name).ok().map(|index| &STATIC_CONFIGS[index])
}

impl Core {
    /// The value of a config that differs between nodes, as the node was started.
    pub(crate) fn own_static_value(&self, id: NodeId, name: &str) -> Option<String> {
        let node = self.nodes.get(id)?;
        let (host, port) = (bracketed(&self.settings.host), node.port);
        // A listener has the name of its security protocol.
        let listeners = |host: &str| {
            let one = |protocol: SecurityProtocol| format!("{}://{host}:{}", protocol.name(), node.port(protocol));
            self.settings.security.protocols().map(one).collect::<Vec<_>>().join(",")
        };
        let protocol = self.settings.security.protocol.name();
        match name {
            "node.id" | "broker.id" => Some(id.to_string()),
            "broker.rack" => node.rack.as_deref().map(str::to_owned),
            "listeners" => Some(format!("{},CONTROLLER://{host}:{port}", listeners(&host))),
            "advertised.listeners" => Some(listeners(&bracketed(&node.host))),
            "authorizer.class.name" if self.security.authorizer.is_some() => Some(AUTHORIZER.to_owned()),
            "security.inter.broker.protocol" if protocol != "PLAINTEXT" => Some(protocol.to_owned()),
            "controller.listener.names" => Some("CONTROLLER".to_owned()),
            "controller.quorum.voters" => {
                let voter =
                    |node: &crate::cluster::Node| format!("{}@{}:{}", node.id, bracketed(&node.host), node.port);
                Some(self.nodes.all().map(voter).collect::<Vec<_>>().join(","))
            }
            "process.roles" => Some("broker,controller".to_owned()),
            "log.dirs" => Some(self.settings.log_dir().to_string_lossy().into_owned()),
            _ => None,
        }
    }
}

/// A host as it is written before a port: IPv6 addresses in brackets.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{ConfigDef, broker_def};
    use crate::settings::KafkaSettings;

    #[test]
    fn the_table_is_sorted_and_names_nothing_that_has_an_effect() {
        assert!(STATIC_CONFIGS.is_sorted_by_key(|config| config.name));
        for config in STATIC_CONFIGS {
            assert!(!KafkaSettings::NAMES.contains(&config.name), "{}", config.name);
            let def: ConfigDef = broker_def(config.name).unwrap();
            if let Some(default) = config.default {
                assert!(def.normalize(default).is_ok(), "{}", config.name);
            }
        }
    }
}
