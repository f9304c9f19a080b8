//! Settings of a producer.

use std::sync::Arc;
use std::time::Duration;

use monedula_engine::produce::{Acks, Partitioner, ProduceConfig};
use monedula_protocol::compression::Compression;

use crate::config::{ClientConfig, ConfigError, propagation};
use crate::config_keys::Role;
use crate::config_values::ConfigValues;

/// Typed settings of a producer; see [`crate::KEYS`] for their meanings.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each field is a key of the table, described there")]
pub struct ProducerConfig {
    pub client: Arc<ClientConfig>,
    pub acks: Acks,
    pub idempotent: bool,
    pub codec: Compression,
    /// `None` if the codec has no level, or chooses it.
    pub level: Option<i32>,
    pub linger: Duration,
    pub batch_bytes: usize,
    pub max_record_bytes: usize,
    pub buffer_memory: usize,
    pub max_block: Duration,
    pub delivery_timeout: Duration,
    pub max_idle: Duration,
    pub retries: u32,
    pub max_in_flight: usize,
    pub partitioner: Partitioner,
    pub transactional_id: Option<String>,
    pub transaction_timeout: Duration,
    pub warnings: Vec<String>,
}

/// The most requests in flight with idempotence (KIP-98): a broker remembers this many batches of a producer.
const MAX_IDEMPOTENT_IN_FLIGHT: usize = 5;

/// Time for which a topic may be unknown to brokers before records for it fail: they are lost then unless they are sent
/// again, so it is longer than for a consumer, which asks on.
const PROPAGATION: Duration = Duration::from_secs(30);

impl ProducerConfig {
    /// Parses `given`, names with dots or underscores.
    ///
    /// # Errors
    /// As [`ClientConfig::parse`], and if settings contradict each other.
    pub fn parse<'a>(given: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, ConfigError> {
        let values = ConfigValues::collect(given, Role::Producer)?;
        let mut client = ClientConfig::of(&values)?;
        client.propagation = propagation(&values, PROPAGATION);
        let codec = values.text("compression.type");
        let codec = Compression::ALL.into_iter().find(|known| known.name() == codec).unwrap_or_default();
        let mut config = Self {
            acks: match values.text("acks").as_str() {
                "0" => Acks::None,
                "1" => Acks::Leader,
                _ => Acks::All,
            },
            idempotent: values.bool("enable.idempotence"),
            codec,
            level: level(&values, codec)?,
            linger: values.millis("linger.ms"),
            batch_bytes: values.int("batch.size") as usize,
            max_record_bytes: max_record_bytes(&values),
            buffer_memory: values.int("buffer.memory") as usize,
            max_block: values.millis("max.block.ms"),
            delivery_timeout: delivery_timeout(&values, &mut client),
            max_idle: values.millis("metadata.max.idle.ms"),
            retries: values.int("retries") as u32,
            max_in_flight: values.int("max.in.flight.requests.per.connection") as usize,
            partitioner: Partitioner::by_name(&values.text("partitioner")).unwrap_or_default(),
            transactional_id: values.given("transactional.id"),
            transaction_timeout: values.millis("transaction.timeout.ms"),
            warnings: values.warnings.clone(),
            client: Arc::new(client),
        };
        config.settle_idempotence(&values)?;
        config.check(&values)?;
        config.warn(&values);
        Ok(config)
    }

    /// Idempotence is on by default. Settings that exclude it turn it off, or are an error if it was requested
    /// explicitly.
    fn settle_idempotence(&mut self, values: &ConfigValues) -> Result<(), ConfigError> {
        let wanted = values.is_given("enable.idempotence") || self.transactional_id.is_some();
        let (acks, in_flight) = (values.text("acks"), self.max_in_flight);
        let obstacles = [
            (
                "acks",
                self.acks != Acks::All,
                format!("acks={acks} does not go with enable.idempotence=true, which needs acks=all"),
            ),
            (
                "max.in.flight.requests.per.connection",
                in_flight > MAX_IDEMPOTENT_IN_FLIGHT,
                format!(
                    "max.in.flight.requests.per.connection={in_flight} does not go with enable.idempotence=true, which \
                     allows at most {MAX_IDEMPOTENT_IN_FLIGHT}"
                ),
            ),
            (
                "retries",
                self.retries == 0,
                "retries=0 does not go with enable.idempotence=true, which needs repetitions".to_owned(),
            ),
        ];
        if !self.idempotent {
            return match &self.transactional_id {
                Some(id) => {
                    let message = format!("transactional.id={id} does not go with enable.idempotence=false");
                    Err(ConfigError { key: "enable.idempotence".into(), message })
                }
                None => Ok(()),
            };
        }
        match obstacles.into_iter().find(|(_, stands, _)| *stands) {
            Some((key, _, message)) if wanted => Err(ConfigError { key: key.into(), message }),
            Some((_, _, message)) => {
                self.idempotent = false;
                self.warnings.push(format!("{message}; the producer goes on without idempotence"));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn check(&self, values: &ConfigValues) -> Result<(), ConfigError> {
        let (delivery, linger) = (self.delivery_timeout.as_millis(), self.linger.as_millis());
        let request = self.client.request_timeout.as_millis();
        let contradictions = [
            (
                "delivery.timeout.ms",
                delivery < linger + request,
                format!(
                    "delivery.timeout.ms ({delivery} ms) must be at least linger.ms + request.timeout.ms ({linger} + \
                     {request} ms), or records expire before their first request can fail"
                ),
            ),
            (
                "buffer.memory",
                self.buffer_memory < self.max_record_bytes,
                format!(
                    "buffer.memory ({}) must be at least max.request.size ({}), or the largest record never fits",
                    self.buffer_memory, self.max_record_bytes
                ),
            ),
            (
                "transaction.timeout.ms",
                self.transactional_id.is_some()
                    && values.is_given("transaction.timeout.ms")
                    && self.transaction_timeout < self.linger,
                format!(
                    "transaction.timeout.ms ({} ms) must be at least linger.ms ({linger} ms)",
                    self.transaction_timeout.as_millis()
                ),
            ),
        ];
        match contradictions.into_iter().find(|(_, wrong, _)| *wrong) {
            Some((key, _, message)) => Err(ConfigError { key: key.into(), message }),
            None => Ok(()),
        }
    }

    /// Warns of settings that are valid, but likely not intended (req S107).
    fn warn(&mut self, values: &ConfigValues) {
        if !self.idempotent && self.max_in_flight > 1 && self.retries > 0 && self.acks != Acks::None {
            self.warnings.push(format!(
                "retries={} with max.in.flight.requests.per.connection={} and without idempotence: a repetition may \
                 reorder records; set enable.idempotence=true or one request in flight",
                self.retries, self.max_in_flight
            ));
        }
        if self.batch_bytes > self.max_record_bytes && values.is_given("batch.size") {
            self.warnings.push(format!(
                "batch.size ({}) is above max.request.size ({}): batches close at the latter",
                self.batch_bytes, self.max_record_bytes
            ));
        }
        self.batch_bytes = self.batch_bytes.min(self.max_record_bytes);
    }

    /// Timers round up, so that a batch with a linger of 5 ms was sent after 6 to 6.5 ms. The timer is set a step
    /// earlier, for a single record not to be late.
    fn linger_of_timers(&self) -> Duration {
        if self.linger > TIMER_STEP { self.linger - TIMER_STEP } else { self.linger }
    }

    /// The settings of the delivery machine.
    pub(crate) fn machine(&self) -> ProduceConfig {
        ProduceConfig {
            acks: self.acks,
            idempotent: self.idempotent,
            transactional: self.transactional_id.is_some(),
            max_in_flight: self.max_in_flight,
            linger: self.linger_of_timers(),
            max_request_bytes: self.max_record_bytes.max(MIN_REQUEST_BYTES),
            delivery_timeout: self.delivery_timeout,
            retries: self.retries,
            backoff: self.client.retry_backoff,
            propagation: self.client.propagation,
        }
    }
}

/// The resolution of timers in tokio, and of epoll below; both round up.
const TIMER_STEP: Duration = Duration::from_millis(1);

/// The least limit on the batches of one request.
const MIN_REQUEST_BYTES: usize = 1 << 20;

/// A delivery takes at least the linger and one request. Of the two timeouts, one that was not set makes room for the
/// other.
fn delivery_timeout(values: &ConfigValues, client: &mut ClientConfig) -> Duration {
    let (delivery, linger) = (values.millis("delivery.timeout.ms"), values.millis("linger.ms"));
    if !values.is_given("delivery.timeout.ms") {
        return delivery.max(linger + client.request_timeout);
    }
    if !values.is_given("request.timeout.ms") && delivery > linger {
        client.request_timeout = client.request_timeout.min(delivery - linger);
    }
    delivery
}

/// A record larger than `buffer.memory` would never fit, so a default of `max.request.size` is lowered to it.
fn max_record_bytes(values: &ConfigValues) -> usize {
    let (limit, memory) = (values.int("max.request.size"), values.int("buffer.memory"));
    let limit = if values.is_given("max.request.size") { limit } else { limit.min(memory) };
    limit as usize
}

fn level(values: &ConfigValues, codec: Compression) -> Result<Option<i32>, ConfigError> {
    let general = Some(values.int("compression.level") as i32).filter(|&level| level != -1);
    let (key, range, own) = match codec {
        Compression::Gzip => ("compression.gzip.level", 1..=9, values.int("compression.gzip.level") as i32),
        Compression::Lz4 => ("compression.lz4.level", 1..=17, values.int("compression.lz4.level") as i32),
        Compression::Zstd => ("compression.zstd.level", -131_072..=22, values.int("compression.zstd.level") as i32),
        _ => return Ok(None),
    };
    let level = general.unwrap_or(own);
    if codec != Compression::Zstd && level == -1 {
        return Ok(None);
    }
    if range.contains(&level) {
        // lz4 treats levels above its highest one like the highest.
        let highest = if codec == Compression::Lz4 { 12 } else { *range.end() };
        return Ok(Some(level.min(highest)));
    }
    let key = if general.is_some() { "compression.level" } else { key };
    let message = format!("{key}={level}: {codec} has levels {} to {}", range.start(), range.end());
    Err(ConfigError { key: key.into(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[(&str, &str)]) -> ProducerConfig {
        let servers = ("bootstrap.servers", "localhost:9092");
        ProducerConfig::parse(std::iter::once(servers).chain(given.iter().copied())).expect("settings")
    }

    // req: S171
    #[test]
    fn what_is_set_reaches_the_machine_and_what_is_not_has_the_documented_default() {
        let defaults = parse(&[]);
        let machine = defaults.machine();
        let ms = Duration::from_millis;
        assert_eq!((machine.max_in_flight, machine.idempotent, machine.retries), (5, true, i32::MAX as u32));
        assert_eq!((machine.linger, defaults.batch_bytes, defaults.codec), (ms(4), 262_144, Compression::None));
        let backoff = machine.backoff;
        assert_eq!((backoff.initial, backoff.factor, backoff.max), (ms(100), 2, ms(1000)));
        for (name, default) in [
            ("max.in.flight.requests.per.connection", "5"),
            ("enable.idempotence", "true"),
            ("retry.backoff.ms", "100"),
            ("retry.backoff.factor", "2"),
            ("retries", "2147483647"),
            ("retry.backoff.max.ms", "1000"),
            ("batch.size", "262144"),
            ("linger.ms", "5"),
            ("compression.type", "none"),
        ] {
            let key = crate::KEYS.iter().find(|key| key.name == name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(key.default, Some(default), "{name}");
        }

        let given = parse(&[
            ("max.in.flight", "3"),
            ("enable.idempotence", "false"),
            ("retry.backoff.ms", "7"),
            ("retry.backoff.factor", "3"),
            ("retry.backoff.max.ms", "70"),
            ("retries", "9"),
            ("batch.size", "1234"),
            ("linger.ms", "11"),
            ("compression.type", "zstd"),
            ("compression.level", "5"),
        ]);
        let machine = given.machine();
        assert_eq!((machine.max_in_flight, machine.idempotent, machine.retries), (3, false, 9));
        assert_eq!((machine.linger, given.batch_bytes), (ms(10), 1234));
        assert_eq!((given.codec, given.level), (Compression::Zstd, Some(5)));
        for (key, level, passed) in
            [("compression.lz4.level", "9", 9), ("compression.level", "1", 1), ("compression.lz4.level", "17", 12)]
        {
            assert_eq!(parse(&[("compression.type", "lz4"), (key, level)]).level, Some(passed));
        }
        assert_eq!(parse(&[("compression.type", "lz4")]).level, None);
        let backoff = machine.backoff;
        assert_eq!((backoff.initial, backoff.factor, backoff.max), (ms(7), 3, ms(70)));
    }
}
