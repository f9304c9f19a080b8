//! The embedded broker, for `monedula.testing.Broker`.
//!
//! The broker runs in its own thread, and does not use the clients' runtime. Commands are sent to it as JSON, the same
//! as over its control port. Callers wait for a command detached, in slices.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use monedula_broker::control::{Command, Data, Record};
use monedula_broker::server::Broker;
use monedula_broker::{BrokerError, Options};
use monedula_client::lock::lock;
use monedula_client::log::{Level, Log, kinds};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::error::{argument_error, exception};
use crate::logging::{flush_part, follow};
use crate::runtime::{Own, SLICE, slow_down_at_the_end};

const PART: &str = "broker";

/// A record: key, value, headers, timestamp in milliseconds since the epoch.
type PyRow = (Option<PyBackedBytes>, Option<PyBackedBytes>, Vec<(String, Option<PyBackedBytes>)>, Option<i64>);

/// A line of a broker's log: seconds since the epoch, level, text.
type Line = (f64, u8, String);

/// The core of `monedula.testing.Broker`.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct BrokerCore {
    running: Own<Arc<Running>>,
    log: Log,
}

struct Running {
    broker: Mutex<Option<Broker>>,
    /// Node, host, port.
    addresses: Vec<(i32, String, u16)>,
    control_address: Option<(String, u16)>,
    lines: Arc<Mutex<VecDeque<Line>>>,
}

#[pymethods]
impl BrokerCore {
    #[new]
    fn new(py: Python<'_>, options: &str) -> PyResult<Self> {
        let options = Options::from_json(options).map_err(|error| to_py(py, &error))?;
        let settings = options.settings().map_err(|error| to_py(py, &error))?;
        let (log, lines) = (Log::default(), Arc::<Mutex<VecDeque<Line>>>::default());
        follow(py, &log, PART);
        let sink = Sink { log: log.clone(), lines: lines.clone() };
        install_logger();
        let starting = Broker::begin(settings, options.clock(), move || SINK.set(Some(sink)));
        let mut starting = starting.map_err(|error| to_py(py, &error))?;
        let started = in_slices(py, |until| starting.wait_until(until));
        flush_part(py, &log, PART);
        let broker = started?;
        let address = |(node, address): &(_, std::net::SocketAddr)| {
            let node: &monedula_broker::NodeId = node;
            (node.0, address.ip().to_string(), address.port())
        };
        let addresses = broker.addresses().iter().map(address).collect();
        let control_address = broker.control_address().map(|address| (address.ip().to_string(), address.port()));
        let running = Arc::new(Running { broker: Mutex::new(Some(broker)), addresses, control_address, lines });
        register(&running);
        Ok(Self { running: Own::new(running), log })
    }

    /// The address of each node: `[(node, host, port), ...]`.
    #[getter]
    fn addresses(&self) -> PyResult<Vec<(i32, String, u16)>> {
        Ok(self.running.get()?.addresses.clone())
    }

    /// The address of the control port, if it is open: host, port.
    #[getter]
    fn control_address(&self) -> PyResult<Option<(String, u16)>> {
        Ok(self.running.get()?.control_address.clone())
    }

    /// Executes a command. Command and response are JSON.
    fn control(&self, py: Python<'_>, command: &str) -> PyResult<String> {
        let command: Command = serde_json::from_str(command)
            .map_err(|error| argument_error(py, format!("this is no command of the broker: {error}")))?;
        Ok(self.carry_out(py, command)?.to_string())
    }

    /// Appends records, and returns the first offset and the offset after the last.
    fn append(
        &self,
        py: Python<'_>,
        topic: String,
        partition: i32,
        records: Vec<PyRow>,
        compression: Option<String>,
    ) -> PyResult<(i64, i64)> {
        let records = records.into_iter().map(record).collect();
        let answer = self.carry_out(py, Command::Append { topic, partition, records, compression })?;
        Ok((answer["first_offset"].as_i64().unwrap_or(-1), answer["next_offset"].as_i64().unwrap_or(-1)))
    }

    /// Passes the broker's log events to Python's `logging`, and returns the last lines of the log.
    fn log_lines(&self, py: Python<'_>) -> PyResult<Vec<Line>> {
        let running = self.running.get()?;
        flush_part(py, &self.log, PART);
        Ok(lock(&running.lines).iter().cloned().collect())
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running.get()?;
        py.detach(|| running.stop());
        flush_part(py, &self.log, PART);
        Ok(())
    }
}

impl BrokerCore {
    fn carry_out(&self, py: Python<'_>, command: Command) -> PyResult<Value> {
        let running = self.running.get()?;
        let answering = py.detach(|| lock(&running.broker).as_ref().map(|broker| broker.command(command)));
        let mut answering = answering.ok_or_else(|| to_py(py, &BrokerError::Stopped))?;
        let answer = in_slices(py, |until| answering.wait_until(until));
        flush_part(py, &self.log, PART);
        answer
    }
}

fn record((key, value, headers, timestamp_ms): PyRow) -> Record {
    let data = |bytes: Option<PyBackedBytes>| bytes.map(|bytes| Data(bytes.to_vec()));
    let headers = headers.into_iter().map(|(name, value)| (name, data(value))).collect();
    Record { key: data(key), value: data(value), headers, timestamp_ms }
}

impl Running {
    fn stop(&self) {
        let taken = lock(&self.broker).take();
        // Join the broker's thread without the lock, so that a command of another thread fails at once instead of
        // waiting.
        drop(taken);
    }
}

static BROKERS: Mutex<Vec<(u32, Weak<Running>)>> = Mutex::new(Vec::new());

fn register(running: &Arc<Running>) {
    let mut brokers = lock(&BROKERS);
    brokers.retain(|(_, running)| running.strong_count() > 0);
    brokers.push((std::process::id(), Arc::downgrade(running)));
}

/// Stops every broker of this process.
pub(crate) fn stop_all() {
    let brokers = std::mem::take(&mut *lock(&BROKERS));
    let ours = brokers.iter().filter(|(pid, _)| *pid == std::process::id());
    for running in ours.filter_map(|(_, running)| running.upgrade()) {
        running.stop();
    }
}

/// Calls `step` detached, in slices of [`SLICE`], until it returns a result; checks for signals in between.
fn in_slices<T: Send>(
    py: Python<'_>,
    mut step: impl FnMut(Instant) -> Result<Option<T>, BrokerError> + Send,
) -> PyResult<T> {
    loop {
        match py.detach(|| step(Instant::now() + SLICE)) {
            Ok(Some(value)) => return Ok(value),
            Ok(None) => {}
            Err(error) => return Err(to_py(py, &error)),
        }
        py.check_signals()?;
    }
}

fn to_py(py: Python<'_>, error: &BrokerError) -> PyErr {
    let details = PyDict::new(py);
    let class = match error {
        BrokerError::Setting { name, .. } => {
            // This can fail only for lack of memory, and then creating the exception fails as well.
            let _ = details.set_item("key", name);
            "ConfigError"
        }
        BrokerError::Listen { .. } | BrokerError::Storage { .. } => "BrokerStartError",
        BrokerError::Command(_) => "BrokerCommandError",
        BrokerError::Stopped => {
            slow_down_at_the_end(py);
            "ClosedError"
        }
    };
    exception(py, class, error.to_string(), &details).unwrap_or_else(|failure| failure)
}

thread_local! {
    /// The sink for log records of the broker that runs in this thread.
    static SINK: RefCell<Option<Sink>> = const { RefCell::new(None) };
}

struct Sink {
    log: Log,
    lines: Arc<Mutex<VecDeque<Line>>>,
}

/// Number of lines that [`BrokerCore::log_lines`] keeps.
const LINES: usize = 10_000;

impl Sink {
    fn wants(&self, level: Level) -> bool {
        level >= Level::Info || self.log.wants(level)
    }

    fn record(&self, level: Level, message: String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let mut lines = lock(&self.lines);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back((now, level as u8, message.clone()));
        drop(lines);
        self.log.record_at_level(level, &kinds::BROKER, || message);
    }
}

/// The logger for the `log` crate: records of a broker's thread go to that broker's sink, others are dropped.
struct ThreadLogger;

impl log::Log for ThreadLogger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        let level = level_of(metadata.level());
        SINK.with_borrow(|sink| sink.as_ref().is_some_and(|sink| sink.wants(level)))
    }

    fn log(&self, record: &log::Record<'_>) {
        // Drop the records of other libraries.
        if !record.target().starts_with("monedula") || !self.enabled(record.metadata()) {
            return;
        }
        let level = level_of(record.level());
        SINK.with_borrow(|sink| {
            if let Some(sink) = sink {
                sink.record(level, record.args().to_string());
            }
        });
    }

    fn flush(&self) {}
}

fn level_of(level: log::Level) -> Level {
    match level {
        log::Level::Trace => Level::Trace,
        log::Level::Debug => Level::Debug,
        log::Level::Info => Level::Info,
        log::Level::Warn | log::Level::Error => Level::Warning,
    }
}

fn install_logger() {
    static LOGGER: ThreadLogger = ThreadLogger;
    // Fails for every broker after the first, whose logger is already installed.
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(log::LevelFilter::Trace);
    }
}
