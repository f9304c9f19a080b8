//! Parses settings from Python, and exports the table of all settings to Python.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use monedula_client::config::ClientConfig;
use monedula_client::producer::ProducerConfig;
use monedula_client::{KEYS, Kind};
use monedula_columns::ColumnSet;
use pyo3::prelude::*;

use crate::error::{argument_error, to_py};

/// A setting: name, aliases, default (`None` if it is required), allowed values, description, and the clients that have
/// it.
type KeyRow = (&'static str, Vec<&'static str>, Option<&'static str>, String, &'static str, &'static str);

/// All settings.
#[pyfunction]
pub(crate) fn config_keys() -> Vec<KeyRow> {
    let row = |key: &'static monedula_client::Key| {
        let values = match key.kind {
            Kind::Text => "text".to_owned(),
            Kind::Secret => "secret".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Choice(choices) => choices.join(", "),
            Kind::Int { min, max } => format!("{min} to {max}"),
        };
        let aliases = key.aliases.iter().map(|(alias, _)| *alias).collect();
        (key.name, aliases, key.default, values, key.description, key.role.name())
    };
    KEYS.iter().map(row).collect()
}

/// Raises a `ConfigError` if the settings are invalid.
#[pyfunction]
pub(crate) fn check_settings(py: Python<'_>, settings: Vec<(String, String)>) -> PyResult<()> {
    parse(py, &settings).map(drop)
}

/// Raises a `ConfigError` if the settings are invalid for a producer.
#[pyfunction]
pub(crate) fn check_producer_settings(py: Python<'_>, settings: Vec<(String, String)>) -> PyResult<()> {
    let pairs = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    ProducerConfig::parse(pairs).map(drop).map_err(|error| to_py(py, error.into()))
}

pub(crate) fn parse(py: Python<'_>, settings: &[(String, String)]) -> PyResult<ClientConfig> {
    let pairs = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    ClientConfig::parse(pairs).map_err(|error| to_py(py, error.into()))
}

/// Parses the settings of an admin client.
pub(crate) fn parse_admin(py: Python<'_>, settings: &[(String, String)]) -> PyResult<ClientConfig> {
    let pairs = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    ClientConfig::parse_admin(pairs).map_err(|error| to_py(py, error.into()))
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
