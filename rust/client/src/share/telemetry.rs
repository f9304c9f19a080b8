//! The figures of a share group's consumer that are pushed to brokers (KIP-714), named as those of Kafka's share consumer.

use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;

use super::driver::Observed;
use crate::base::ClientBase;
use crate::lock::lock;
use crate::telemetry::{Counters, Figure, Telemetry, common_figures, figure_count};

/// Starts the task that pushes the figures, unless the settings forbid it.
pub(super) fn start(
    base: &ClientBase,
    observed: &Arc<Mutex<Observed>>,
    runtime: &Handle,
    seed: u64,
) -> Option<Arc<Telemetry>> {
    let given = [("client_rack", &base.config.client_rack), ("group_id", &base.config.group_id)];
    let attributes = given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let attributes = attributes.filter(|(_, value)| !value.is_empty()).collect();
    let (of_client, observed) = (base.clone(), observed.clone());
    base.start_telemetry(attributes, Box::new(move || figures(&of_client, &observed)), runtime, seed)
}

fn figures(base: &ClientBase, observed: &Mutex<Observed>) -> Vec<Figure> {
    let counters = Counters::of(&base.metrics);
    let observed = lock(observed);
    let counted = &observed.figures.counted;
    // Kafka's share consumer counts connections under the names of its other consumer.
    let mut figures = common_figures!("org.apache.kafka.consumer", counters, base.network);
    figures.extend([
        figure_count!("org.apache.kafka.consumer.share.fetch.manager.fetch", counters.get("fetches_sent")),
        figure_count!(
            "org.apache.kafka.consumer.share.fetch.manager.records.consumed",
            counters.get("records_delivered")
        ),
        figure_count!("org.apache.kafka.consumer.share.fetch.manager.acknowledgements.error", observed.unacknowledged),
        // Kafka's client counts acknowledgements when they are sent.
        figure_count!("monedula.consumer.share.records.acknowledged", counters.get("records_acknowledged")),
        figure_count!("org.apache.kafka.consumer.share.coordinator.heartbeat", counted.heartbeats.count),
    ]);
    figures
}
