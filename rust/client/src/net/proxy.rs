//! The proxy that connections to brokers go through: SOCKS5 (RFC 1928, with user and password RFC 1929), or the method
//! CONNECT of HTTP. Behind it nothing differs: TLS and the login are between client and broker.
//!
//! No text here has the user or password.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use monedula_protocol::base64;
use monedula_protocol::sasl::readable;
use monedula_protocol::secret::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use ureq::http::Uri;

use super::dial::Dialer;
use crate::config_values::{ConfigError, ConfigValues, url_decoded};
use crate::error::{AuthenticationError, RequestError};

/// The setting of the proxy to brokers.
pub(crate) const PROXY_URL: &str = "proxy.url";

/// Value of a setting of an HTTP client that goes through no proxy, where brokers are behind one.
const DIRECT: &[u8] = b"direct";

/// Longest head of an answer to CONNECT, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Longest status of a proxy in a message, in characters: the code, and a reason.
const MAX_STATUS: usize = 100;

/// Longest user, password or host of SOCKS5, in bytes: their lengths are one byte.
const MAX_SOCKS_TEXT: usize = 255;

const SOCKS_VERSION: u8 = 5;
const NO_LOGIN: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;

/// A proxy, with the user and password that it asks for.
#[derive(Clone, Debug)]
pub struct Proxy {
    protocol: ProxyProtocol,
    host: String,
    port: u16,
    login: Option<(String, Secret)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyProtocol {
    Http,
    /// The client looks names up.
    Socks5,
    /// The proxy looks names up.
    Socks5h,
}

/// Reason that the proxy leads nowhere.
enum ProxyFailure {
    /// It does not take user and password, and would not the next time.
    Refused(String),
    /// Anything else.
    Failed(String),
}

impl From<std::io::Error> for ProxyFailure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
                Self::Failed("it closed the connection before it answered".into())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The proxy of an HTTP client: that of the setting `key`, which may be `direct`; else that to the brokers; else what
/// the environment names.
///
/// # Errors
/// If a setting is no URL of a proxy.
pub(crate) fn http_proxy(values: &ConfigValues, key: &str) -> Result<Option<ureq::Proxy>, ConfigError> {
    let key = match values.secret(key) {
        Some(text) if text.expose() == DIRECT => return Ok(None),
        Some(_) => key,
        None => PROXY_URL,
    };
    match Proxy::of(values, key)? {
        Some(proxy) => proxy.of_http().map(Some).map_err(|_| wrong(values, key, "cannot be used for HTTP")),
        None => Ok(ureq::Proxy::try_from_env()),
    }
}

fn wrong(values: &ConfigValues, key: &str, what: &str) -> ConfigError {
    let name = values.name_of(key);
    ConfigError { key: name.into(), message: format!("{name} (its value is not shown) {what}") }
}

impl Proxy {
    /// The proxy that the setting `key` names, if it names one.
    pub(crate) fn of(values: &ConfigValues, key: &str) -> Result<Option<Self>, ConfigError> {
        let Some(url) = values.secret(key) else { return Ok(None) };
        let url = url.expose_text().unwrap_or_default().trim();
        Self::parse(url).map(Some).map_err(|what| wrong(values, key, what))
    }

    fn parse(url: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "is no URL of a proxy; expected socks5h://host:port, socks5://host:port or \
                                http://host:port, with user:password@ before the host if the proxy asks for them. Other \
                                characters than letters, digits and -._~ in user and password stand as % and two hexadecimal digits";
        let parsed = url.parse::<Uri>().map_err(|_| EXPECTED)?;
        let protocol = match parsed.scheme_str().map(str::to_ascii_lowercase).as_deref() {
            Some("http") => ProxyProtocol::Http,
            Some("socks5") => ProxyProtocol::Socks5,
            Some("socks5h") => ProxyProtocol::Socks5h,
            Some("https") => {
                return Err("is an https: URL, and the connection to a proxy is not encrypted here, only what goes \
                            through it; give the proxy's http: or SOCKS5 port");
            }
            Some("socks4" | "socks4a") => return Err("names SOCKS4, which is not spoken here; give socks5h: or http:"),
            _ => return Err(EXPECTED),
        };
        let authority = parsed.authority().ok_or(EXPECTED)?;
        if !parsed.path().trim_matches('/').is_empty() || parsed.query().is_some() {
            return Err("has something behind its port; a proxy has a host and a port alone");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = authority.port_u16().filter(|&port| port > 0).ok_or("has no valid port")?;
        if host.is_empty() {
            return Err(EXPECTED);
        }
        let login = match authority.as_str().rsplit_once('@') {
            Some((user, _)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let user = String::from_utf8(url_decoded(user)).map_err(|_| "has a user that is not UTF-8")?;
                Some((user, Secret::from(url_decoded(password))))
            }
            None => None,
        };
        if let Some((user, password)) = login.as_ref().filter(|_| protocol != ProxyProtocol::Http) {
            let fits = |length: usize| (1..=MAX_SOCKS_TEXT).contains(&length);
            if !fits(user.len()) || !fits(password.expose().len()) {
                return Err("has a user or password of SOCKS5 that is empty or longer than 255 bytes");
            }
        }
        if login.as_ref().is_some_and(|(user, _)| user.contains(':')) {
            return Err("has a colon in the user, which neither protocol can tell from the one before the password");
        }
        Ok(Self { protocol, host: host.to_owned(), port, login })
    }

    /// The same for an HTTP client.
    fn of_http(&self) -> Result<ureq::Proxy, ureq::Error> {
        let protocol = match self.protocol {
            ProxyProtocol::Http => ureq::ProxyProtocol::Http,
            ProxyProtocol::Socks5 => ureq::ProxyProtocol::Socks5,
            ProxyProtocol::Socks5h => ureq::ProxyProtocol::Socks5h,
        };
        let mut builder = ureq::Proxy::builder(protocol).host(&bracketed(&self.host)).port(self.port);
        if let Some((user, password)) = &self.login {
            builder = builder.username(user).password(password.expose_text().unwrap_or_default());
        }
        builder.build()
    }

    /// A connection to `host` through the proxy.
    ///
    /// # Errors
    /// Failure, with the name of the proxy.
    pub(crate) async fn dial(
        &self,
        dialer: Dialer,
        (host, port): (&str, u16),
        broker: &str,
    ) -> Result<TcpStream, RequestError> {
        self.dial_targets(dialer, host, port).await.map_err(|failure| match failure {
            ProxyFailure::Refused(reason) => {
                let reason = format!("{self} {reason}");
                AuthenticationError { broker: broker.to_owned(), mechanism: "proxy".into(), reason }.into()
            }
            ProxyFailure::Failed(reason) => {
                let reason = format!("no connection through the proxy {self}: {reason}");
                RequestError::Disconnected { broker: broker.to_owned(), reason }
            }
        })
    }

    async fn dial_targets(&self, dialer: Dialer, host: &str, port: u16) -> Result<TcpStream, ProxyFailure> {
        let addresses = match (self.protocol, host.parse::<IpAddr>()) {
            (_, Ok(address)) => vec![SocketAddr::new(address, port)],
            (ProxyProtocol::Socks5, Err(_)) => {
                let found = dialer.addresses(host, port).await;
                found.map_err(|reason| {
                    ProxyFailure::Failed(format!("{reason}; with socks5h: in proxy.url the proxy looks names up"))
                })?
            }
            // Metadata may name any text, which must not become lines of a request to the proxy.
            _ if host.bytes().any(|byte| byte <= b' ' || byte == 0x7f) => {
                return Err(ProxyFailure::Failed("the broker's name has characters that no name of a host has".into()));
            }
            _ => return self.tunnel(dialer, Target::Name(host, port)).await,
        };
        let mut failures = Vec::new();
        for address in addresses {
            match self.tunnel(dialer, Target::Address(address)).await {
                Err(ProxyFailure::Failed(reason)) => failures.push(reason),
                outcome => return outcome,
            }
        }
        Err(ProxyFailure::Failed(failures.join("; ")))
    }

    async fn tunnel(&self, dialer: Dialer, target: Target<'_>) -> Result<TcpStream, ProxyFailure> {
        let dialled = dialer.dial(&self.host, self.port).await;
        let mut stream = dialled.map_err(|reason| ProxyFailure::Failed(format!("it is not reached: {reason}")))?;
        match self.protocol {
            ProxyProtocol::Http => self.connect_by_http(&mut stream, target).await?,
            ProxyProtocol::Socks5 | ProxyProtocol::Socks5h => self.connect_by_socks(&mut stream, target).await?,
        }
        Ok(stream)
    }

    async fn connect_by_http(&self, stream: &mut TcpStream, target: Target<'_>) -> Result<(), ProxyFailure> {
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some((user, password)) = &self.login {
            let pair = Secret::from([user.as_bytes(), b":", password.expose()].concat());
            request.push_str(&format!("Proxy-Authorization: Basic {}\r\n", base64::encode(pair.expose())));
        }
        request.push_str("\r\n");
        stream.write_all(Secret::from(request).expose()).await?;
        let mut answer = Vec::new();
        let head = loop {
            if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let begins = answer.len().min(7);
            if answer[..begins] != b"HTTP/1."[..begins] || answer.len() > MAX_HEAD_BYTES {
                return Err(ProxyFailure::Failed("what answers there does not speak HTTP; check proxy.url".into()));
            }
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
            }
        };
        let line = answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let status = self.told(line.get(9..).unwrap_or_default());
        match status.get(..3).and_then(|digits| digits.parse::<u16>().ok()) {
            // A broker says nothing before it is asked: what came behind the head is the proxy's own.
            Some(200..=299) if answer.len() > head => {
                Err(ProxyFailure::Failed("it sent bytes that the broker has not; check proxy.url".into()))
            }
            Some(200..=299) => Ok(()),
            // tinyproxy answers 401 to a wrong password, and 407 to none.
            Some(401 | 407) => Err(self.refusal(&format!(" (it answered {status})"))),
            Some(403) => Err(ProxyFailure::Failed(format!(
                "it answered {status} to CONNECT {target}: its rules do not allow this connection; have them allow the \
                 broker's host and port"
            ))),
            Some(405) => Err(ProxyFailure::Failed(format!(
                "it answered {status} to CONNECT {target}: it has no such method; check that proxy.url names a proxy"
            ))),
            Some(502..=504) => Err(ProxyFailure::Failed(format!(
                "it answered {status} to CONNECT {target}: it does not reach the broker; check the broker's name, and \
                 that the proxy may connect to it"
            ))),
            _ => Err(ProxyFailure::Failed(format!("it answered {status} to CONNECT {target}; check proxy.url"))),
        }
    }

    /// What a proxy said in its status line, for an error: without control characters, shortened, and the code alone if
    /// the proxy repeats the login that it was sent.
    fn told(&self, status: &[u8]) -> String {
        let status = readable(status);
        let repeats = self.login.as_ref().is_some_and(|(user, password)| {
            let password = password.expose_text().unwrap_or_default();
            let pair = Secret::from(base64::encode(format!("{user}:{password}").as_bytes()));
            let is_in = |secret: &str| !secret.is_empty() && status.contains(secret);
            is_in(password) || is_in(pair.expose_text().unwrap_or_default())
        });
        let told: String = status.chars().take(if repeats { 3 } else { MAX_STATUS }).collect();
        told.trim_end().to_owned()
    }

    /// The refusal of a proxy that asks for another login, or for one at all; `said` is what it said to that.
    fn refusal(&self, said: &str) -> ProxyFailure {
        ProxyFailure::Refused(match &self.login {
            Some(_) => format!("refuses the user and password of proxy.url{said}: correct them"),
            None => format!(
                "asks for a user and password{said}: give them in proxy.url, before the host, as user:password@"
            ),
        })
    }

    async fn connect_by_socks(&self, stream: &mut TcpStream, target: Target<'_>) -> Result<(), ProxyFailure> {
        let foreign = || ProxyFailure::Failed("what answers there does not speak SOCKS5; check proxy.url".into());
        let methods: &[u8] = if self.login.is_some() {
            &[SOCKS_VERSION, 2, NO_LOGIN, USER_AND_PASSWORD]
        } else {
            &[SOCKS_VERSION, 1, NO_LOGIN]
        };
        stream.write_all(methods).await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await?;
        match (chosen, &self.login) {
            ([SOCKS_VERSION, NO_LOGIN], _) => {}
            ([SOCKS_VERSION, USER_AND_PASSWORD], Some((user, password))) => {
                let password = password.expose();
                let lengths = [user.len() as u8, password.len() as u8];
                let login = [&[1, lengths[0]], user.as_bytes(), &lengths[1..], password].concat();
                stream.write_all(Secret::from(login).expose()).await?;
                let mut verdict = [0; 2];
                stream.read_exact(&mut verdict).await?;
                if verdict[1] != 0 {
                    return Err(self.refusal(""));
                }
            }
            ([SOCKS_VERSION, NO_METHOD], _) => return Err(self.refusal("")),
            _ => return Err(foreign()),
        }
        stream.write_all(&target.socks_request()?).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        match answer {
            [SOCKS_VERSION, 0, ..] => {}
            [SOCKS_VERSION, code, ..] => {
                let reason = SOCKS_REPLIES.get(usize::from(code)).copied().unwrap_or("an unknown error");
                return Err(ProxyFailure::Failed(format!("it answered for {target}: {reason} ({code})")));
            }
            _ => return Err(foreign()),
        }
        // The address from which the proxy connected, and its port.
        let length = match answer[3] {
            1 => 4,
            4 => 16,
            3 => usize::from(stream.read_u8().await?),
            _ => return Err(foreign()),
        };
        let mut address = [0; MAX_SOCKS_TEXT + 2];
        stream.read_exact(&mut address[..length + 2]).await?;
        Ok(())
    }
}

/// Replies of SOCKS5 by their codes (RFC 1928, section 6).
const SOCKS_REPLIES: [&str; 9] = [
    "succeeded",
    "general failure of the proxy",
    "its rules do not allow this connection",
    "the network is unreachable",
    "the host is unreachable",
    "connection refused",
    "the connection took too long",
    "it does not know the command",
    "it does not know this kind of address",
];

/// The broker, as the proxy is told of it.
#[derive(Clone, Copy)]
enum Target<'a> {
    Name(&'a str, u16),
    Address(SocketAddr),
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

impl Target<'_> {
    fn socks_request(self) -> Result<Vec<u8>, ProxyFailure> {
        let mut request = vec![SOCKS_VERSION, 1, 0];
        let port = match self {
            Self::Name(host, port) => {
                let length = u8::try_from(host.len()).map_err(|_| {
                    ProxyFailure::Failed(format!("the broker's name has {} bytes, SOCKS5 has room for 255", host.len()))
                })?;
                request.extend([3, length]);
                request.extend(host.as_bytes());
                port
            }
            Self::Address(SocketAddr::V4(address)) => {
                request.push(1);
                request.extend(address.ip().octets());
                address.port()
            }
            Self::Address(SocketAddr::V6(address)) => {
                request.push(4);
                request.extend(address.ip().octets());
                address.port()
            }
        };
        request.extend(port.to_be_bytes());
        Ok(request)
    }
}

/// Protocol, host and port; neither user nor password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            ProxyProtocol::Http => "http",
            ProxyProtocol::Socks5 => "socks5",
            ProxyProtocol::Socks5h => "socks5h",
        };
        write!(f, "{scheme}://{}:{}", bracketed(&self.host), self.port)
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
