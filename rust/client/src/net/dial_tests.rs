//! Names with several addresses, some of which lead nowhere.

use std::net::Ipv4Addr;
use std::time::Instant;

use tokio::net::TcpListener;

use super::*;

/// No test lasts so long: what is given up after it is given up too late.
const TOO_LATE: Duration = Duration::from_secs(60);

const DIALER: Dialer = Dialer { timeout: TOO_LATE, receive_buffer_bytes: None };

/// An address that swallows connections: its listener's queue is full, and what comes is dropped without a word.
struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

async fn black_hole() -> BlackHole {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("binds");
    let listener = socket.listen(1).expect("listens");
    let address = listener.local_addr().expect("bound");
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await {
        queued.push(stream.expect("is queued"));
        assert!(queued.len() < 100, "the queue takes everything");
    }
    BlackHole { address, _listener: listener, _queued: queued }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// An address that nothing listens at.
async fn refusing() -> SocketAddr {
    listener().await.1
}

#[tokio::test]
async fn an_address_that_leads_nowhere_does_not_keep_the_next_one_waiting() {
    let (holes, (_listener, alive)) = ([black_hole().await, black_hole().await], listener().await);
    for addresses in [
        vec![holes[0].address, alive],
        vec![holes[0].address, holes[1].address, alive],
        vec![refusing().await, holes[0].address, refusing().await, alive],
        vec![alive, holes[0].address],
    ] {
        let dialed = tokio::time::timeout(TOO_LATE / 2, DIALER.dial_any(addresses.clone())).await;
        let stream = dialed.expect("in time").expect("connects");
        assert_eq!(stream.peer_addr().expect("connected"), alive, "{addresses:?}");
    }
}

#[tokio::test]
async fn each_address_has_its_own_deadline_and_is_named_with_what_happened_there() {
    let (hole, refusing) = (black_hole().await, refusing().await);
    let dialer = Dialer { timeout: Duration::from_millis(400), ..DIALER };
    let before = Instant::now();
    // The first one's time is over before that of the second: which has its own all the same.
    let reasons = dialer.dial_any(vec![hole.address, hole.address, refusing]).await.expect_err("nobody answers");
    assert!(before.elapsed() >= HEAD_START + dialer.timeout);
    assert_eq!(reasons.matches("no connection within 400 ms").count(), 2, "{reasons}");
    assert!(reasons.contains(&refusing.to_string()) && reasons.contains("refused"), "{reasons}");
    // A single address goes by the broker's name.
    let reason = DIALER.dial("127.0.0.1", refusing.port()).await.expect_err("refused");
    assert!(!reason.contains("127.0.0.1"), "{reason}");
}

#[tokio::test]
async fn the_system_asks_whether_a_silent_broker_is_still_there() {
    let (_listener, alive) = listener().await;
    let stream = DIALER.dial("127.0.0.1", alive.port()).await.expect("connects");
    assert!(stream.nodelay().expect("a socket"));
    let socket = SockRef::from(&stream);
    assert!(socket.keepalive().expect("a socket"));
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_keepalive_time().expect("a socket"), KEEPALIVE_IDLE);
}
