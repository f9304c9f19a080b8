//! Connections against a listener in the test, which plays the broker.

use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use monedula_protocol::messages::heartbeat::HeartbeatRequest;
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataResponse};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::pending::LONGEST_THROTTLE;
use super::*;
use crate::budget::{Budget, Room};

const CAP: usize = 1024;

fn limits(request_timeout: Duration) -> Limits {
    Limits {
        client_id: "test".into(),
        request_timeout,
        max_idle: Duration::from_secs(60),
        receive_max_bytes: CAP,
        oversized: Arc::default(),
        pool: BufferPool::new(1 << 20),
        log: Log::default(),
        metrics: Metrics::default(),
    }
}

/// A connection and the broker's end of it.
async fn connected(limits: Limits) -> (Arc<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
    let (broker, _) = listener.accept().await.expect("accepts");
    (Arc::new(Connection::start(stream, "broker:1".into(), limits)), broker)
}

fn call(connection: &Arc<Connection>) -> tokio::task::JoinHandle<Reply> {
    let connection = connection.clone();
    tokio::spawn(async move { connection.call(&ApiVersionsRequest::default(), 0, Duration::ZERO).await })
}

/// Reads one request and returns its correlation id.
async fn request(broker: &mut TcpStream) -> i32 {
    let length = broker.read_i32().await.expect("a length");
    let mut frame = vec![0; usize::try_from(length).expect("not negative")];
    broker.read_exact(&mut frame).await.expect("a request");
    i32::from_be_bytes(frame[4..8].try_into().expect("four bytes"))
}

async fn answer(broker: &mut TcpStream, correlation_id: i32, body: &[u8]) {
    broker.write_i32(4 + body.len() as i32).await.expect("writes");
    broker.write_i32(correlation_id).await.expect("writes");
    broker.write_all(body).await.expect("writes");
}

/// The broker's end sees the connection closed.
async fn is_closed(broker: &mut TcpStream) -> bool {
    tokio::time::timeout(Duration::from_secs(10), broker.read_u8()).await.is_ok_and(|read| read.is_err())
}

/// As [`call`], of an API that may have large answers.
fn call_metadata(connection: &Arc<Connection>) -> tokio::task::JoinHandle<Reply> {
    let connection = connection.clone();
    tokio::spawn(async move { connection.call(&MetadataRequest::default(), 9, Duration::ZERO).await })
}

#[tokio::test]
async fn pipelined_requests_get_their_own_answers() {
    let (connection, mut broker) = connected(limits(Duration::from_secs(30))).await;
    let first = call(&connection);
    let first_id = request(&mut broker).await;
    let second = call(&connection);
    let second_id = request(&mut broker).await;
    answer(&mut broker, first_id, b"one").await;
    answer(&mut broker, second_id, b"two").await;
    assert_eq!(&first.await.expect("joins").expect("answered").as_slice()[4..], b"one");
    assert_eq!(&second.await.expect("joins").expect("answered").as_slice()[4..], b"two");
}

#[tokio::test]
async fn a_cancelled_waiter_leaves_the_connection_to_others() {
    let (connection, mut broker) = connected(limits(Duration::from_secs(30))).await;
    let cancelled = call(&connection);
    let cancelled_id = request(&mut broker).await;
    cancelled.abort();
    assert!(cancelled.await.expect_err("aborted").is_cancelled());
    let waiting = call(&connection);
    let waiting_id = request(&mut broker).await;
    answer(&mut broker, cancelled_id, b"too late").await;
    answer(&mut broker, waiting_id, b"in time").await;
    assert_eq!(&waiting.await.expect("joins").expect("answered").as_slice()[4..], b"in time");
    assert!(!connection.is_closed());
}

#[tokio::test]
async fn an_answer_that_is_overdue_closes_the_connection() {
    let (connection, mut broker) = connected(limits(Duration::from_millis(50))).await;
    let waiting = call(&connection);
    request(&mut broker).await;
    let error = waiting.await.expect("joins").expect_err("overdue");
    assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
    // Reset: what was not sent yet is not sent any more.
    let ended = tokio::time::timeout(Duration::from_secs(30), broker.read_u8()).await.expect("it ends");
    assert_eq!(ended.expect_err("it ends").kind(), std::io::ErrorKind::ConnectionReset);
    assert!(connection.is_closed());
}

#[tokio::test]
async fn an_unexpected_correlation_id_closes_the_connection_and_says_so() {
    let (connection, mut broker) = connected(limits(Duration::from_secs(30))).await;
    let waiting = call(&connection);
    let id = request(&mut broker).await;
    answer(&mut broker, id + 1000, b"").await;
    let error = waiting.await.expect("joins").expect_err("mismatch");
    assert!(error.to_string().contains(&(id + 1000).to_string()), "{error}");
    assert!(is_closed(&mut broker).await);
}

#[tokio::test]
async fn a_frame_beyond_the_cap_closes_the_connection_before_it_is_read() {
    for length in [CAP as i32 + 1, i32::MAX, -1, 0] {
        let limits = limits(Duration::from_secs(30));
        let gauge = limits.pool.gauge();
        let (connection, mut broker) = connected(limits).await;
        let waiting = call(&connection);
        request(&mut broker).await;
        broker.write_i32(length).await.expect("writes");
        assert!(waiting.await.expect("joins").is_err(), "{length}");
        assert!(is_closed(&mut broker).await, "{length}");
        assert_eq!(gauge.outstanding_bytes(), 0, "{length}");
    }
}

#[tokio::test]
async fn a_broker_that_hangs_up_ends_every_wait() {
    let (connection, mut broker) = connected(limits(Duration::from_secs(30))).await;
    let waits = [call(&connection), call(&connection)];
    request(&mut broker).await;
    request(&mut broker).await;
    drop(broker);
    for waiting in waits {
        let error = waiting.await.expect("joins").expect_err("hung up");
        assert!(matches!(error, RequestError::Disconnected { .. }), "{error}");
    }
    let error = call(&connection).await.expect("joins").expect_err("closed");
    assert!(matches!(error, RequestError::Disconnected { .. }), "{error}");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let limits = Limits { max_idle: Duration::from_millis(30), ..limits(Duration::from_secs(30)) };
    let (connection, mut broker) = connected(limits).await;
    assert!(is_closed(&mut broker).await);
    assert!(connection.is_closed());
}

#[test]
fn a_connection_whose_runtime_ends_leaves_nobody_waiting() {
    let [theirs, ours] = [(); 2].map(|()| tokio::runtime::Runtime::new().expect("a runtime"));
    let (connection, mut broker) = theirs.block_on(connected(limits(Duration::from_secs(3600))));
    let waiting = {
        let _entered = ours.enter();
        call(&connection)
    };
    theirs.block_on(request(&mut broker));
    theirs.shutdown_background();
    ours.block_on(async {
        let reply = tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("in time").expect("joins");
        assert!(reply.expect_err("nobody reads it").to_string().contains("task ended"));
        assert!(connection.is_closed());
    });
}

#[tokio::test]
async fn a_panic_of_the_task_is_told_to_all_who_wait() {
    let (connection, mut broker) = connected(limits(Duration::from_secs(3600))).await;
    let waits = [call(&connection), call(&connection)];
    request(&mut broker).await;
    request(&mut broker).await;
    let ending = Ending(connection.shared.clone());
    let panicked = tokio::spawn(async move {
        let _ending = ending;
        std::panic::resume_unwind(Box::new("memory that cannot be had"))
    });
    let _: tokio::task::JoinError = panicked.await.map(|(): ()| ()).expect_err("it panics");
    for waiting in waits {
        let error = waiting.await.expect("joins").expect_err("the task is gone");
        assert!(error.to_string().contains("panicked"), "{error}");
    }
    assert!(connection.is_closed() && connection.ended_at().is_some());
    assert!(call(&connection).await.expect("joins").is_err(), "later ones are told at once");
}

#[tokio::test]
async fn a_request_that_cannot_be_written_in_its_time_closes_the_connection() {
    let (connection, _broker) = connected(limits(Duration::from_millis(200))).await;
    // Nobody reads at the other end: what does not fit into the system's buffers is never written.
    let send = |bytes: usize| {
        let encode = |_, _: &str| Ok(vec![0; bytes]);
        connection.send(ApiKey::Produce, 9, Expected::default(), false, encode).expect("is queued")
    };
    let (small, large) = (send(10), send(256 << 20));
    let behind = send(10);
    assert!(connection.reply(small).await.expect("is written").is_empty());
    assert!(connection.has_served());
    for reply in [large, behind] {
        let reply = tokio::time::timeout(Duration::from_secs(60), connection.reply(reply)).await.expect("in time");
        assert!(matches!(reply, Err(RequestError::TimedOut { .. })), "{reply:?}");
    }
    assert!(connection.is_closed());
}

#[tokio::test]
async fn an_answer_whose_length_was_damaged_once_is_asked_for_again() {
    let limits = limits(Duration::from_secs(30));
    for _ in 0..2 {
        let (connection, mut broker) = connected(limits.clone()).await;
        let asked = call_metadata(&connection);
        let id = request(&mut broker).await;
        answer(&mut broker, id, &[0; 16]).await;
        asked.await.expect("joins").expect("an answer");
        let asked = call_metadata(&connection);
        let id = request(&mut broker).await;
        broker.write_i32(i32::MAX).await.expect("writes");
        broker.write_i32(id).await.expect("writes");
        let error = asked.await.expect("joins").expect_err("too large");
        assert!(matches!(error, RequestError::Wire { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_never_large_is_asked_for_again_however_often_its_length_is_damaged() {
    let limits = limits(Duration::from_secs(30));
    for _ in 0..3 {
        let (connection, mut broker) = connected(limits.clone()).await;
        let call = tokio::spawn(async move { connection.call(&HeartbeatRequest::default(), 4, Duration::ZERO).await });
        let id = request(&mut broker).await;
        broker.write_i32(i32::MAX).await.expect("writes");
        broker.write_i32(id).await.expect("writes");
        let error = call.await.expect("joins").expect_err("too large");
        assert!(matches!(error, RequestError::Wire { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_again_is_told_with_the_setting_to_the_one_who_asked() {
    let limits = limits(Duration::from_secs(30));
    let (connection, mut broker) = connected(limits.clone()).await;
    let asked = call_metadata(&connection);
    let id = request(&mut broker).await;
    broker.write_i32(CAP as i32 + 1).await.expect("writes");
    broker.write_i32(id).await.expect("writes");
    asked.await.expect("joins").expect_err("too large");
    let (connection, mut broker) = connected(limits).await;
    let first = call_metadata(&connection);
    let first_id = request(&mut broker).await;
    let behind = call_metadata(&connection);
    request(&mut broker).await;
    broker.write_i32(CAP as i32 + 1).await.expect("writes");
    broker.write_i32(first_id).await.expect("writes");
    let error = first.await.expect("joins").expect_err("too large");
    let RequestError::Fatal(error) = error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains("receive.message.max.bytes (1024)") && text.contains("1025 bytes"), "{text}");
    assert!(text.contains("broker:1") && text.contains("Metadata"), "{text}");
    let error = behind.await.expect("joins").expect_err("the connection is closed");
    assert!(matches!(error, RequestError::Wire { .. }), "those behind may ask again: {error}");
    assert!(is_closed(&mut broker).await);
}

#[tokio::test]
async fn an_answer_without_room_waits_unread_and_no_deadline_counts_meanwhile() {
    let short = Duration::from_millis(100);
    let budget = Budget::new(100);
    let expected = Expected { room: Some(Room { budget: budget.clone(), kept_bytes: 10 }), ..Default::default() };
    let call = |connection: &Arc<Connection>| {
        let (connection, expected) = (connection.clone(), expected.clone());
        tokio::spawn(async move { connection.call(&MetadataRequest::default(), 9, expected).await })
    };
    let limits = limits(short);
    let gauge = limits.pool.gauge();
    let mut held = Vec::new();
    let mut brokers = Vec::new();
    for _ in 0..2 {
        let (connection, mut broker) = connected(limits.clone()).await;
        let waiting = call(&connection);
        let id = request(&mut broker).await;
        answer(&mut broker, id, &[7; 500]).await;
        held.push((waiting, connection));
        brokers.push(broker);
    }
    let (second, connection) = held.pop().expect("two");
    let (first, _connection) = held.pop().expect("two");
    let first = first.await.expect("joins").expect("one is read beyond the budget");
    tokio::time::timeout(Duration::from_secs(60), budget.awaited()).await.expect("the other waits");
    let read_bytes = gauge.outstanding_bytes();
    // Several deadlines pass elsewhere.
    for _ in 0..3 {
        let (other, mut broker) = connected(limits.clone()).await;
        let overdue = call_metadata(&other);
        request(&mut broker).await;
        assert!(matches!(overdue.await.expect("joins"), Err(RequestError::TimedOut { .. })));
    }
    assert!(!connection.is_closed() && !second.is_finished());
    assert_eq!(gauge.outstanding_bytes(), read_bytes, "nothing of the second is read");
    drop(first);
    assert_eq!(&second.await.expect("joins").expect("there is room").as_slice()[4..], [7; 500]);
    // Later requests have a deadline again.
    let waiting = call(&connection);
    request(&mut brokers[1]).await;
    assert!(matches!(waiting.await.expect("joins"), Err(RequestError::TimedOut { .. })));
}

#[tokio::test]
async fn a_length_that_belongs_to_no_answer_blames_no_setting() {
    for (length, of_another) in [(CAP as i32 + 1, 7), (-5, 0), (0, 0)] {
        let (connection, mut broker) = connected(limits(Duration::from_secs(30))).await;
        let waiting = call_metadata(&connection);
        let id = request(&mut broker).await;
        broker.write_i32(length).await.expect("writes");
        // Where the length is none, it is closed before this comes.
        let _ = broker.write_i32(id + of_another).await;
        let error = waiting.await.expect("joins").expect_err("no answer");
        assert!(matches!(error, RequestError::Wire { .. }), "{length}: {error}");
    }
}

#[tokio::test]
async fn a_broker_may_ask_for_a_pause_and_not_for_an_endless_one() {
    let (connection, mut broker) = connected(limits(Duration::from_secs(30))).await;
    let told = |throttle_time_ms: i32| {
        let response = MetadataResponse { throttle_time_ms, ..Default::default() };
        frame::encode_response::<MetadataRequest<'_>>(&response, 9, 0).expect("encodes")
    };
    for (throttle_time_ms, expected) in [
        (0, None),
        (-1, None),
        (5_000, Some(Duration::from_secs(5))),
        (i32::MAX, Some(LONGEST_THROTTLE)),
        (1, Some(LONGEST_THROTTLE)),
    ] {
        let waiting = call_metadata(&connection);
        let id = request(&mut broker).await;
        let frame = told(throttle_time_ms);
        let before = Instant::now();
        answer(&mut broker, id, &frame[8..]).await;
        waiting.await.expect("joins").expect("answered");
        match (connection.throttled_until(), expected) {
            (None, None) => {}
            // A shorter pause does not end a longer one.
            (Some(until), Some(expected)) => {
                assert!(until <= Instant::now() + expected && until + LONGEST_THROTTLE > before + expected)
            }
            other => panic!("{throttle_time_ms}: {other:?}"),
        }
    }
}
