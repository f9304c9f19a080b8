//! Connections against a listener in the test, which plays the broker.

use monedula_protocol::messages::api_versions::ApiVersionsRequest;
use tokio::net::TcpListener;

use super::*;

const CAP: usize = 1024;

fn limits(request_timeout: Duration) -> Limits {
    Limits {
        client_id: "test".into(),
        request_timeout,
        max_idle: Duration::from_secs(60),
        receive_max_bytes: CAP,
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

/// A request under way.
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
