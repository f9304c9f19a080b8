//! A registry of a few fixed answers on a port of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use monedula_columns::Lookup;

use super::{SchemaKey, SchemaKind, SchemaRegistry, SchemaResult, registry};
use crate::config_keys::Role;
use crate::config_values::{ConfigError, ConfigValues};

/// SchemaCache one request after the other with these, and returns the URL and the lines of the requests.
fn serve(answers: Vec<String>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, asked) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(&stream).lines();
            let first = lines.next().expect("a request").expect("a line");
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            sender.send(first).expect("the test goes on");
            (&stream).write_all(answer.as_bytes()).expect("the client reads");
        }
    });
    (url, asked)
}

fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn at(url: &str) -> Result<Arc<SchemaRegistry>, ConfigError> {
    let given = [
        ("bootstrap.servers", "x:1"),
        ("schema.registry.url", url),
        ("schema.registry.retries.wait.ms", "1"),
        ("schema.registry.max.retries", "2"),
    ];
    let values = ConfigValues::collect(given, Role::Consumer)?;
    Ok(registry(&values)?.expect("a URL is given"))
}

/// The registry's last answer.
fn asked(registry: &SchemaRegistry, key: SchemaKey) -> Lookup<SchemaResult> {
    asked_of(registry, key, None)
}

fn asked_of(registry: &SchemaRegistry, key: SchemaKey, subject: Option<&Arc<str>>) -> Lookup<SchemaResult> {
    asked_as(registry, key, subject, SchemaKind::Avro)
}

fn asked_as(
    registry: &SchemaRegistry,
    key: SchemaKey,
    subject: Option<&Arc<str>>,
    kind: SchemaKind,
) -> Lookup<SchemaResult> {
    let Lookup::Pending(awaited) = registry.ask(key, subject, kind) else { return registry.ask(key, subject, kind) };
    let (sender, arrived) = mpsc::channel();
    if awaited.then(move || sender.send(()).expect("the test waits")) {
        arrived.recv().expect("an answer");
    }
    registry.ask(key, subject, kind)
}

#[test]
fn a_schema_is_asked_for_once_and_again_only_after_errors_of_the_server() {
    let answers = [(503, ""), (429, "{}"), (200, r#"{"schema": "\"int\""}"#)];
    let (url, requests) = serve(answers.map(|(status, body)| answer(status, body)).to_vec());
    let registry = at(&url).expect("settings");
    for _ in 0..3 {
        let Lookup::Ready(Ok(schema)) = asked(&registry, SchemaKey::Id(7)) else { panic!("no schema") };
        assert_eq!(schema.text, "\"int\"");
    }
    assert_eq!(requests.iter().collect::<Vec<_>>(), vec!["GET /schemas/ids/7 HTTP/1.1"; 3]);
}

#[test]
fn a_guid_is_asked_for_as_it_is_written() {
    let (url, requests) = serve(vec![answer(404, r#"{"error_code": 40403, "message": "none"}"#)]);
    let registry = at(&url).expect("settings");
    let guid = SchemaKey::Guid(0x8979_1762_2336_4186_9674_299b_90a8_02e2);
    let Lookup::Ready(Err(why)) = asked(&registry, guid) else { panic!("an answer") };
    assert!(why.starts_with("schema GUID 89791762-2336-4186-9674-299b90a802e2: http://127.0.0.1:"), "{why}");
    assert!(why.ends_with("answered 404: 40403 none"), "{why}");
    let request = "GET /schemas/guids/89791762-2336-4186-9674-299b90a802e2 HTTP/1.1";
    assert_eq!(requests.iter().collect::<Vec<_>>(), [request]);
}

#[test]
fn references_in_a_circle_end() {
    let refers = |version: u32| {
        let body = format!(
            r#"{{"schema": "\"a{version}\"", "references": [{{"name": "a", "subject": "a", "version": {version}}}]}}"#
        );
        answer(200, &body)
    };
    let (url, requests) = serve(vec![refers(1), refers(2), refers(1)]);
    let registry = at(&url).expect("settings");
    let Lookup::Ready(Ok(schema)) = asked(&registry, SchemaKey::Id(1)) else { panic!("no schema") };
    assert_eq!(schema.reference_texts(), ["\"a1\"", "\"a2\""]);
    assert_eq!(requests.iter().count(), 3);
}

#[test]
fn an_answer_that_is_too_long_is_not_read() {
    let head = "HTTP/1.1 200 x\r\nContent-Length: 1000000000\r\n\r\n";
    let (url, _requests) = serve(vec![format!("{head}{}", "x".repeat(20 << 20))]);
    let registry = at(&url).expect("settings");
    let Lookup::Unavailable(why) = asked(&registry, SchemaKey::Id(1)) else { panic!("an answer") };
    assert!(why.contains("answered more than 16777216 bytes"), "{why}");
}

#[test]
fn no_password_of_a_url_is_shown() {
    let registry = at("http://me:hush@127.0.0.1:1/path/").expect("settings");
    assert!(!format!("{registry:?}").contains("hush"), "{registry:?}");
    let Lookup::Unavailable(why) = asked(&registry, SchemaKey::Id(1)) else { panic!("an answer") };
    assert!(why.contains("http://127.0.0.1:1/path/schemas/ids/1"), "{why}");
    assert!(!why.contains("hush"), "{why}");
    let error = at("http://me:hush@:x").expect_err("no URL");
    assert!(!error.message.contains("hush"), "{error}");
}

#[test]
fn a_subject_is_asked_for_as_it_is_written_and_its_references_in_its_context() {
    let latest =
        r#"{"id": 7, "version": 3, "schema": "\"a\"", "references": [{"name": "b", "subject": "b", "version": 1}]}"#;
    let (url, requests) = serve(vec![answer(200, latest), answer(200, r#"{"schema": "\"b\""}"#)]);
    let registry = at(&url).expect("settings");
    let found = registry.version(":.eu:a/b ü", None, SchemaKind::Avro).expect("a version");
    assert_eq!((found.id, found.version, found.schema.references), (7, 3, vec![("b".to_owned(), "\"b\"".to_owned())]));
    let expected = [
        "GET /subjects/%3A.eu%3Aa%2Fb%20%C3%BC/versions/latest HTTP/1.1",
        "GET /subjects/%3A.eu%3Ab/versions/1?deleted=true HTTP/1.1",
    ];
    assert_eq!(requests.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn an_id_of_a_context_is_asked_for_with_a_subject_of_it() {
    let (url, requests) =
        serve(vec![answer(200, r#"{"schema": "\"int\""}"#), answer(200, r#"{"schema": "\"long\""}"#)]);
    let registry = at(&url).expect("settings");
    let Lookup::Ready(Ok(schema)) = asked_of(&registry, SchemaKey::Id(1), Some(&":.eu:a".into())) else {
        panic!("no schema")
    };
    assert_eq!(schema.text, "\"int\"");
    // The id is not looked up under a subject in the default context: ids are unique in it.
    let Lookup::Ready(Ok(schema)) = asked_of(&registry, SchemaKey::Id(1), Some(&"a".into())) else {
        panic!("no schema")
    };
    assert_eq!(schema.text, "\"long\"");
    let expected = ["GET /schemas/ids/1?subject=%3A.eu%3Aa HTTP/1.1", "GET /schemas/ids/1 HTTP/1.1"];
    assert_eq!(requests.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_schema_of_another_language_is_none_for_who_expects_this_one() {
    let proto = r#"{"schemaType": "PROTOBUF", "schema": "message M {}"}"#;
    let (url, _requests) = serve(vec![answer(200, proto), answer(200, proto)]);
    let registry = at(&url).expect("settings");
    let Lookup::Ready(Err(why)) = asked(&registry, SchemaKey::Id(1)) else { panic!("an answer") };
    assert_eq!(why, "schema id 1 is a schema of type PROTOBUF, where Avro is expected");
    let Lookup::Ready(Ok(schema)) = asked_as(&registry, SchemaKey::Id(1), None, SchemaKind::Protobuf) else {
        panic!("no schema")
    };
    assert_eq!(schema.text, "message M {}");
}

#[test]
fn what_to_check_is_what_failed() {
    let told = super::http::advice;
    assert!(told("https://r:1/subjects: io: invalid peer certificate: UnknownIssuer").contains("ssl.ca.location"));
    assert!(
        told("https://r:1/subjects: io: received fatal alert: CertificateRequired")
            .contains("ssl.certificate.location")
    );
    let refused = told("https://r:1/subjects: io: received fatal alert: UnknownCA");
    assert!(refused.starts_with("the registry does not take the client's certificate"));
    assert!(
        told("https://r:1/subjects: io: invalid peer certificate: certificate expired: verification time 2 (UNIX)")
            .contains("clock")
    );
    let other = "io: invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid for b";
    assert!(told(other).contains("another host"));
    assert!(told("no token for the registry: https://i:1/t: io: Connection refused").contains("issuer.endpoint.url"));
    assert!(told("https://r:1/subjects: io: Connection refused").starts_with("check schema.registry.url"));
}

/// SchemaCache each connection with the same bytes, and returns the URL and how many there were.
fn serve_always(answer: &'static [u8]) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let connections = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::Relaxed);
            let mut stream = stream.expect("a connection");
            // A client that has given up does not read.
            let _ = stream.write_all(answer);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (address, connections)
}

#[test]
fn what_is_no_matter_of_time_is_not_tried_again() {
    // Alerts of TLS: that a certificate is required, and that the server has a fault of its own.
    let refused: &[u8] = &[21, 3, 3, 0, 2, 2, 116];
    let broken: &[u8] = &[21, 3, 3, 0, 2, 2, 80];
    let (no_tls, advised) = (b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(), "does not speak TLS");
    for (answer, attempts, advised) in
        [(refused, 1, "ssl.certificate.location"), (no_tls, 1, advised), (broken, 3, "check schema.registry.url")]
    {
        let (address, connections) = serve_always(answer);
        let registry = at(&format!("https://{address}")).expect("settings");
        let Lookup::Unavailable(why) = asked(&registry, SchemaKey::Id(1)) else { panic!("an answer") };
        assert!(why.contains(&format!("(attempts: {attempts}, in ")) && why.contains(advised), "{why}");
        assert_eq!(connections.load(Ordering::Relaxed), attempts, "{why}");
    }
}

#[test]
fn a_url_that_is_refused_does_not_keep_the_others_from_being_asked_again() {
    let (refused, connections) = serve_always(&[21, 3, 3, 0, 2, 2, 116]);
    let (url, _requests) = serve(vec![answer(503, ""), answer(200, r#"{"schema": "\"int\""}"#)]);
    let registry = at(&format!("https://{refused},{url}")).expect("settings");
    let Lookup::Ready(Ok(schema)) = asked(&registry, SchemaKey::Id(1)) else { panic!("no schema") };
    assert_eq!((schema.text.as_str(), connections.load(Ordering::Relaxed)), ("\"int\"", 2));
}

#[test]
fn connecting_the_header_and_the_body_of_an_answer_have_one_deadline() {
    const PART: Duration = Duration::from_millis(300);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let whole = answer(200, r#"{"schema": "\"int\""}"#);
        let (header, body) = whole.split_at(whole.find("\r\n\r\n").expect("a header") + 4);
        for part in [header, body] {
            std::thread::sleep(PART);
            // The client may have gone.
            let _ = stream.write_all(part.as_bytes());
        }
    });
    // Each part comes within the time, and both together do not.
    let timeout = (PART * 3 / 2).as_millis().to_string();
    let given = [
        ("bootstrap.servers", "x:1"),
        ("schema.registry.url", url.as_str()),
        ("schema.registry.request.timeout.ms", timeout.as_str()),
        ("schema.registry.max.retries", "0"),
    ];
    let values = ConfigValues::collect(given, Role::Consumer).expect("settings");
    let registry = registry(&values).expect("settings").expect("a URL is given");
    let answer = asked(&registry, SchemaKey::Id(1));
    let Lookup::Unavailable(why) = answer else { panic!("{answer:?}") };
    assert!(why.contains("did not answer within schema.registry.request.timeout.ms"), "{why}");
}
