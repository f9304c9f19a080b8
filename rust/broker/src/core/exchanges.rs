//! The last requests with their answers, for the tests that want to know what happened, and for the log.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use serde_json::{Value, json};

use crate::api;
use crate::cluster::NodeId;
use crate::request::{Action, ConnectionId, Current, Origin};

/// The number of requests that are kept.
const KEPT: usize = 100;
/// The size up to which an answer is kept, so that its error codes can be told later.
const KEPT_ANSWER_BYTES: usize = 16 * 1024;
/// The size of a frame's length field.
const LENGTH_BYTES: usize = 4;

/// The last requests, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    last: VecDeque<Exchange>,
}

/// A request with its answer.
#[derive(Debug)]
struct Exchange {
    asked_ms: i64,
    connection: ConnectionId,
    node: NodeId,
    client_id: Box<str>,
    request: Current,
    /// The time of the answer, and the answer.
    answer: Option<(i64, KeptAnswer)>,
    /// The faults that took effect on the request or its answer.
    faults: Vec<u64>,
}

/// An answer, as far as it is kept.
#[derive(Debug)]
enum KeptAnswer {
    /// A frame of this size, and its content unless it is large.
    Frame(usize, Vec<Bytes>),
    /// No answer; the connection stays open.
    Nothing,
    /// No answer or a refusal; the connection ends, for this reason.
    Ended(String),
}

impl Exchanges {
    pub(super) fn asked(
        &mut self,
        now_ms: i64,
        (connection, origin): (ConnectionId, &Origin),
        client_id: &str,
        request: Current,
    ) {
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        let (asked_ms, node, client_id) = (now_ms, origin.node, client_id.into());
        let exchange = Exchange { asked_ms, connection, node, client_id, request, answer: None, faults: Vec::new() };
        self.last.push_back(exchange);
    }

    /// Records the answer to the request that a connection waits for.
    pub(super) fn answered(&mut self, now_ms: i64, connection: ConnectionId, action: &Action, faults: Vec<u64>) {
        let open = |exchange: &&mut Exchange| exchange.connection == connection && exchange.answer.is_none();
        let Some(exchange) = self.last.iter_mut().rev().find(open) else { return };
        let answer = match action {
            Action::Send(pieces) | Action::Wire(pieces, _) => {
                let bytes = pieces.iter().map(Bytes::len).sum();
                KeptAnswer::Frame(bytes, if bytes <= KEPT_ANSWER_BYTES { pieces.clone() } else { Vec::new() })
            }
            Action::Nothing => KeptAnswer::Nothing,
            Action::Close(reason) | Action::Refuse(_, _, reason) => KeptAnswer::Ended(reason.clone()),
            Action::Reset => KeptAnswer::Ended("a fault resets it".to_owned()),
            Action::Deaf => KeptAnswer::Ended("a fault no longer reads it".to_owned()),
        };
        exchange.faults = faults;
        exchange.answer = Some((now_ms, answer));
    }

    /// The last requests as JSON, for the control command that lists them.
    pub(super) fn describe(&self) -> Value {
        self.last.iter().map(Exchange::describe).collect()
    }
}

impl Exchange {
    fn describe(&self) -> Value {
        let mut described = json!({
            "node": self.node,
            "connection": self.connection.0,
            "client_id": &*self.client_id,
            "api": self.request.key.name(),
            "version": self.request.version,
            "correlation_id": self.request.correlation_id,
            "asked_at_ms": self.asked_ms,
            "answered_at_ms": self.answer.as_ref().map(|(answered_ms, _)| answered_ms),
            "faults": self.faults,
            "bytes": null,
            "errors": {},
            "ended": null,
        });
        match self.answer.as_ref().map(|(_, answer)| answer) {
            Some(KeptAnswer::Frame(bytes, pieces)) => {
                described["bytes"] = (*bytes).into();
                described["errors"] = json!(errors(self.request, pieces));
            }
            Some(KeptAnswer::Ended(reason)) => described["ended"] = reason.as_str().into(),
            Some(KeptAnswer::Nothing) | None => {}
        }
        described
    }
}

/// The errors in an answer, by Kafka's name, each with how often it is there. None for an answer that cannot be read,
/// such as one that a fault has damaged.
fn errors(request: Current, pieces: &[Bytes]) -> BTreeMap<&'static str, usize> {
    let frame = pieces.concat();
    let codes = frame.get(LENGTH_BYTES..).and_then(|body| api::error_codes(request.key, request.version, body));
    let mut errors = BTreeMap::new();
    for code in codes.into_iter().flatten().filter(|code| *code != 0) {
        *errors.entry(ErrorCode::from_code(code).name()).or_default() += 1;
    }
    errors
}

/// The errors in an answer, for the log: `, UNKNOWN_TOPIC_OR_PARTITION, 3 NOT_LEADER_OR_FOLLOWER`.
pub(super) fn errors_in_words(request: Current, pieces: &[Bytes]) -> String {
    let mut words = String::new();
    for (name, count) in errors(request, pieces) {
        let _ = match count {
            1 => write!(words, ", {name}"),
            count => write!(words, ", {count} {name}"),
        };
    }
    words
}
