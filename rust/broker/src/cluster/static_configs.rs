//! Broker configs of Kafka that are described but have no effect on this broker: static ones that say where the nodes
//! are or that clients and tools read, and dynamic ones whose changes have no effect.
//! [`KafkaSettings`](crate::settings::KafkaSettings) has those with an effect.

use super::{Node, NodeId, Nodes};
use crate::security::SecurityProtocol;
use crate::settings::{ConfigType, Settings};

use ConfigType::{Boolean, Double, Int, List, Long, Short, String as Text};

#[derive(Copy, Clone, Debug)]
pub(crate) struct StaticConfig {
    pub(crate) name: &'static str,
    pub(crate) kind: ConfigType,
    /// Kafka's default, or the value that applies here if that differs; `None` if there is no default.
    pub(crate) default: Option<&'static str>,
    /// True if Kafka allows changes at runtime. A changed value is stored and described.
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
    "advertised.listeners", List, None, false, "Addresses that clients get for this broker.";
    "authorizer.class.name", Text, Some(""), false, "Authorizer, which decides what a client may do; without one, every client may do everything.";
    "auto.leader.rebalance.enable", Boolean, Some("false"), false, "Whether preferred replicas become leaders again by themselves.";
    "background.threads", Int, Some("10"), true, "Number of threads for housekeeping.";
    "broker.id", Int, Some("-1"), false, "Node id of the broker.";
    "broker.rack", Text, None, false, "Rack of the broker.";
    "compression.gzip.level", Int, Some("-1"), true, "Compression level of gzip if compression.type is gzip.";
    "compression.lz4.level", Int, Some("9"), true, "Compression level of lz4 if compression.type is lz4.";
    "compression.zstd.level", Int, Some("3"), true, "Compression level of zstd if compression.type is zstd.";
    "controlled.shutdown.enable", Boolean, Some("true"), false, "Whether a broker that stops first moves its leaders to other brokers.";
    "controller.listener.names", List, None, false, "Names of the controllers' listeners.";
    "controller.quorum.voters", List, Some(""), false, "Voters of the controllers' quorum.";
    "group.coordinator.rebalance.protocols", List, Some("classic,consumer"), false, "Group protocols that clients may use.";
    "inter.broker.listener.name", Text, None, false, "Listener that brokers use among themselves.";
    "listener.security.protocol.map", Text, Some("PLAINTEXT:PLAINTEXT"), true, "Security protocol of each listener.";
    "listeners", List, Some("PLAINTEXT://:9092"), true, "Addresses on which the broker listens.";
    "log.cleaner.dedupe.buffer.size", Long, Some("134217728"), true, "Memory for compaction's table of keys, in bytes.";
    "log.cleaner.io.buffer.load.factor", Double, Some("0.9"), true, "How full compaction's table of keys may get, 0 to 1.";
    "log.cleaner.io.buffer.size", Int, Some("524288"), true, "Memory for compaction's I/O buffers, in bytes.";
    "log.cleaner.io.max.bytes.per.second", Double, Some("1.7976931348623157E308"), true, "Most bytes that compaction reads and writes in a second.";
    "log.cleaner.threads", Int, Some("1"), true, "Number of threads for compaction.";
    "log.dir", List, Some("/tmp/kafka-logs"), false, "Directory of the logs if log.dirs is not set.";
    "log.dirs", List, None, false, "Directories of the logs.";
    "log.flush.interval.messages", Long, Some("9223372036854775807"), true, "Number of records after which a log is flushed to disk.";
    "log.flush.interval.ms", Long, None, true, "Time after which a log is flushed to disk, in milliseconds.";
    "log.flush.scheduler.interval.ms", Long, Some("9223372036854775807"), false, "How often the broker looks for logs to flush, in milliseconds.";
    "log.index.interval.bytes", Int, Some("4096"), true, "Bytes of a log between two entries of the offset index.";
    "log.index.size.max.bytes", Int, Some("10485760"), true, "Size of an offset index, in bytes.";
    "log.local.retention.bytes", Long, Some("-2"), true, "How many bytes of a partition stay on local disks with tiered storage.";
    "log.local.retention.ms", Long, Some("-2"), true, "How long segments stay on local disks with tiered storage, in milliseconds.";
    "log.preallocate", Boolean, Some("false"), true, "Whether a segment's file is created in its full size.";
    "log.retention.hours", Int, Some("168"), false, "How long records are kept if neither log.retention.ms nor log.retention.minutes is set, in hours.";
    "log.retention.minutes", Int, None, false, "How long records are kept if log.retention.ms is not set, in minutes.";
    "log.roll.hours", Int, Some("168"), false, "Age at which a segment is closed if log.roll.ms is not set, in hours.";
    "log.roll.jitter.hours", Int, Some("0"), false, "Most hours by which a segment is closed earlier, at random, if log.roll.jitter.ms is not set.";
    "log.roll.jitter.ms", Long, None, true, "Most milliseconds by which a segment is closed earlier, at random.";
    "log.segment.delete.delay.ms", Long, Some("60000"), true, "How long the file of a deleted segment stays on disk, in milliseconds.";
    "max.connection.creation.rate", Int, Some("2147483647"), true, "Most connections that clients may open in a second.";
    "max.connections", Int, Some("2147483647"), true, "Most open connections.";
    "max.connections.per.ip", Int, Some("2147483647"), true, "Most open connections from one address.";
    "node.id", Int, None, false, "Node id.";
    "num.io.threads", Int, Some("8"), true, "Number of threads that execute requests.";
    "num.network.threads", Int, Some("3"), true, "Number of network threads of a listener.";
    "num.recovery.threads.per.data.dir", Int, Some("2"), true, "Number of threads that read the logs of a directory at the start.";
    "num.replica.fetchers", Int, Some("1"), true, "Number of threads that replicate from another broker.";
    "offsets.commit.timeout.ms", Int, Some("5000"), false, "How long a commit waits until its replicas have it, in milliseconds.";
    "offsets.topic.replication.factor", Short, Some("3"), false, "Replication factor of __consumer_offsets; at most the number of nodes.";
    "process.roles", List, None, false, "Roles of the node: broker, controller, or both.";
    "queued.max.requests", Int, Some("500"), false, "Most requests that wait for a thread.";
    "remote.log.storage.system.enable", Boolean, Some("false"), false, "Whether the broker has tiered storage.";
    "replica.fetch.max.bytes", Int, Some("1048576"), false, "Most bytes of a partition that a replica fetches at once.";
    "replica.lag.time.max.ms", Long, Some("30000"), false, "How long a replica may be behind before it is out of sync, in milliseconds.";
    "request.timeout.ms", Int, Some("30000"), false, "How long a broker waits for the response of another one, in milliseconds.";
    "security.inter.broker.protocol", Text, Some("PLAINTEXT"), false, "Security protocol between brokers.";
    "socket.receive.buffer.bytes", Int, Some("102400"), false, "Receive buffer of a connection's socket, in bytes.";
    "socket.send.buffer.bytes", Int, Some("102400"), false, "Send buffer of a connection's socket, in bytes.";
    "transaction.state.log.min.isr", Int, Some("2"), false, "How many in-sync replicas a write to __transaction_state needs.";
    "transaction.state.log.replication.factor", Short, Some("3"), false, "Replication factor of __transaction_state; at most the number of nodes.";
};

pub(crate) fn static_config(name: &str) -> Option<&'static StaticConfig> {
    STATIC_CONFIGS.binary_search_by_key(&name, |config| config.name).ok().map(|index| &STATIC_CONFIGS[index])
}

impl Nodes {
    /// The value of a config that differs between nodes, as the node was started.
    pub(crate) fn own_static_value(&self, id: NodeId, name: &str, settings: &Settings) -> Option<String> {
        let node = self.get(id)?;
        let (host, port) = (bracketed(&settings.host), node.port);
        // A listener has the name of its security protocol.
        let listeners = |host: &str| {
            let one = |protocol: SecurityProtocol| format!("{}://{host}:{}", protocol.name(), node.port(protocol));
            settings.security.protocols().map(one).collect::<Vec<_>>().join(",")
        };
        let protocol = settings.security.protocol.name();
        match name {
            "node.id" | "broker.id" => Some(id.to_string()),
            "broker.rack" => node.rack.as_deref().map(str::to_owned),
            "listeners" => Some(format!("{},CONTROLLER://{host}:{port}", listeners(&host))),
            "advertised.listeners" => Some(listeners(&bracketed(&node.host))),
            "authorizer.class.name" if settings.security.authorizer => Some(AUTHORIZER.to_owned()),
            "security.inter.broker.protocol" if protocol != "PLAINTEXT" => Some(protocol.to_owned()),
            "controller.listener.names" => Some("CONTROLLER".to_owned()),
            "controller.quorum.voters" => {
                let voter = |node: &Node| format!("{}@{}:{}", node.id, bracketed(&node.host), node.port);
                Some(self.all().map(voter).collect::<Vec<_>>().join(","))
            }
            "process.roles" => Some("broker,controller".to_owned()),
            "log.dirs" => Some(settings.log_dir().to_string_lossy().into_owned()),
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
