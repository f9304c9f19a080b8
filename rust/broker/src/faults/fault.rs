//! A fault as a test declares it: which requests, which effect, how often.

use monedula_protocol::api::{ApiKey, supported};
use monedula_protocol::error_code::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::BrokerError;

/// A fault. Its JSON is `{"when": {"apis": ["Fetch"], "topic": "orders"}, "what": {"effect": "delay", "ms": 50},
/// "count": 1}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// The requests that the fault selects.
    pub when: Selector,
    /// The effect on these requests.
    pub what: Effect,
    /// The side of the effect: before the request is carried out, or on its answer. Default: answer for truncate,
    /// fragment, corrupt, scram and throttle, otherwise request.
    pub on: Option<Side>,
    /// The number of selected requests that pass before the first is hit.
    pub skip: u64,
    /// The number of requests that are hit then; `None` for all.
    pub count: Option<u64>,
    /// The probability that a request is hit, from 0 to 1, drawn from the broker's seed; `None` for 1.
    pub probability: Option<f64>,
}

/// A selector of requests. A request must match all fields; an empty or absent field matches every request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selector {
    /// The APIs, by Kafka's names.
    pub apis: Vec<String>,
    /// The nodes that receive the request, by id.
    pub nodes: Vec<i32>,
    /// The client id.
    pub client_id: Option<String>,
    /// A topic that the request has, by its name or its id.
    pub topic: Option<String>,
    /// A partition of `topic` that the request has.
    pub partition: Option<i32>,
    /// A group that the request has.
    pub group: Option<String>,
    /// The transactional id of the request.
    pub transactional_id: Option<String>,
    /// The lowest version of the API.
    pub min_version: Option<i16>,
    /// The highest version of the API.
    pub max_version: Option<i16>,
}

/// The side of an effect: before the request is carried out, or on its answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The request is not carried out, or carried out later.
    Request,
    /// The request has been carried out.
    Answer,
}

/// The effect of a fault on a request or its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// None: the request is only counted.
    #[default]
    Observe,
    /// The answer has an error: for the selected partitions, if the selector has a topic and the API an error code for
    /// each partition; otherwise for the whole request.
    Error {
        /// Kafka's name of the error.
        error: String,
        /// True if the error is for the whole request in any case.
        #[serde(default)]
        whole: bool,
    },
    /// The request or the answer is delayed.
    Delay {
        /// The delay in milliseconds.
        ms: i64,
    },
    /// The request or the answer is held until the fault is released or removed.
    Hold,
    /// The request or the answer is lost. The connection stays open.
    Drop,
    /// The connection is closed normally (FIN).
    Close,
    /// The connection is reset (RST).
    Reset,
    /// Only the first bytes of the answer are sent, then the connection is closed.
    Truncate {
        /// The number of bytes that are sent, including the 4 of the length.
        bytes: usize,
    },
    /// Requests or answers of the connection are lost from now on. It stays open until the fault is released or
    /// removed, which closes it.
    BlackHole {
        /// The direction that is lost.
        way: Direction,
    },
    /// The answer is sent in fragments.
    Fragment {
        /// The size of a fragment in bytes.
        bytes: usize,
        /// The pause after each fragment in milliseconds.
        #[serde(default)]
        pause_ms: u64,
    },
    /// All bits of some bytes of the answer are flipped. The length field stays as it is.
    Corrupt {
        /// The offset of the first of these bytes, counted behind the length field. Default: the middle of the second
        /// half of the answer, which in a Fetch answer is in the records.
        offset: Option<usize>,
        /// The number of bytes that are flipped.
        #[serde(default = "one")]
        bytes: usize,
    },
    /// A SCRAM message of the broker, in the answer to a SaslAuthenticate, is changed where it has the field in
    /// question.
    Scram {
        /// The lie in it.
        #[serde(default)]
        lie: Option<ScramLie>,
        /// The number of iterations that it asks for.
        #[serde(default)]
        iterations: Option<u64>,
    },
    /// The answer has a throttle time, and the connection is not read for that time (KIP-219).
    Throttle {
        /// The throttle time in milliseconds.
        ms: i32,
    },
}

/// A lie in a SCRAM message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScramLie {
    /// The server's signature is another one, as from a broker that does not know the password.
    WrongSignature,
    /// The signature is missing.
    NoSignature,
    /// The nonce does not begin with the client's.
    ForeignNonce,
}

/// The direction that a black hole swallows.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Requests: this one is lost, and the connection is no longer read.
    Requests,
    /// Answers: requests are carried out, and never answered.
    Answers,
    /// Both: this request is lost, and the connection is no longer read.
    Both,
}

fn one() -> usize {
    1
}

impl Fault {
    /// The side on which the fault takes effect.
    pub(crate) fn side(&self) -> Side {
        self.on.unwrap_or(match self.what {
            Effect::Truncate { .. }
            | Effect::Fragment { .. }
            | Effect::Corrupt { .. }
            | Effect::Scram { .. }
            | Effect::Throttle { .. } => Side::Answer,
            _ => Side::Request,
        })
    }

    /// Checks names and numbers.
    ///
    /// # Errors
    /// [`BrokerError::Command`] with the first problem.
    pub(crate) fn check(&self) -> Result<Checked, BrokerError> {
        let apis = self.when.apis.iter().map(|name| api(name)).collect::<Result<Vec<_>, _>>()?;
        let error = match &self.what {
            Effect::Error { error, .. } => Some(error_code(error)?),
            _ => None,
        };
        let (bytes_only, in_request) = (self.side() == Side::Request, self.on == Some(Side::Request));
        match &self.what {
            Effect::Truncate { .. }
            | Effect::Fragment { .. }
            | Effect::Corrupt { .. }
            | Effect::Scram { .. }
            | Effect::Throttle { .. }
                if in_request =>
            {
                return wrong(
                    "truncate, fragment, corrupt, scram and throttle concern answers: on=\"request\" makes no sense",
                );
            }
            Effect::BlackHole { .. } if !bytes_only => {
                return wrong("a black hole says itself what it swallows: leave `on` out");
            }
            Effect::Fragment { bytes: 0, .. } => return wrong("fragments of 0 bytes never come to an end"),
            Effect::Delay { ms } if *ms < 0 => return wrong("a delay below 0 ms"),
            Effect::Throttle { ms } if *ms < 0 => return wrong("a throttle time below 0 ms"),
            _ => {}
        }
        if self.probability.is_some_and(|probability| !(0.0..=1.0).contains(&probability)) {
            return wrong("a probability is between 0 and 1");
        }
        if self.when.partition.is_some() && self.when.topic.is_none() {
            return wrong("a partition is selected together with its topic");
        }
        Ok(Checked { apis, error })
    }
}

/// The APIs and the error that the names in a fault stand for, as [`Fault::check`] found them.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) apis: Vec<ApiKey>,
    pub(crate) error: Option<ErrorCode>,
}

fn api(name: &str) -> Result<ApiKey, BrokerError> {
    let found = supported().iter().map(|(key, ..)| *key).find(|key| key.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = supported().iter().map(|(key, ..)| key.name()).collect();
        BrokerError::Command(format!("there is no API {name:?}; there are {}", names.join(", ")))
    })
}

/// The error code of a name. Kafka's codes run from -1 without gaps, so the search ends at the first unknown one.
fn error_code(name: &str) -> Result<ErrorCode, BrokerError> {
    let known = |code: &ErrorCode| !matches!(code, ErrorCode::Unknown(_));
    let found = (-1..i16::MAX).map(ErrorCode::from_code).take_while(known).find(|code| code.name() == name);
    found.ok_or_else(|| {
        BrokerError::Command(format!("Kafka has no error {name:?}; names are as in NOT_LEADER_OR_FOLLOWER"))
    })
}

fn wrong<T>(problem: &str) -> Result<T, BrokerError> {
    Err(BrokerError::Command(format!("fault: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_has_its_name() {
        assert_eq!(error_code("UNKNOWN_SERVER_ERROR").unwrap().code(), -1);
        assert_eq!(error_code("NOT_LEADER_OR_FOLLOWER").unwrap().code(), 6);
        assert_eq!(error_code("TRANSACTION_ABORTABLE").unwrap().code(), 120);
        assert!(error_code("NOT_LEADER").is_err());
    }

    #[test]
    fn a_fault_reads_from_json() {
        let text = r#"{"when": {"apis": ["Fetch"], "topic": "orders"}, "what": {"effect": "truncate", "bytes": 7}}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        assert_eq!((&fault.what, fault.side()), (&Effect::Truncate { bytes: 7 }, Side::Answer));
        assert_eq!(fault.check().unwrap().apis, [ApiKey::Fetch]);
        let text = r#"{"what": {"effect": "error", "error": "FENCED_INSTANCE_ID"}, "on": "answer"}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        assert_eq!(fault.check().unwrap().error, Some(ErrorCode::FencedInstanceId));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, problem) in [
            (r#"{"when": {"apis": ["Fetsh"]}}"#, "no API \"Fetsh\""),
            (r#"{"what": {"effect": "error", "error": "OOPS"}}"#, "no error \"OOPS\""),
            (r#"{"what": {"effect": "truncate", "bytes": 7}, "on": "request"}"#, "concern answers"),
            (r#"{"what": {"effect": "black_hole", "way": "both"}, "on": "answer"}"#, "says itself"),
            (r#"{"what": {"effect": "fragment", "bytes": 0}}"#, "0 bytes"),
            (r#"{"what": {"effect": "delay", "ms": -1}}"#, "below 0"),
            (r#"{"probability": 1.5}"#, "between 0 and 1"),
            (r#"{"when": {"partition": 0}}"#, "together with its topic"),
        ] {
            let fault: Fault = serde_json::from_str(text).unwrap();
            let error = fault.check().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
