//! The encoders of a producer with `key=` or `value=`: those of a topic are made once its schemas are known.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::formats::record_encoder::RecordEncoder;

/// Encoders by topic.
#[derive(Default)]
pub(crate) struct RecordEncoders(RwLock<HashMap<String, Arc<TopicEncoders>>>);

/// Encoders of the keys and values of a topic; `None` where these are bytes.
pub(crate) struct TopicEncoders {
    pub(super) key: Option<RecordEncoder>,
    pub(super) value: Option<RecordEncoder>,
}

/// Key, value and headers of an encoded record.
pub(super) type EncodedRecord<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl RecordEncoders {
    pub(super) fn of(&self, topic: &str) -> Option<Arc<TopicEncoders>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    pub(super) fn set(&self, topic: &str, encoders: TopicEncoders) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(topic.to_owned(), Arc::new(encoders));
    }
}

impl TopicEncoders {
    /// Encodes a record. `None` stays: a record without a key, and a tombstone.
    pub(super) fn encode<'py>(
        &self,
        py: Python<'py>,
        key: Option<&Bound<'py, PyAny>>,
        value: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<EncodedRecord<'py>> {
        let mut set = Vec::new();
        let mut encoded = |encoder: &Option<RecordEncoder>, given: Option<&Bound<'py, PyAny>>| {
            let Some(given) = given else { return Ok(None) };
            let Some(encoder) = encoder else { return Ok(Some(given.clone())) };
            set.extend(encoder.header().map(|(name, id)| (name, id.to_vec())));
            encoder.encode(given).map(|bytes| Some(bytes.into_any()))
        };
        let (key, value) = (encoded(&self.key, key)?, encoded(&self.value, value)?);
        let headers = if set.is_empty() { headers.cloned() } else { Some(with_headers(py, headers, &set)?) };
        Ok((key, value, headers))
    }
}

/// The headers with these, in place of those of their names: a forwarded record may have those of another schema.
fn with_headers<'py>(
    py: Python<'py>,
    given: Option<&Bound<'py, PyAny>>,
    set: &[(&str, Vec<u8>)],
) -> PyResult<Bound<'py, PyAny>> {
    let pairs = match given {
        None => PyList::empty(py),
        Some(given) => match given.cast::<PyDict>() {
            Ok(dict) => dict.items(),
            Err(_) => match given.try_iter() {
                // What is no list of pairs is refused with the record.
                Err(_) => return Ok(given.clone()),
                Ok(pairs) => {
                    let kept = PyList::empty(py);
                    for pair in pairs {
                        kept.append(pair?)?;
                    }
                    kept
                }
            },
        },
    };
    let is_set = |pair: &Bound<'py, PyAny>| {
        let name = pair.get_item(0).and_then(|name| name.extract::<String>());
        name.is_ok_and(|name| set.iter().any(|(known, _)| *known == name))
    };
    let headers = PyList::empty(py);
    for pair in pairs.iter().filter(|pair| !is_set(pair)) {
        headers.append(pair)?;
    }
    for (name, id) in set {
        headers.append((*name, id.as_slice()))?;
    }
    Ok(headers.into_any())
}
