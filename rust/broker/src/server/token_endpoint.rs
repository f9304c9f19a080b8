//! A token endpoint (OAuth 2.0, RFC 6749, client credentials): clients get a token of the broker's own for the name and
//! password of one of its users, as they would from an identity provider.
//!
//! The endpoint listens on loopback, over TLS with the broker's certificate if the broker has TLS. It answers one
//! request for each connection. It is no HTTP server beyond that: no chunked bodies, no keeping alive.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use monedula_protocol::base64;
use monedula_protocol::secret::Secret;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::listener::REST;
use super::shared::Shared;
use super::tls;
use crate::BrokerError;
use crate::security::{ClientAuth, Flaw};

const PATH: &str = "/token";
/// The largest head, and the largest body, of a request.
const MAX_BYTES: usize = 64 * 1024;
/// The longest time that a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
const CLIENT_CREDENTIALS: &str = "client_credentials";

/// Opens the endpoint, unless it is open. Returns its URL.
pub(super) async fn open(shared: &Shared) -> Result<String, BrokerError> {
    if let Some(url) = shared.token_endpoint() {
        return Ok(url);
    }
    // A client that asks for a token shows no certificate.
    let acceptor = shared.with(|core, _| match core.settings.security.has_tls() {
        true => tls::acceptor(core, Flaw::None, ClientAuth::None).map(Some),
        false => Ok(None),
    })?;
    let host = Ipv4Addr::LOCALHOST;
    let failed = |source| BrokerError::Listen { host: host.to_string(), port: 0, source };
    let listener = TcpListener::bind((host, 0)).await.map_err(failed)?;
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}{PATH}", listener.local_addr().map_err(failed)?);
    tokio::task::spawn_local(accept(shared.clone(), listener, acceptor));
    shared.set_token_endpoint(url.clone());
    Ok(url)
}

async fn accept(shared: Shared, listener: TcpListener, acceptor: Option<TlsAcceptor>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(enter(shared.clone(), stream, acceptor.clone()));
            }
            Err(error) => {
                log::warn!("the token endpoint cannot accept a connection: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn enter(shared: Shared, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    let converse = async {
        match acceptor {
            Some(acceptor) => converse(&shared, acceptor.accept(stream).await?).await,
            None => converse(&shared, stream).await,
        }
    };
    match tokio::time::timeout(PATIENCE, converse).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => log::info!("a connection to the token endpoint broke: {error}"),
        Err(_) => log::info!("a request to the token endpoint took too long"),
    }
}

async fn converse(shared: &Shared, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let (status, answer) = match read(&mut stream).await? {
        Some(request) => answer(shared, &request),
        None => refused("400 Bad Request", "invalid_request", "this is no request with a form of up to 64 KiB"),
    };
    let body = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// A request: its first line, its headers by their names in small letters, and its form.
struct HttpRequest {
    line: String,
    headers: BTreeMap<String, String>,
    form: BTreeMap<String, String>,
}

/// Reads a request; `None` for one that is none.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<HttpRequest>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() > MAX_BYTES || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let Ok(head) = std::str::from_utf8(&bytes[..head_end]) else { return Ok(None) };
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
    let length = headers.get("content-length").map_or(Ok(0), |length| length.parse::<usize>());
    let Some(length) = length.ok().filter(|&length| length <= MAX_BYTES) else { return Ok(None) };
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    let form = std::str::from_utf8(&body[..length]).ok().and_then(form);
    Ok(form.map(|form| HttpRequest { line, headers, form }))
}

/// The fields of a form (`application/x-www-form-urlencoded`); `None` if its escapes are wrong.
fn form(text: &str) -> Option<BTreeMap<String, String>> {
    let fields = text.split('&').filter(|field| !field.is_empty());
    fields
        .map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            Some((unescaped(name)?, unescaped(value)?))
        })
        .collect()
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

type HttpAnswer = (&'static str, Value);

fn refused(status: &'static str, error: &str, description: &str) -> HttpAnswer {
    (status, json!({ "error": error, "error_description": description }))
}

fn answer(shared: &Shared, request: &HttpRequest) -> HttpAnswer {
    let mut line = request.line.split(' ');
    let (method, path) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
    if path.split('?').next() != Some(PATH) {
        return refused("404 Not Found", "invalid_request", "tokens are at /token");
    }
    if method != "POST" {
        return refused("405 Method Not Allowed", "invalid_request", "a token is asked for by POST");
    }
    if request.form.get("grant_type").map(String::as_str) != Some(CLIENT_CREDENTIALS) {
        let description = "the only grant type is client_credentials";
        return refused("400 Bad Request", "unsupported_grant_type", description);
    }
    let candidates = credentials(request);
    let lifetime_ms = shared.token_lifetime_ms();
    shared.with(|core, now_ms| {
        let known = candidates.iter().find(|(name, password)| core.security.users().has_password(name, password));
        let Some((name, _)) = known else {
            return refused("401 Unauthorized", "invalid_client", "no user of the broker has this name and password");
        };
        let scope = request.form.get("scope").map(|scope| ("scope".to_owned(), Value::from(scope.as_str())));
        let claims: Map<String, Value> = scope.into_iter().collect();
        let token = core.security.oauth().mint(name, lifetime_ms, true, claims, now_ms);
        ("200 OK", json!({ "access_token": token, "token_type": "Bearer", "expires_in": lifetime_ms / 1000 }))
    })
}

/// The names and passwords that a request may mean: from its form, or from its header, which clients write with and
/// without the escapes of RFC 6749, section 2.3.1.
fn credentials(request: &HttpRequest) -> Vec<(String, Secret)> {
    let field = |name: &str| request.form.get(name).cloned().unwrap_or_default();
    let basic = request.headers.get("authorization").and_then(|header| header.split_once(' '));
    let Some(encoded) = basic.filter(|(kind, _)| kind.eq_ignore_ascii_case("basic")).map(|(_, encoded)| encoded) else {
        return vec![(field("client_id"), field("client_secret").as_str().into())];
    };
    let decoded = base64::decode(encoded.trim()).and_then(|bytes| String::from_utf8(bytes).ok());
    let Some((name, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) else { return Vec::new() };
    let plain: (String, Secret) = (name.to_owned(), password.into());
    let escaped = unescaped(name).zip(unescaped(password)).map(|(name, password)| (name, password.as_str().into()));
    std::iter::once(plain).chain(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_unescaped() {
        let form = form("grant_type=client_credentials&scope=a+b&client_secret=p%C3%A4ss%26&empty").unwrap();
        assert_eq!(form["scope"], "a b");
        assert_eq!(form["client_secret"], "päss&");
        assert_eq!(form["empty"], "");
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(super::form(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn any_bytes_are_a_request_or_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        bolero::check!().for_each(|bytes: &[u8]| {
            let head = [b"POST /token HTTP/1.1\r\nContent-Length: 5\r\n\r\n", bytes].concat();
            for mut bytes in [bytes, &head] {
                let _ = runtime.block_on(read(&mut bytes)).unwrap();
            }
        });
    }
}
