//! Parts of every client: its connections, the metadata of the cluster, lookups of offsets and coordinators. Nothing is
//! connected to before something is asked for.

use std::sync::Arc;

use monedula_columns::BufferPool;
use tokio::runtime::Handle;

use crate::config::ClientConfig;
use crate::coordinator::Coordinators;
use crate::log::{Log, kinds};
use crate::metrics::Metrics;
use crate::net::metadata::Metadata;
use crate::net::network::Network;
use crate::offsets::Offsets;
use crate::telemetry::{self, ReadFigures, RegisteredMetrics, Telemetry};

/// The parts of a client; cheap to clone.
#[derive(Clone)]
pub(crate) struct ClientBase {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) network: Arc<Network>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) offsets: Offsets,
    pub(crate) coordinators: Coordinators,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    pub(crate) registered_metrics: Arc<RegisteredMetrics>,
}

impl ClientBase {
    /// Logs `warnings`, which are about the settings. `pool` keeps the buffers of answers.
    pub(crate) fn new(config: Arc<ClientConfig>, warnings: &[String], pool: BufferPool, log: Log, seed: u64) -> Self {
        warnings.iter().for_each(|warning| log.record(&kinds::CONFIG_WARNING, || warning.clone()));
        if let Some(registry) = &config.schema_registry {
            registry.report_to(&log);
        }
        let metrics = Metrics::default();
        let network = Arc::new(Network::new(config.clone(), pool, log.clone(), metrics.clone(), seed));
        let metadata = Arc::new(Metadata::new(config.clone(), network.clone(), log.clone(), metrics.clone()));
        let offsets = Offsets {
            config: config.clone(),
            network: network.clone(),
            metadata: metadata.clone(),
            metrics: metrics.clone(),
        };
        let coordinators =
            Coordinators::new(config.clone(), network.clone(), metadata.clone(), log.clone(), metrics.clone());
        let registered_metrics = Arc::default();
        Self { config, network, metadata, offsets, coordinators, log, metrics, registered_metrics }
    }

    /// Starts the task that pushes metrics to brokers, unless `enable.metrics.push` is false.
    pub(crate) fn start_telemetry(
        &self,
        attributes: Vec<(&'static str, String)>,
        read: ReadFigures,
        runtime: &Handle,
        seed: u64,
    ) -> Option<Arc<Telemetry>> {
        self.config.metrics_push.then(|| {
            let parts = telemetry::TelemetrySource {
                network: self.network.clone(),
                metadata: self.metadata.clone(),
                log: self.log.clone(),
                attributes,
                read,
                registered: self.registered_metrics.clone(),
            };
            Arc::new(Telemetry::start(parts, runtime, seed))
        })
    }
}
