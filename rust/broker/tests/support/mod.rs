//! The core in virtual time, for tests from a client's view: connections, requests as typed messages, answers.
//!
//! Time stands still unless a test advances it ([`World::advance`]); each deadline on the way is handled at its own
//! time.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part; a test may panic")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::marker::PhantomData;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_broker::core::{Action, ConnectionId, Core, Wire};
use monedula_broker::settings::Settings;
use monedula_protocol::api::Request;
use monedula_protocol::frame::{correlation_id, decode_response, encode_request};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponseTopic};
use serde_json::Value;

/// The time at which a world begins; large, so that it cannot be confused with a duration.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// The limit on ticks of the core in one advance of the time. More than that indicate a timer that is always due.
const TICKS: usize = 100_000;

/// A cluster with the time and the pending answers.
#[derive(Debug)]
pub(crate) struct World {
    /// The cluster.
    pub(crate) core: Core,
    /// The time in milliseconds since the Unix epoch.
    pub(crate) now_ms: i64,
    /// A connection to each node for [`World::call`].
    shared: BTreeMap<i32, ConnectionId>,
    answers: HashMap<ConnectionId, VecDeque<Outcome>>,
    last_correlation_id: i32,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An answer: the frame without its length field.
    Frame(Bytes),
    /// The request gets no answer (acks=0).
    Nothing,
    /// The login failed: an answer, behind which the connection is closed.
    Refused(Bytes),
    /// The connection was closed, for a reason.
    Closed(String),
    /// An answer, empty for none, with instructions for sending it.
    Wire(Bytes, Wire),
    /// The connection was reset.
    Reset,
    /// The connection is no longer read.
    Deaf,
}

/// A request whose answer may be pending.
#[derive(Debug)]
pub(crate) struct Pending<R> {
    /// The connection that it was sent on.
    pub(crate) connection: ConnectionId,
    /// Its correlation id.
    pub(crate) correlation_id: i32,
    version: i16,
    request: PhantomData<fn() -> R>,
}

impl Default for World {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl World {
    /// A cluster with these settings.
    pub(crate) fn new(settings: Settings) -> Self {
        let core = Core::new(settings, START_MS).unwrap();
        Self { core, now_ms: START_MS, shared: BTreeMap::new(), answers: HashMap::new(), last_correlation_id: 0 }
    }

    /// A cluster with a number of nodes, and with Kafka's settings by name.
    pub(crate) fn with(nodes: u16, kafka: &[(&str, &str)]) -> Self {
        let mut settings = Settings { nodes, ..Settings::default() };
        for (name, value) in kafka {
            settings.set(name, value).unwrap();
        }
        Self::new(settings)
    }

    /// A new connection to a node.
    pub(crate) fn connect(&mut self, node: i32) -> ConnectionId {
        let connection = self.core.connected(self.now_ms, NodeId(node), "127.0.0.1");
        self.collect();
        connection
    }

    /// Ends a connection, as if the client was killed.
    pub(crate) fn disconnect(&mut self, connection: ConnectionId) {
        self.core.disconnected(self.now_ms, connection);
        self.collect();
    }

    /// Sends a request to a node and takes the answer, which must not be delayed. All calls to a node share a
    /// connection.
    #[track_caller]
    pub(crate) fn call<'q, R: Request<'q>>(&mut self, node: i32, request: &R, version: i16) -> R::Response<'static> {
        let connection = match self.shared.get(&node) {
            Some(&connection) => connection,
            None => self.connect(node),
        };
        self.shared.insert(node, connection);
        self.call_on(connection, request, version)
    }

    /// Like [`World::call`], on a given connection.
    #[track_caller]
    pub(crate) fn call_on<'q, R: Request<'q>>(
        &mut self,
        connection: ConnectionId,
        request: &R,
        version: i16,
    ) -> R::Response<'static> {
        let pending = self.send_on(connection, request, version);
        self.take(&pending).unwrap_or_else(|| panic!("{} v{version} is not answered at once", R::API_KEY))
    }

    /// Sends a request to a node on a new connection. The answer may be delayed.
    #[track_caller]
    pub(crate) fn send<'q, R: Request<'q>>(&mut self, node: i32, request: &R, version: i16) -> Pending<R> {
        let connection = self.connect(node);
        self.send_on(connection, request, version)
    }

    /// Sends a request on a connection without another pending request.
    #[track_caller]
    pub(crate) fn send_on<'q, R: Request<'q>>(
        &mut self,
        connection: ConnectionId,
        request: &R,
        version: i16,
    ) -> Pending<R> {
        self.send_as(connection, request, version, Some("test"))
    }

    /// Like [`World::send_on`], with a client id.
    #[track_caller]
    pub(crate) fn send_as<'q, R: Request<'q>>(
        &mut self,
        connection: ConnectionId,
        request: &R,
        version: i16,
        client_id: Option<&str>,
    ) -> Pending<R> {
        self.last_correlation_id += 1;
        let correlation_id = self.last_correlation_id;
        let frame = encode_request(request, version, correlation_id, client_id).unwrap();
        self.send_frame(connection, Bytes::from(frame).slice(4..));
        Pending { connection, correlation_id, version, request: PhantomData }
    }

    /// Sends a frame, given without its length field.
    pub(crate) fn send_frame(&mut self, connection: ConnectionId, frame: Bytes) {
        self.core.request(self.now_ms, connection, &frame);
        self.collect();
    }

    /// Takes the answer of a request; `None` if it is pending. Panics if the connection was closed.
    #[track_caller]
    pub(crate) fn take<'q, R: Request<'q>>(&mut self, pending: &Pending<R>) -> Option<R::Response<'static>> {
        match self.outcome(pending.connection)? {
            Outcome::Frame(frame) => {
                assert_eq!(correlation_id(&frame), Ok(pending.correlation_id), "{}", R::API_KEY);
                // Leaks the few bytes of the answer, so that it borrows from nothing.
                let frame: &'static [u8] = Box::leak(frame.to_vec().into_boxed_slice());
                Some(decode_response::<R>(frame, pending.version).unwrap())
            }
            other => panic!("{} v{} is not answered: {other:?}", R::API_KEY, pending.version),
        }
    }

    /// True if the answer is still pending.
    pub(crate) fn waits<R>(&self, pending: &Pending<R>) -> bool {
        self.answers.get(&pending.connection).is_none_or(VecDeque::is_empty)
    }

    /// Takes the oldest outcome of a connection, if there is one.
    pub(crate) fn outcome(&mut self, connection: ConnectionId) -> Option<Outcome> {
        self.answers.get_mut(&connection)?.pop_front()
    }

    /// Advances the time. Each deadline on the way is handled at its own time.
    pub(crate) fn advance(&mut self, by_ms: i64) {
        let until_ms = self.now_ms + by_ms;
        for _ in 0..TICKS {
            match self.core.next_due_ms() {
                Some(due_ms) if due_ms <= until_ms => {
                    self.now_ms = self.now_ms.max(due_ms);
                    self.core.tick(self.now_ms);
                    self.collect();
                }
                _ => {
                    self.now_ms = until_ms;
                    self.core.tick(until_ms);
                    return self.collect();
                }
            }
        }
        panic!("after {TICKS} ticks something is due still, at {:?}", self.core.next_due_ms());
    }

    /// Carries out a command, given as JSON as on the control port. Returns its answer.
    #[track_caller]
    pub(crate) fn control(&mut self, command: Value) -> Value {
        let command: Command = serde_json::from_value(command).unwrap();
        let answer = self.core.control(self.now_ms, command).unwrap();
        self.collect();
        answer
    }

    /// Sets configs of a topic.
    #[track_caller]
    pub(crate) fn alter_topic(&mut self, name: &str, configs: &[(&str, &str)]) {
        self.alter(2, name, configs);
    }

    /// Sets configs of all brokers.
    #[track_caller]
    pub(crate) fn alter_broker(&mut self, configs: &[(&str, &str)]) {
        self.alter(4, "", configs);
    }

    #[track_caller]
    fn alter(&mut self, resource_type: i8, resource_name: &str, configs: &[(&str, &str)]) {
        let config = |&(name, value)| AlterableConfig { name, value: Some(value), ..Default::default() };
        let configs = configs.iter().map(config).collect();
        let resource = AlterConfigsResource { resource_type, resource_name, configs, ..Default::default() };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = self.call(1, &request, 1);
        assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
    }

    /// Carries out a command, which must fail. Returns the error message.
    #[track_caller]
    pub(crate) fn control_error(&mut self, command: Value) -> String {
        let command: Command = serde_json::from_value(command).unwrap();
        let error = self.core.control(self.now_ms, command).unwrap_err();
        self.collect();
        error.to_string()
    }

    fn collect(&mut self) {
        for reply in self.core.drain() {
            let outcome = match reply.action {
                Action::Send(pieces) => Outcome::Frame(Bytes::from(pieces.concat()).slice(4..)),
                Action::Nothing => Outcome::Nothing,
                Action::Refuse(pieces, _, _) if !pieces.is_empty() => {
                    Outcome::Refused(Bytes::from(pieces.concat()).slice(4..))
                }
                Action::Refuse(_, _, reason) => Outcome::Closed(reason),
                Action::Close(reason) => Outcome::Closed(reason),
                Action::Wire(pieces, wire) => {
                    Outcome::Wire(Bytes::from(pieces.concat().get(4..).unwrap_or_default().to_vec()), wire)
                }
                Action::Reset => Outcome::Reset,
                Action::Deaf => Outcome::Deaf,
            };
            self.answers.entry(reply.connection).or_default().push_back(outcome);
        }
    }
}

/// Makes the coordinators of groups, as the first request for one does.
pub(crate) fn make_coordinators(world: &mut World) {
    let request = FindCoordinatorRequest { coordinator_keys: vec!["any"], ..Default::default() };
    world.call(1, &request, 4);
}

/// The Metadata of a topic, from a node.
pub(crate) fn topic(world: &mut World, node: i32, name: &str) -> MetadataResponseTopic<'static> {
    let topics = Some(vec![MetadataRequestTopic { name: Some(name), ..Default::default() }]);
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    world.call(node, &request, 13).topics.remove(0)
}
