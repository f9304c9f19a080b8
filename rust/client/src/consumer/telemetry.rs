//! The figures of a consumer that are pushed to brokers (KIP-714), named as those of Kafka's consumer.

use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;

use crate::base::ClientBase;
use crate::config::ClientConfig;
use crate::fetch::buffer::FetchBuffer;
use crate::group::{GroupObserver, Latency};
use crate::telemetry::{Counters, Figure, Telemetry, common_figures, figure_count};

struct Sources {
    base: ClientBase,
    buffer: Arc<FetchBuffer>,
    /// The membership, from the first subscription on.
    group: Arc<OnceLock<GroupObserver>>,
}

/// Starts the task that pushes the figures, unless the settings forbid it.
pub(super) fn start(
    base: &ClientBase,
    buffer: &Arc<FetchBuffer>,
    group: &Arc<OnceLock<GroupObserver>>,
    runtime: &Handle,
    seed: u64,
) -> Option<Arc<Telemetry>> {
    let sources = Sources { base: base.clone(), buffer: buffer.clone(), group: group.clone() };
    base.start_telemetry(attributes(&base.config), Box::new(move || sources.figures()), runtime, seed)
}

fn attributes(config: &ClientConfig) -> Vec<(&'static str, String)> {
    let given = [
        ("client_rack", &config.client_rack),
        ("group_id", &config.group_id),
        ("group_instance_id", &config.group_instance_id),
    ];
    given
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone().filter(|value| !value.is_empty())?)))
        .collect()
}

impl Sources {
    fn figures(&self) -> Vec<Figure> {
        let counters = Counters::of(&self.base.metrics);
        let mut figures = common_figures!("org.apache.kafka.consumer", counters, self.base.network);
        figures.extend([
            figure_count!("org.apache.kafka.consumer.fetch.manager.fetch", counters.get("fetches_sent")),
            figure_count!(
                "org.apache.kafka.consumer.fetch.manager.records.consumed",
                counters.get("records_delivered")
            ),
        ]);
        figures.extend(self.largest_lag().map(|lag| Figure::Gauge {
            name: "org.apache.kafka.consumer.fetch.manager.records.lag.max",
            value: lag as f64,
        }));
        if let Some(group) = self.group.get() {
            figures.extend(of_group(group));
        }
        figures
    }

    fn largest_lag(&self) -> Option<i64> {
        let statuses = self.buffer.status();
        let lags = statuses.values().filter_map(|status| {
            let end = if self.base.config.read_committed { status.last_stable_offset } else { status.high_watermark };
            Some((end? - status.position?).max(0))
        });
        lags.max()
    }
}

fn of_group(group: &GroupObserver) -> Vec<Figure> {
    let counted = group.figures();
    let latency = |of: Latency, average, total| Figure::Latency { average, total, count: of.count, sum: of.total };
    vec![
        Figure::Gauge {
            name: "org.apache.kafka.consumer.coordinator.assigned.partitions",
            value: group.owned() as f64,
        },
        Figure::Count {
            total: "org.apache.kafka.consumer.coordinator.rebalance.total",
            rate: None,
            count: counted.rebalances.count,
        },
        latency(
            counted.rebalances,
            "org.apache.kafka.consumer.coordinator.rebalance.latency.avg",
            Some("org.apache.kafka.consumer.coordinator.rebalance.latency.total"),
        ),
        figure_count!("org.apache.kafka.consumer.coordinator.commit", counted.commits.count),
        latency(counted.commits, "org.apache.kafka.consumer.coordinator.commit.latency.avg", None),
        figure_count!("org.apache.kafka.consumer.coordinator.heartbeat", counted.heartbeats.count),
        figure_count!("org.apache.kafka.consumer.coordinator.join", counted.joins.count),
        latency(counted.joins, "org.apache.kafka.consumer.coordinator.join.time.avg", None),
        figure_count!("org.apache.kafka.consumer.coordinator.sync", counted.syncs.count),
        latency(counted.syncs, "org.apache.kafka.consumer.coordinator.sync.time.avg", None),
    ]
}
