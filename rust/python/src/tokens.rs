//! Settings from Python, and the user's code that provides tokens for OAUTHBEARER.
//!
//! The code runs on the client's token thread, not on a thread of tokio or of the caller: a slow provider delays
//! neither a poll nor a heartbeat.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use monedula_client::config::ClientConfig;
use monedula_client::sasl::{Token, TokenError, TokenSource};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::interpreter::attaching::attached;

/// Settings, and the token source if it is Python code.
pub(crate) struct Settings {
    pub(crate) pairs: Vec<(String, String)>,
    token_source: Option<Py<PyAny>>,
}

impl<'py> FromPyObject<'_, 'py> for Settings {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let source = object.getattr_opt("token_source")?.filter(|source| !source.is_none());
        Ok(Self { pairs: object.extract()?, token_source: source.map(Bound::unbind) })
    }
}

impl Settings {
    pub(crate) fn take_pairs(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.pairs)
    }

    /// Makes the user's code the client's token source.
    pub(crate) fn give_token_source(self, config: &mut ClientConfig) {
        if let Some(source) = self.token_source {
            config.set_token_source(Arc::new(PythonSource(source)));
        }
    }
}

struct PythonSource(Py<PyAny>);

impl fmt::Debug for PythonSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonSource")
    }
}

impl TokenSource for PythonSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let ended = || TokenError::Failed("the interpreter ends".into());
        attached(|py| self.ask(py)).ok_or_else(ended)?
    }

    fn advice(&self) -> &'static str {
        "Correct the function or object that sasl.oauthbearer.token.provider (oauth_cb) names"
    }
}

impl PythonSource {
    fn ask(&self, py: Python<'_>) -> Result<Token, TokenError> {
        let answer = self.0.bind(py).call_method0("fetch").map_err(|error| failure(py, &error))?;
        let (value, expires_at, extensions): (String, Option<f64>, Vec<(String, String)>) =
            answer.extract().map_err(|error| failure(py, &error))?;
        let in_a_minute = SystemTime::now() + Duration::from_secs(60);
        let minute_ms = in_a_minute.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let by_code = expires_at.map(|seconds| (seconds * 1000.0) as i64);
        let expires_at_ms = by_code.or_else(|| Token::claimed_expiry_ms(&value)).unwrap_or(minute_ms);
        Ok(Token { value: value.into(), expires_at_ms, extensions })
    }
}

/// A value of a wrong type is a mistake in the code, which another attempt does not change. After any other exception,
/// another attempt may succeed.
fn failure(py: Python<'_>, error: &PyErr) -> TokenError {
    let name = error.get_type(py).name().map_or_else(|_| "an exception".into(), |name| name.to_string());
    let text = format!("the token provider raised {name}: {}", error.value(py));
    match error.is_instance_of::<PyTypeError>(py) {
        true => TokenError::Refused(text),
        false => TokenError::Failed(text),
    }
}
