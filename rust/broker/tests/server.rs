//! The broker on TCP sockets: invalid frames, clients that disconnect, many clients, and faults on the bytes of
//! answers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use monedula_broker::control::Command;
use monedula_broker::server::{Broker, Clock};
use monedula_broker::settings::{Settings, TopicSpec};
use monedula_broker::{BrokerError, Direction, Effect, Fault, NodeId, Selector, Side};
use monedula_protocol::api::{ApiKey, Request};
use monedula_protocol::frame::{correlation_id, decode_response, encode_request};
use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::metadata::MetadataRequest;
use serde_json::Value;

/// The time that a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn broker_with(change: impl FnOnce(&mut Settings)) -> Broker {
    let topics = vec![TopicSpec { name: "orders".to_owned(), partitions: Some(1) }];
    let mut settings = Settings { topics, ..Settings::default() };
    change(&mut settings);
    Broker::start(settings, Clock::system()).unwrap()
}

fn broker() -> Broker {
    broker_with(|_| ())
}

struct Client(TcpStream);

impl Client {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn of(broker: &Broker) -> Self {
        Self::to(broker.addresses()[0].1)
    }

    fn send<'q, R: Request<'q>>(&mut self, request: &R, version: i16, correlation_id: i32) {
        self.0.write_all(&encode_request(request, version, correlation_id, Some("raw")).unwrap()).unwrap();
    }

    /// Reads an answer, without its length field.
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.0.read_exact(&mut frame)?;
        Ok(frame)
    }

    fn is_served(&mut self) -> bool {
        self.send(&ApiVersionsRequest::default(), 0, 7);
        self.receive().is_ok_and(|frame| correlation_id(&frame) == Ok(7))
    }

    /// True if the other side has closed or reset the connection.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

fn long_poll<'a>(max_wait_ms: i32) -> FetchRequest<'a> {
    let partition = FetchPartition { fetch_offset: 0, partition_max_bytes: 1 << 20, ..Default::default() };
    let topics = vec![FetchTopic { topic: "orders", partitions: vec![partition], ..Default::default() }];
    FetchRequest { max_wait_ms, min_bytes: 1, max_bytes: 1 << 20, topics, ..Default::default() }
}

/// Waits until the broker's connections satisfy a condition.
fn wait_for_connections(broker: &Broker, is_so: impl Fn(&[Value]) -> bool) {
    let until = Instant::now() + PATIENCE;
    loop {
        let connections = broker.control(Command::Connections {}).unwrap();
        if is_so(connections.as_array().unwrap()) {
            return;
        }
        assert!(Instant::now() < until, "{connections}");
        std::thread::yield_now();
    }
}

fn fault(api: ApiKey, what: Effect) -> Fault {
    let when = Selector { apis: vec![api.name().to_owned()], ..Selector::default() };
    Fault { when, what, count: Some(1), ..Fault::default() }
}

// req: S177
#[test]
fn a_frame_of_a_wrong_length_closes_its_connection_and_no_other() {
    let broker = broker();
    let mut other = Client::of(&broker);
    for length in [-1i32, i32::MIN, i32::MAX, 104_857_601] {
        let mut client = Client::of(&broker);
        assert!(client.is_served());
        client.0.write_all(&length.to_be_bytes()).unwrap();
        assert!(client.is_closed(), "{length}");
    }
    for garbage in [&[0, 0, 0, 0][..], &[0, 0, 0, 2, 0, 18], &[0, 0, 0, 4, 0xff, 0xff, 0, 0], b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut client = Client::of(&broker);
        client.0.write_all(garbage).unwrap();
        assert!(client.is_closed(), "{garbage:?}");
    }
    assert!(other.is_served() && Client::of(&broker).is_served());
}

#[test]
fn a_request_may_come_in_pieces_and_several_at_once() {
    let broker = broker();
    let mut client = Client::of(&broker);
    let frame = encode_request(&ApiVersionsRequest::default(), 0, 7, None).unwrap();
    for byte in &frame {
        client.0.write_all(&[*byte]).unwrap();
    }
    assert_eq!(correlation_id(&client.receive().unwrap()), Ok(7));
    let many: Vec<u8> =
        (0..100).flat_map(|id| encode_request(&ApiVersionsRequest::default(), 0, id, None).unwrap()).collect();
    client.0.write_all(&many).unwrap();
    for id in 0..100 {
        assert_eq!(correlation_id(&client.receive().unwrap()), Ok(id));
    }
}

// req: S151
#[test]
fn requests_of_a_connection_are_worked_on_one_after_the_other() {
    let broker = broker();
    let fetches = broker.fault(Fault { count: None, ..fault(ApiKey::Fetch, Effect::Observe) }).unwrap();
    let behind = broker.fault(Fault { count: None, ..fault(ApiKey::ApiVersions, Effect::Observe) }).unwrap();
    let mut client = Client::of(&broker);
    client.send(&long_poll(60_000), 11, 1);
    client.send(&ApiVersionsRequest::default(), 0, 2);
    assert!(fetches.wait(1, PATIENCE).unwrap());
    // Other connections are served meanwhile.
    assert!(Client::of(&broker).is_served());
    assert_eq!(behind.hits().unwrap(), 1);
    let record = serde_json::from_str(r#"{"value": "v"}"#).unwrap();
    let append = Command::Append { topic: "orders".to_owned(), partition: 0, records: vec![record], compression: None };
    broker.control(append).unwrap();
    let first = client.receive().unwrap();
    assert_eq!(correlation_id(&first), Ok(1));
    assert!(decode_response::<FetchRequest<'_>>(&first, 11).unwrap().responses[0].partitions[0].records.is_some());
    assert_eq!(correlation_id(&client.receive().unwrap()), Ok(2));
    assert_eq!(behind.hits().unwrap(), 2);
}

#[test]
fn a_client_that_goes_while_its_fetch_waits_is_noticed() {
    let broker = broker();
    let fetches = broker.fault(fault(ApiKey::Fetch, Effect::Observe)).unwrap();
    let mut client = Client::of(&broker);
    client.send(&long_poll(i32::MAX), 11, 1);
    assert!(fetches.wait(1, PATIENCE).unwrap());
    wait_for_connections(&broker, |all| {
        all.len() == 1 && all[0]["waits_for"] == "Fetch" && all[0]["client_id"] == "raw"
    });
    drop(client);
    wait_for_connections(&broker, <[Value]>::is_empty);
}

#[test]
fn an_idle_connection_is_closed_and_a_waiting_one_is_not() {
    let broker = broker_with(|settings| settings.kafka.connections_max_idle_ms = 100);
    let mut waiting = Client::of(&broker);
    waiting.send(&long_poll(1000), 11, 1);
    let mut idle = Client::of(&broker);
    assert!(idle.is_closed());
    assert_eq!(correlation_id(&waiting.receive().unwrap()), Ok(1));
}

#[test]
fn a_thousand_idle_and_two_hundred_busy_connections_hold() {
    let broker = broker();
    let idle: Vec<Client> = (0..1000).map(|_| Client::of(&broker)).collect();
    let mut busy: Vec<Client> = (0..200).map(|_| Client::of(&broker)).collect();
    for id in 0..20 {
        for client in &mut busy {
            client.send(&MetadataRequest { topics: None, ..Default::default() }, 9, id);
        }
        for client in &mut busy {
            assert_eq!(correlation_id(&client.receive().unwrap()), Ok(id));
        }
    }
    wait_for_connections(&broker, |all| all.len() == 1200);
    assert!(idle.into_iter().all(|mut client| client.is_served()));
    drop(busy);
    wait_for_connections(&broker, <[Value]>::is_empty);
}

#[test]
fn a_node_that_stops_closes_its_port_and_comes_back_to_it() {
    let broker = broker_with(|settings| settings.nodes = 2);
    let [(first, one), (_, two)] = broker.addresses()[..] else { panic!() };
    let (mut to_one, mut to_two) = (Client::to(one), Client::to(two));
    assert!(to_one.is_served());
    broker.control(Command::StopNode { node: first }).unwrap();
    assert!(to_one.is_closed() && to_two.is_served());
    assert!(TcpStream::connect(one).is_err());
    let error = broker.control(Command::StopNode { node: first }).unwrap_err();
    assert_eq!(error.to_string(), "node 1 is not alive; start it first");
    broker.control(Command::StartNode { node: first }).unwrap();
    assert!(Client::to(one).is_served());
}

#[test]
fn the_bytes_of_an_answer_are_cut_split_or_lost() {
    let broker = broker();
    let plain = {
        let mut client = Client::of(&broker);
        client.send(&ApiVersionsRequest::default(), 0, 7);
        client.receive().unwrap()
    };
    let ask = |what| {
        broker.fault(fault(ApiKey::ApiVersions, what)).unwrap();
        let mut client = Client::of(&broker);
        client.send(&ApiVersionsRequest::default(), 0, 7);
        client
    };
    let mut cut = ask(Effect::Truncate { bytes: 10 });
    let mut received = Vec::new();
    cut.0.read_to_end(&mut received).unwrap();
    assert_eq!(received[4..], plain[..6]);
    let mut split = ask(Effect::Fragment { bytes: 16, pause_ms: 1 });
    assert_eq!(split.receive().unwrap(), plain);
    assert!(split.is_served());
    let mut reset = ask(Effect::Reset);
    assert_eq!(reset.0.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(ask(Effect::Close).is_closed());
    let mut corrupt = ask(Effect::Corrupt { offset: Some(8), bytes: 1 });
    let received = corrupt.receive().unwrap();
    assert_eq!((received[8], received.len()), (!plain[8], plain.len()));
}

#[test]
fn a_black_hole_keeps_the_connection_open_until_it_is_removed() {
    let broker = broker();
    for way in [Direction::Requests, Direction::Answers, Direction::Both] {
        let fault = broker.fault(fault(ApiKey::ApiVersions, Effect::BlackHole { way })).unwrap();
        let mut client = Client::of(&broker);
        client.send(&ApiVersionsRequest::default(), 0, 7);
        assert!(fault.wait(1, PATIENCE).unwrap());
        // When another client has an answer, this one would have received its own.
        assert!(Client::of(&broker).is_served());
        client.0.set_nonblocking(true).unwrap();
        assert_eq!(client.0.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "{way:?}");
        client.0.set_nonblocking(false).unwrap();
        fault.remove().unwrap();
        assert!(client.is_closed(), "{way:?}");
    }
}

#[test]
fn a_throttled_connection_is_not_read_for_that_time() {
    let broker = broker();
    broker.fault(fault(ApiKey::Metadata, Effect::Throttle { ms: 300 })).unwrap();
    let mut client = Client::of(&broker);
    let sent = Instant::now();
    client.send(&MetadataRequest { topics: None, ..Default::default() }, 9, 1);
    let frame = client.receive().unwrap();
    assert_eq!(decode_response::<MetadataRequest<'_>>(&frame, 9).unwrap().throttle_time_ms, 300);
    assert!(client.is_served());
    assert!(sent.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_handle_waits_releases_and_removes() {
    let broker = broker();
    let hold = Fault { on: Some(Side::Answer), ..fault(ApiKey::ApiVersions, Effect::Hold) };
    let hold = broker.fault(hold).unwrap();
    assert!(!hold.wait(1, Duration::from_millis(1)).unwrap());
    let mut client = Client::of(&broker);
    client.send(&ApiVersionsRequest::default(), 0, 7);
    assert!(hold.wait(1, PATIENCE).unwrap());
    hold.release().unwrap();
    assert_eq!(correlation_id(&client.receive().unwrap()), Ok(7));
    assert_eq!(hold.remove().unwrap(), 1);
}

#[test]
fn a_client_in_memory_is_served_like_any_other() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let broker = broker();
    let mut stream = broker.connect(NodeId(1), 64);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        stream.write_all(&encode_request(&ApiVersionsRequest::default(), 0, 7, None).unwrap()).await.unwrap();
        let length = stream.read_i32().await.unwrap();
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut frame).await.unwrap();
        assert_eq!(correlation_id(&frame), Ok(7));
    });
}

#[test]
fn the_control_port_answers_commands_and_shows_everyone_else_the_door() {
    let broker = broker_with(|settings| settings.control_port = Some(0));
    let address = broker.control_address().unwrap();
    assert!(address.ip().is_loopback());
    let talk = |line: &[u8]| {
        let mut client = Client::to(address);
        client.0.write_all(line).unwrap();
        client.0.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.0.read_to_string(&mut answer).unwrap();
        answer
    };
    assert_eq!(
        talk(b"{\"command\": \"fault_hits\", \"fault\": 9}\n{\"command\": \"faults\"}\n"),
        concat!("{\"error\":\"there is no fault 9: it was removed, or never set\"}\n", "{\"ok\":[]}\n")
    );
    let nested = "[".repeat(100_000);
    for hostile in [
        &b"\n"[..],
        b"{}\n",
        b"POST / HTTP/1.1\r\n\r\n{\"command\": \"faults\"}\n",
        b"\xff\xfe\n",
        b"{\"command\": \"faults\", \"more\": 1}\n",
        b"{\"command\": \"faults\"",
        nested.as_bytes(),
    ] {
        let answer = talk(hostile);
        let lines: Vec<&str> = answer.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("{\"error\":\"this is no command"), "{answer}");
    }
    assert!(Client::of(&broker).is_served());
}

#[test]
fn a_port_in_use_and_a_stopped_broker_are_told() {
    let mut running = broker();
    let port = running.addresses()[0].1.port();
    let error = Broker::start(Settings { port, ..Settings::default() }, Clock::system()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")), "{error}");
    running.stop();
    assert!(matches!(running.control(Command::Faults { removed: false }), Err(BrokerError::Stopped)));
}
