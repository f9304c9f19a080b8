//! Proxies that a listener in the test plays, byte by byte, and URLs of proxies. Connections of whole clients through
//! real ones are in `tests/security/test_proxies.py`.

use std::time::Duration;

use tokio::net::TcpListener;

use super::*;
use crate::error::ClientError;

const DIALER: Dialer = Dialer { timeout: Duration::from_secs(30), receive_buffer_bytes: None };

fn proxy(url: &str) -> Proxy {
    Proxy::parse(url).unwrap_or_else(|error| panic!("{error}"))
}

/// Dials through a proxy that says these bytes, whatever it hears. Returns what it has heard too.
async fn dial(scheme: &str, login: &str, says: &[u8], host: &str) -> (Result<TcpStream, RequestError>, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    let says = says.to_vec();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepts");
        // A client that has heard enough hangs up.
        let _ = stream.write_all(&says).await;
        let _ = stream.shutdown().await;
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        heard
    });
    let dialled = proxy(&format!("{scheme}://{login}{address}")).dial(DIALER, (host, 9092), "kafka.invalid:9092").await;
    let dialled = dialled.map_err(|error| {
        assert!(error.to_string().contains(&format!("{scheme}://{address}")), "{error}");
        assert!(error.to_string().contains("kafka.invalid:9092"), "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
        error
    });
    let dialled = match dialled {
        Ok(mut stream) => {
            stream.shutdown().await.expect("ends");
            Ok(stream)
        }
        Err(error) => Err(error),
    };
    (dialled, serving.await.expect("served"))
}

#[test]
fn urls_are_read_and_no_text_has_the_password() {
    let given = proxy("socks5h://anna:can%40ary@proxy.example:1080/");
    assert_eq!(given.to_string(), "socks5h://proxy.example:1080");
    assert_eq!(given.login, Some(("anna".into(), "can@ary".into())));
    assert!(!format!("{given:?} {given} {:?}", given.of_http()).contains("ary"));
    assert_eq!(proxy("http://[::1]:3128").to_string(), "http://[::1]:3128");
    assert_eq!(given.of_http().expect("one").password(), Some("can@ary"));
}

#[test]
fn what_is_no_url_of_a_proxy_is_refused_without_its_text() {
    for url in [
        "",
        "canary",
        "canary:1080",
        "socks5h://canary",
        "socks5h://canary:0",
        "socks5h://canary:99999",
        "socks5h://canary:1080/path",
        "socks5h://canary:1080?query",
        "socks5h://user:@canary:1080",
        "socks5h://us%3Aer:canary@h:1080",
        "http://us%3Aer:canary@h:1080",
        "socks4://canary:1080",
        "https://canary:1080",
        "ftp://canary:21",
        "socks5h://user:can/ary@h:1080",
    ] {
        let error = Proxy::parse(url).expect_err(url);
        assert!(!error.contains("canary"), "{url}: {error}");
    }
}

#[tokio::test]
async fn socks_gives_the_name_of_the_broker_to_the_proxy() {
    let says = [&[5, 2][..], &[1, 0], &[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]].concat();
    let (dialled, heard) = dial("socks5h", "anna:canary@", &says, "kafka.invalid").await;
    dialled.expect("connected");
    let expected =
        [&[5, 2, 0, 2][..], b"\x01\x04anna\x06canary", b"\x05\x01\x00\x03\x0dkafka.invalid", &9092_u16.to_be_bytes()];
    assert_eq!(heard, expected.concat());
}

#[tokio::test]
async fn an_address_is_given_as_one() {
    let says = [&[5, 0][..], &[5, 0, 0, 3, 2, b'h', b'i', 0, 80]].concat();
    let (dialled, heard) = dial("socks5", "", &says, "10.1.2.3").await;
    dialled.expect("connected");
    assert_eq!(heard, [&[5, 1, 0][..], &[5, 1, 0, 1, 10, 1, 2, 3], &9092_u16.to_be_bytes()].concat());
    let (dialled, heard) = dial("http", "anna:canary@", b"HTTP/1.1 200 OK\r\n\r\n", "fd00::1").await;
    dialled.expect("connected");
    let expected = "CONNECT [fd00::1]:9092 HTTP/1.1\r\nHost: [fd00::1]:9092\r\n\
                    Proxy-Authorization: Basic YW5uYTpjYW5hcnk=\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&heard), expected);
}

#[tokio::test]
async fn a_refused_login_is_final() {
    for (scheme, login, says) in [
        ("socks5h", "anna:canary@", [&[5, 2][..], &[1, 1]].concat()),
        ("socks5h", "anna:canary@", vec![5, 0xff]),
        ("socks5h", "", vec![5, 0xff]),
        ("http", "anna:canary@", b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno".to_vec()),
        ("http", "", b"HTTP/1.0 407\r\n\r\n".to_vec()),
        ("http", "anna:canary@", b"HTTP/1.0 401 Unauthorized\r\n\r\n".to_vec()),
    ] {
        let (dialled, _) = dial(scheme, login, &says, "kafka.invalid").await;
        let Err(RequestError::Fatal(error)) = dialled else { panic!("{scheme} {login}: {dialled:?}") };
        assert!(matches!(*error, ClientError::Authentication(_)), "{error}");
        assert!(error.to_string().contains("proxy.url"), "{error}");
        if scheme == "http" {
            let status = String::from_utf8_lossy(&says[9..12]).into_owned();
            assert!(error.to_string().contains(&format!("(it answered {status}")), "{error}");
        }
    }
}

#[tokio::test]
async fn a_status_line_is_shown_in_one_short_line_and_without_the_login() {
    for (phrase, shown) in [
        (&b"Fo\x07rb\x1b[2Ji\ndden"[..], "403 Forb[2Jidden to CONNECT"),
        (b"canary is wrong", "answered 403 to CONNECT"),
        (b"ca\x00nary is wrong", "answered 403 to CONNECT"),
        (b"YW5uYTpjYW5hcnk= is wrong", "answered 403 to CONNECT"),
        (b"", "answered 403 to CONNECT"),
    ] {
        let says = [b"HTTP/1.1 403 ", phrase, b"\r\n\r\n"].concat();
        let (dialled, _) = dial("http", "anna:canary@", &says, "kafka.invalid").await;
        let error = dialled.expect_err("refused").to_string();
        assert!(error.contains(shown), "{error}");
        assert!(!error.contains(char::is_control) && !error.contains("YW5u"), "{error}");
        assert!(error.contains("its rules do not allow this connection"), "{error}");
    }
    let says = [&b"HTTP/1.1 403 "[..], &b"x".repeat(MAX_HEAD_BYTES - 100), b"\r\n\r\n"].concat();
    let (dialled, _) = dial("http", "anna:canary@", &says, "kafka.invalid").await;
    let error = dialled.expect_err("refused").to_string();
    assert!(error.contains(&format!("403 {} to CONNECT", "x".repeat(MAX_STATUS - 4))), "{error}");
}

#[tokio::test]
async fn a_proxy_that_says_something_else_is_named_and_tried_again() {
    let long = [&b"HTTP/1.1 200 OK\r\n"[..], &b"x".repeat(MAX_HEAD_BYTES * 2)].concat();
    for (scheme, says, told) in [
        ("socks5h", &[][..], "before it answered"),
        ("socks5h", &[5], "before it answered"),
        ("socks5h", b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak SOCKS5"),
        ("socks5h", &[5, 2], "does not speak SOCKS5"),
        ("socks5h", &[5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0], "the host is unreachable (4)"),
        ("socks5h", &[5, 0, 5, 99, 0, 1], "an unknown error (99)"),
        ("socks5h", &[5, 0, 5, 0, 0, 9], "does not speak SOCKS5"),
        ("socks5h", &[5, 0, 5, 0, 0, 4, 1], "before it answered"),
        ("http", b"", "before it answered"),
        ("http", b"HTTP/1.1 200 OK\r\n", "before it answered"),
        ("http", &[5, 0], "does not speak HTTP"),
        ("http", b"HTTP/1.1 403 Forbidden\r\n\r\n<html>", "403 Forbidden to CONNECT kafka.invalid:9092"),
        (
            "http",
            b"HTTP/1.1 502 No Way\r\n\r\n",
            "502 No Way to CONNECT kafka.invalid:9092: it does not reach the broker",
        ),
        ("http", b"HTTP/1.1 405 No\r\n\r\n", "405 No to CONNECT kafka.invalid:9092: it has no such method"),
        ("http", b"HTTP/1.1 302 Found\r\n\r\n", "302 Found to CONNECT kafka.invalid:9092; check proxy.url"),
        ("http", b"HTTP/1.1 200 OK\r\n\r\nmore", "bytes that the broker has not"),
        ("http", b"HTTP/1.1\r\n\r\n", "it answered"),
        ("http", &long, "does not speak HTTP"),
    ] {
        let (dialled, _) = dial(scheme, "", says, "kafka.invalid").await;
        let Err(error @ RequestError::Disconnected { .. }) = dialled else { panic!("{told}: {dialled:?}") };
        assert!(error.to_string().contains(told), "{told}: {error}");
    }
}

#[tokio::test]
async fn a_name_with_a_line_break_is_not_sent_to_the_proxy() {
    for url in ["http://127.0.0.1:1", "socks5h://127.0.0.1:1"] {
        let dialled = proxy(url).dial(DIALER, ("h:1 HTTP/1.1\r\nX: y", 9092), "kafka.invalid:9092").await;
        let error = dialled.expect_err("refused");
        assert!(error.to_string().contains("no name of a host"), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_the_client_cannot_look_up_is_told_with_the_other_scheme() {
    let dialled = proxy("socks5://127.0.0.1:1").dial(DIALER, ("kafka.invalid", 9092), "kafka.invalid:9092").await;
    let error = dialled.expect_err("no such name");
    assert!(error.to_string().contains("socks5h:"), "{error}");
}
