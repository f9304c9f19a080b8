//! Parses settings from Python, and exports the table of all settings to Python.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use monedula_client::blocking;
use monedula_client::config::{ClientConfig, ConfigError};
use monedula_client::error::ClientError;
use monedula_client::producer::ProducerConfig;
use monedula_client::{KEYS, SettingKind};
use monedula_columns::ColumnSet;
use pyo3::prelude::*;

use crate::error::{argument_error, to_py};
use crate::runtime::in_slices;
use crate::tokens::Settings;

/// A setting: name, aliases, default (`None` if it is required), allowed values, description, and the clients that have
/// it.
type KeyRow = (&'static str, Vec<&'static str>, Option<&'static str>, String, &'static str, &'static str);

#[pyfunction]
pub(crate) fn config_keys() -> Vec<KeyRow> {
    let row = |key: &'static monedula_client::Key| {
        let values = match key.kind {
            SettingKind::Text => "text".to_owned(),
            SettingKind::Secret => "secret".to_owned(),
            SettingKind::Bool => "true or false".to_owned(),
            SettingKind::Choice(choices) => choices.join(", "),
            SettingKind::ChoiceOrDuration(choices) => format!("{}, by_duration:PnDTnHnMn.nS", choices.join(", ")),
            SettingKind::Int { min, max } => format!("{min} to {max}"),
        };
        let aliases = key.aliases.iter().map(|(alias, _)| *alias).collect();
        (key.name, aliases, key.default, values, key.description, key.role.name())
    };
    KEYS.iter().map(row).collect()
}

/// The options of the login module in `sasl.jaas.config`; none if it cannot be read.
#[pyfunction]
pub(crate) fn jaas_options(jaas_config: &str) -> BTreeMap<String, String> {
    monedula_client::sasl::jaas_options(jaas_config).into_iter().collect()
}

/// Raises a `ConfigError` if the settings are invalid.
#[pyfunction]
pub(crate) fn check_settings(py: Python<'_>, settings: Settings) -> PyResult<()> {
    parse(py, settings).map(drop)
}

/// Raises a `ConfigError` if the settings are invalid for a producer.
#[pyfunction]
pub(crate) fn check_producer_settings(py: Python<'_>, settings: Settings) -> PyResult<()> {
    parse_producer(py, settings).map(drop)
}

pub(crate) fn parse(py: Python<'_>, mut settings: Settings) -> PyResult<ClientConfig> {
    let mut config = parsed(py, settings.take_pairs(), |pairs| ClientConfig::parse(as_texts(pairs)))?;
    settings.give_token_source(&mut config);
    config.check_token_source().map_err(|error| to_py(py, error.into()))?;
    Ok(config)
}

pub(crate) fn parse_share(py: Python<'_>, mut settings: Settings) -> PyResult<ClientConfig> {
    let mut config = parsed(py, settings.take_pairs(), |pairs| ClientConfig::parse_share(as_texts(pairs)))?;
    settings.give_token_source(&mut config);
    config.check_token_source().map_err(|error| to_py(py, error.into()))?;
    Ok(config)
}

/// Parses settings on a thread of its own, since files of certificates and keys are read: other threads of Python run
/// meanwhile, and Ctrl-C ends the wait.
fn parsed<T: Send + 'static>(
    py: Python<'_>,
    pairs: Vec<(String, String)>,
    parse: fn(&Pairs) -> Result<T, ConfigError>,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let pairs = Arc::new(pairs);
    let theirs = pairs.clone();
    let work = move || {
        // Fails if Ctrl-C has ended the wait.
        let _ = sender.send(parse(&theirs));
    };
    if blocking::start_thread(blocking::named("monedula-config"), work).is_err() {
        // The system grants no thread.
        return py.detach(|| parse(&pairs)).map_err(|error| to_py(py, error.into()));
    }
    in_slices(py, move |until| match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(outcome) => Ok(Some(outcome?)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(ClientError::Internal("the settings could not be read".into())),
    })
}

/// Names and values of settings.
type Pairs = [(String, String)];

fn as_texts(pairs: &Pairs) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

pub(crate) fn parse_producer(py: Python<'_>, mut settings: Settings) -> PyResult<ProducerConfig> {
    let mut config = parsed(py, settings.take_pairs(), |pairs| ProducerConfig::parse(as_texts(pairs)))?;
    // Its tasks share the settings, and none of them runs yet.
    settings.give_token_source(Arc::make_mut(&mut config.client));
    config.client.check_token_source().map_err(|error| to_py(py, error.into()))?;
    Ok(config)
}

pub(crate) fn parse_admin(py: Python<'_>, mut settings: Settings) -> PyResult<ClientConfig> {
    let mut config = parsed(py, settings.take_pairs(), |pairs| ClientConfig::parse_admin(as_texts(pairs)))?;
    settings.give_token_source(&mut config);
    config.check_token_source().map_err(|error| to_py(py, error.into()))?;
    Ok(config)
}

pub(crate) fn columns(py: Python<'_>, names: Option<Vec<String>>, headers: bool) -> PyResult<ColumnSet> {
    let chosen = match names {
        Some(names) => {
            let names = names.iter().map(String::as_str);
            ColumnSet::from_names(names).map_err(|error| argument_error(py, error.to_string()))?
        }
        None => ColumnSet::default(),
    };
    Ok(if headers { chosen.with(ColumnSet::HEADERS) } else { chosen })
}

/// A seed for the jitter of retries, so that two clients that start together do not retry together.
pub(crate) fn seed() -> u64 {
    static CLIENTS: AtomicU64 = AtomicU64::new(0);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    clock ^ (u64::from(std::process::id()) << 32) ^ CLIENTS.fetch_add(0x9e37_79b9, Ordering::Relaxed)
}
