//! Pushes metrics to the brokers (`enable.metrics.push`, KIP-714): the driver of the telemetry machine.
//!
//! Nothing is sent to brokers that want no metrics: a broker without a receiver does not offer the requests, and no
//! connection is made to find out.

mod figures;
mod otlp;
mod registered_metrics;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use monedula_engine::Now;
use monedula_engine::telemetry::{
    TelemetryFailure, TelemetryInput, TelemetryMachine, TelemetryOutput, TelemetrySubscription,
};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::compression::{Compression, Compressor};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::get_telemetry_subscriptions::GetTelemetrySubscriptionsRequest;
use monedula_protocol::messages::push_telemetry::PushTelemetryRequest;
use monedula_protocol::types::Uuid;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use self::figures::Figure;
use self::figures::Window;
use self::otlp::Period;
use self::registered_metrics::Reading;
pub use self::registered_metrics::{MetricId, ReadMetric, RegisteredKind, RegisteredMetric, RegisteredMetrics};
use crate::error::RequestError;
use crate::lock::lock;
use crate::log::{Log, kinds};
use crate::metrics::Metrics;
use crate::net::metadata::Metadata;
use crate::net::network::{ApiSupport, Network, NodeId, Purpose};
use crate::tasks::block_until;

pub(crate) type ReadFigures = Box<dyn Fn() -> Vec<Figure> + Send + Sync>;

/// Parts of a client that telemetry needs.
pub(crate) struct TelemetrySource {
    pub(crate) network: Arc<Network>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) log: Log,
    pub(crate) read: ReadFigures,
    /// The user's metrics.
    pub(crate) registered: Arc<RegisteredMetrics>,
    /// Attributes of the client, by the names of Kafka's own: `client_rack`, `group_id` and so on.
    pub(crate) attributes: Vec<(&'static str, String)>,
}

/// The handle of a client's telemetry; dropping it ends the task.
pub(crate) struct Telemetry {
    client_instance_id: Arc<OnceLock<Uuid>>,
    close: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Telemetry {
    /// Starts the task, which waits until a broker is known.
    pub(crate) fn start(parts: TelemetrySource, runtime: &Handle, seed: u64) -> Self {
        let client_instance_id = Arc::new(OnceLock::new());
        let (close, closing) = watch::channel(false);
        let task = Task {
            parts,
            machine: TelemetryMachine::new(seed),
            client_instance_id: client_instance_id.clone(),
            started: Instant::now(),
            node: NodeId::Bootstrap(0),
            window: Window::default(),
            counted_since: SystemTime::now(),
            created: SystemTime::now(),
        };
        let task = runtime.spawn(task.run(closing));
        Self { client_instance_id, close, task: Mutex::new(Some(task)) }
    }

    pub(crate) fn client_instance_id(&self) -> Option<Uuid> {
        self.client_instance_id.get().copied()
    }

    /// Pushes a last time, until then at most.
    pub(crate) async fn finish(&self, until: Instant) {
        self.close.send_replace(true);
        let task = lock(&self.task).take();
        let until = until.min(Instant::now() + LAST_PUSH);
        if let Some(mut task) = task
            && tokio::time::timeout_at(until.into(), &mut task).await.is_err()
        {
            task.abort();
        }
    }

    /// As [`Self::finish`], for a thread that may block.
    pub(crate) fn finish_by(self: &Arc<Self>, runtime: &Handle, until: Instant) {
        let telemetry = self.clone();
        block_until(runtime, until, async move { telemetry.finish(until).await });
    }
}

/// Time for which closing waits for the last push: brokers that do not answer are not waited for.
const LAST_PUSH: Duration = Duration::from_secs(1);

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

struct Task {
    parts: TelemetrySource,
    machine: TelemetryMachine,
    client_instance_id: Arc<OnceLock<Uuid>>,
    started: Instant,
    node: NodeId,
    window: Window,
    /// Beginning of the window.
    counted_since: SystemTime,
    created: SystemTime,
}

impl Task {
    async fn run(mut self, mut closing: watch::Receiver<bool>) {
        if !self.has_receiver(&mut closing).await {
            return;
        }
        loop {
            while let Some(output) = self.machine.poll(self.now()) {
                match output {
                    TelemetryOutput::End => return,
                    TelemetryOutput::Subscribe => {
                        let api = ApiKey::GetTelemetrySubscriptions;
                        if let ApiSupport::Offers(node) = self.parts.network.api_support(api, self.node) {
                            self.node = node;
                        }
                        // A client that closes does not wait for a subscription.
                        tokio::select! {
                            answer = self.subscribe() => self.subscribed(answer),
                            () = closed(&mut closing) => return,
                        }
                    }
                    TelemetryOutput::Push { terminating } => self.push(terminating, &mut closing).await,
                }
            }
            let wake_at = self.machine.wake_at().map(|at| self.started + at);
            tokio::select! {
                () = closed(&mut closing) => {
                    let now = self.now();
                    self.machine.handle(now, TelemetryInput::Close);
                }
                () = sleep_until(wake_at) => {}
            }
        }
    }

    /// Waits for the first connection to a broker. Returns whether the broker takes metrics.
    async fn has_receiver(&mut self, closing: &mut watch::Receiver<bool>) -> bool {
        let mut view = self.parts.metadata.watch();
        loop {
            if view.borrow_and_update().answers > 0 {
                match self.parts.network.api_support(ApiKey::GetTelemetrySubscriptions, self.node) {
                    ApiSupport::Offers(node) => {
                        self.node = node;
                        return true;
                    }
                    ApiSupport::Lacks => return false,
                    ApiSupport::Nothing => {}
                }
            }
            tokio::select! {
                changed = view.changed() => if changed.is_err() { return false },
                () = closed(closing) => return false,
            }
        }
    }

    fn now(&self) -> Now {
        self.started.elapsed()
    }

    async fn subscribe(&self) -> Result<TelemetrySubscription, TelemetryFailure> {
        let client_instance_id = self.machine.client_instance_id().unwrap_or(Uuid::ZERO);
        let build = |_| GetTelemetrySubscriptionsRequest { client_instance_id, ..Default::default() };
        let versions = GetTelemetrySubscriptionsRequest::VERSIONS;
        let call = self.parts.network.call(self.node, Purpose::Control, versions, Duration::ZERO, build);
        let (answer, version) = call.await.map_err(|error| failure(&error))?;
        let response = frame::decode_response::<GetTelemetrySubscriptionsRequest<'_>>(answer.as_slice(), version)
            .map_err(|_| TelemetryFailure::Impossible)?;
        ErrorCode::check(response.error_code).map_err(TelemetryFailure::Code)?;
        Ok(TelemetrySubscription {
            client_instance_id: response.client_instance_id,
            subscription_id: response.subscription_id,
            accepted_compression_types: response.accepted_compression_types,
            push_interval: Duration::from_millis(u64::try_from(response.push_interval_ms).unwrap_or(0)),
            max_bytes: usize::try_from(response.telemetry_max_bytes).unwrap_or(0),
            delta_temporality: response.delta_temporality,
            requested_metrics: response.requested_metrics.into_iter().map(str::to_owned).collect(),
        })
    }

    fn subscribed(&mut self, answer: Result<TelemetrySubscription, TelemetryFailure>) {
        let (was_known, now) = (self.machine.client_instance_id().is_some(), self.now());
        let failed = answer.as_ref().err().copied();
        self.machine.handle(now, TelemetryInput::Subscribed(answer));
        if let Some(failure) = failed {
            return self.tell_failure("GetTelemetrySubscriptions", failure);
        }
        if let Some(id) = self.machine.client_instance_id() {
            let _ = self.client_instance_id.set(id);
            let subscription = self.machine.subscription();
            let kind = if was_known { &kinds::METRICS_WANTED } else { &kinds::METRICS_FIRST_WANTED };
            self.parts.log.record(kind, || {
                format!(
                    "a broker asks for metrics that begin with {:?} every {} s; this client's instance id is {id}",
                    subscription.requested_metrics,
                    subscription.push_interval.as_secs_f64()
                )
            });
        }
    }

    async fn push(&mut self, terminating: bool, closing: &mut watch::Receiver<bool>) {
        let is_wanted = |name: &str| self.machine.subscription().wants(name);
        let readings = self.parts.registered.read(is_wanted, closing, &self.parts.log).await;
        let figures = (self.parts.read)();
        let now = SystemTime::now();
        let pushed = match self.payload(&figures, &readings, now) {
            Ok((compression, payload)) => self.send(terminating, compression, &payload).await,
            Err(failure) => Err(failure),
        };
        if pushed.is_ok() {
            self.window.accepted(&figures, &readings);
            self.counted_since = now;
        }
        let at = self.now();
        self.machine.handle(at, TelemetryInput::Pushed(pushed));
        if let Err(failure) = pushed {
            self.tell_failure("PushTelemetry", failure);
        }
    }

    /// The metrics that the broker wants, compressed as it prefers.
    fn payload(
        &self,
        figures: &[Figure],
        readings: &[Reading],
        now: SystemTime,
    ) -> Result<(Compression, Vec<u8>), TelemetryFailure> {
        let subscription = self.machine.subscription();
        let is_delta = subscription.delta_temporality;
        let elapsed = now.duration_since(self.counted_since).unwrap_or_default();
        let mut metrics = self.window.metrics(figures, elapsed, is_delta);
        metrics.retain(|metric| subscription.wants(metric.name));
        metrics.extend(self.window.registered_metrics(readings, is_delta));
        let start = if is_delta { self.counted_since } else { self.created };
        let period = Period { start_unix_nano: unix_nano(start), end_unix_nano: unix_nano(now) };
        let data = otlp::metrics_data(&self.parts.attributes, &metrics, period);
        let codec = preferred(&subscription.accepted_compression_types);
        let mut payload = Vec::new();
        if Compressor::new().compress(codec, None, &data, &mut payload).is_err() {
            return Ok((Compression::None, data));
        }
        // A larger push would only be refused.
        if subscription.max_bytes > 0 && payload.len() > subscription.max_bytes {
            return Err(TelemetryFailure::Code(ErrorCode::TelemetryTooLarge));
        }
        Ok((codec, payload))
    }

    async fn send(&self, terminating: bool, codec: Compression, payload: &[u8]) -> Result<(), TelemetryFailure> {
        let subscription = self.machine.subscription();
        let build = |_| PushTelemetryRequest {
            client_instance_id: subscription.client_instance_id,
            subscription_id: subscription.subscription_id,
            terminating,
            compression_type: codec.id() as i8,
            metrics: payload,
            ..Default::default()
        };
        let versions = PushTelemetryRequest::VERSIONS;
        let call = self.parts.network.call(self.node, Purpose::Control, versions, Duration::ZERO, build);
        let (answer, version) = call.await.map_err(|error| failure(&error))?;
        let response = frame::decode_response::<PushTelemetryRequest<'_>>(answer.as_slice(), version)
            .map_err(|_| TelemetryFailure::Impossible)?;
        ErrorCode::check(response.error_code).map_err(TelemetryFailure::Code)
    }

    fn tell_failure(&self, api: &str, failure: TelemetryFailure) {
        self.parts.log.record(&kinds::METRICS_NOT_PUSHED, || {
            let next = match self.machine.wake_at() {
                Some(at) => format!("again in {} s", at.saturating_sub(self.now()).as_secs()),
                None => "no more metrics are pushed".to_owned(),
            };
            match failure {
                TelemetryFailure::Code(code) => format!("{api}: {}; {next}", code.name()),
                TelemetryFailure::Lost => format!("{api}: no answer; {next}"),
                TelemetryFailure::Impossible => format!("{api}: not possible; {next}"),
            }
        });
    }
}

/// The first codec of the broker's that this client knows; none if it knows none.
fn preferred(accepted: &[i8]) -> Compression {
    let known = accepted.iter().find_map(|&code| Compression::from_id(u8::try_from(code).ok()?));
    known.unwrap_or_default()
}

fn failure(error: &RequestError) -> TelemetryFailure {
    match error {
        RequestError::Fatal(_) | RequestError::Wire { .. } => TelemetryFailure::Impossible,
        _ => TelemetryFailure::Lost,
    }
}

fn unix_nano(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Resolves once the client closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error says that the handle is gone, and the task is about to be aborted.
    let _ = closing.wait_for(|closes| *closes).await;
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// A count, whose names are those of Kafka with `.total` and `.rate`.
macro_rules! figure_count {
    ($($name:literal)+, $count:expr) => {
        Figure::Count { total: concat!($($name,)+ ".total"), rate: Some(concat!($($name,)+ ".rate")), count: $count }
    };
}
pub(crate) use figure_count;

/// The figures of every client. Their names begin with `$prefix`, such as `org.apache.kafka.consumer`.
macro_rules! common_figures {
    ($prefix:literal, $metrics:expr, $network:expr) => {{
        let count = |name: &str| $metrics.get(name);
        vec![
            figure_count!($prefix ".connection.creation", count("connections_opened")),
            figure_count!($prefix ".connection.close", count("connections_closed")),
            Figure::Gauge { name: concat!($prefix, ".connection.count"), value: $network.connected() as f64 },
            figure_count!($prefix ".request", count("requests_sent")),
            figure_count!($prefix ".response", count("responses_received")),
            figure_count!($prefix ".incoming.byte", count("bytes_received")),
        ]
    }};
}
pub(crate) use common_figures;

/// The client's counters by name.
pub(crate) struct Counters(Vec<(&'static str, u64)>);

impl Counters {
    pub(crate) fn of(metrics: &Metrics) -> Self {
        Self(metrics.snapshot())
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.iter().find(|(counter, _)| *counter == name).map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codec_is_the_first_of_the_brokers_that_is_known() {
        for (accepted, codec) in [
            (&[4, 3, 1, 2][..], Compression::Zstd),
            (&[3, 4], Compression::Lz4),
            (&[9, -1, 1], Compression::Gzip),
            (&[2], Compression::Snappy),
            (&[9], Compression::None),
            (&[], Compression::None),
        ] {
            assert_eq!(preferred(accepted), codec, "{accepted:?}");
        }
    }
}
