//! A fault as a test declares it: when, what, how often.

use monedula_protocol::api::{ApiKey, supported};
use monedula_protocol::error_code::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::BrokerError;

/// What is to go wrong. Its JSON is `{"when": {"apis": ["Fetch"], "topic": "orders"}, "what": {"effect": "delay", "ms": 50},
/// "count": 1}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Which requests it concerns.
    pub when: Selector,
    /// What becomes of them.
    pub what: Effect,
    /// Whether it comes before the request is carried out, or after; what the effect usually means if it is not said.
    pub on: Option<Side>,
    /// How many of these requests are let through first.
    pub skip: u64,
    /// How many are hit then; all if it is not said.
    pub count: Option<u64>,
    /// How likely each is hit, drawn from the broker's seed.
    pub probability: Option<f64>,
}

/// Which requests. What is not said selects nothing out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selector {
    /// Any of these APIs, by Kafka's names.
    pub apis: Vec<String>,
    /// At any of these nodes.
    pub nodes: Vec<i32>,
    /// Of the client with this id.
    pub client_id: Option<String>,
    /// That name this topic, by its name or id.
    pub topic: Option<String>,
    /// That name this partition of it.
    pub partition: Option<i32>,
    /// That name this group.
    pub group: Option<String>,
    /// That name this transactional id.
    pub transactional_id: Option<String>,
    /// From this version of the API on.
    pub min_version: Option<i16>,
    /// Up to this version.
    pub max_version: Option<i16>,
}

/// Before a request is carried out, or on its answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The request is not carried out, or later.
    Request,
    /// The request has been carried out.
    Answer,
}

/// What becomes of a request or of its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case", deny_unknown_fields)]
pub enum Effect {
    /// Nothing: it is counted.
    #[default]
    Observe,
    /// An error is answered: for the partitions that are selected where the selector names a topic and the API answers for
    /// partitions one by one, otherwise for the whole request.
    Error {
        /// Kafka's name of it.
        error: String,
        /// For the whole request, whatever is selected.
        #[serde(default)]
        whole: bool,
    },
    /// It goes on later.
    Delay {
        /// So many milliseconds.
        ms: i64,
    },
    /// It goes on when the fault is released or removed.
    Hold,
    /// It is lost, and the connection goes on.
    Drop,
    /// The connection is closed in order.
    Close,
    /// The connection is reset (RST).
    Reset,
    /// So many bytes of the answer, its length among them, are sent; then the connection is closed.
    Truncate {
        /// The bytes.
        bytes: usize,
    },
    /// The connection stays open, and is closed when the fault is released or removed.
    BlackHole {
        /// What is lost.
        way: Way,
    },
    /// The answer is sent in pieces.
    Fragment {
        /// Of so many bytes.
        bytes: usize,
        /// With so many milliseconds between.
        #[serde(default)]
        pause_ms: u64,
    },
    /// Bits of the answer are flipped. Its length stays.
    Corrupt {
        /// The first byte concerned, counted behind the length; the middle of the answer's second half, which for a Fetch
        /// are records, if it is not said.
        offset: Option<usize>,
        /// How many bytes.
        #[serde(default = "one")]
        bytes: usize,
    },
    /// The answer says that the client is throttled, and nothing more is read of it for that time (KIP-219).
    Throttle {
        /// So many milliseconds.
        ms: i32,
    },
}

/// What a black hole swallows.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Nothing is read any more, this request included.
    Requests,
    /// Requests are carried out, and never answered.
    Answers,
    /// Both: this request is lost, and nothing is read any more.
    Both,
}

fn one() -> usize {
    1
}

impl Fault {
    /// The side on which it takes effect.
    pub(crate) fn side(&self) -> Side {
        self.on.unwrap_or(match self.what {
            Effect::Truncate { .. } | Effect::Fragment { .. } | Effect::Corrupt { .. } | Effect::Throttle { .. } => {
                Side::Answer
            }
            _ => Side::Request,
        })
    }

    /// Checks names and numbers.
    ///
    /// # Errors
    /// [`BrokerError::Command`] with the first that cannot be.
    pub(crate) fn check(&self) -> Result<Checked, BrokerError> {
        let apis = self.when.apis.iter().map(|name| api(name)).collect::<Result<Vec<_>, _>>()?;
        let error = match &self.what {
            Effect::Error { error, .. } => Some(error_code(error)?),
            _ => None,
        };
        let (bytes_only, in_request) = (self.side() == Side::Request, self.on == Some(Side::Request));
        match &self.what {
            Effect::Truncate { .. } | Effect::Fragment { .. } | Effect::Corrupt { .. } | Effect::Throttle { .. }
                if in_request =>
            {
                return wrong(
                    "truncate, fragment, corrupt and throttle concern answers: on=\"request\" makes no sense",
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

/// What [`Fault::check`] found names to stand for.
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

/// The codes that Kafka has: from -1 on, without gaps.
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
