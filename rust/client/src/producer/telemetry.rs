//! The figures of a producer that are pushed to brokers (KIP-714), named as those of Kafka's producer.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::accumulator::Accumulator;
use super::config::ProducerConfig;
use super::in_flight::RequestsInFlight;
use crate::base::ClientBase;
use crate::telemetry::{Counters, Figure, Telemetry, common_figures, figure_count};

struct Sources {
    base: ClientBase,
    accumulator: Arc<Accumulator>,
    in_flight: Arc<RequestsInFlight>,
}

/// Starts the task that pushes the figures, unless the settings forbid it.
pub(super) fn start(
    base: &ClientBase,
    config: &ProducerConfig,
    accumulator: &Arc<Accumulator>,
    in_flight: &Arc<RequestsInFlight>,
    runtime: &Handle,
    seed: u64,
) -> Option<Arc<Telemetry>> {
    let sources = Sources { base: base.clone(), accumulator: accumulator.clone(), in_flight: in_flight.clone() };
    base.start_telemetry(attributes(config), Box::new(move || sources.figures()), runtime, seed)
}

fn attributes(config: &ProducerConfig) -> Vec<(&'static str, String)> {
    let id = config.transactional_id.clone().map(|id| ("transactional_id", id.to_string()));
    id.into_iter().collect()
}

impl Sources {
    fn figures(&self) -> Vec<Figure> {
        let counters = Counters::of(&self.base.metrics);
        let mut figures = common_figures!("org.apache.kafka.producer", counters, self.base.network);
        let (used, limit) = self.accumulator.memory.usage();
        let in_flight: usize = self.in_flight.by_broker().values().map(|(requests, _)| requests).sum();
        figures.extend([
            figure_count!("org.apache.kafka.producer.record.error", counters.get("records_failed")),
            Figure::Gauge { name: "org.apache.kafka.producer.buffer.total.bytes", value: limit as f64 },
            Figure::Gauge {
                name: "org.apache.kafka.producer.buffer.available.bytes",
                value: limit.saturating_sub(used) as f64,
            },
            Figure::Gauge {
                name: "org.apache.kafka.producer.waiting.threads",
                value: self.accumulator.memory.waiting() as f64,
            },
            Figure::Gauge { name: "org.apache.kafka.producer.requests.in.flight", value: in_flight as f64 },
            // Kafka's producer counts records when it sends them, not when they are acknowledged: another figure.
            figure_count!("monedula.producer.records.acknowledged", counters.get("records_acknowledged")),
        ]);
        figures
    }
}
