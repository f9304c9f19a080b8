//! OAUTHBEARER (RFC 7628): a bearer token, with Kafka's SASL extensions (KIP-342).
//!
//! Success is an empty answer. Any other answer is a refusal in JSON, to which the client responds with one byte; then
//! the broker ends the exchange with an error.

use super::client::ExchangeStep;
use super::error::SaslError;
use super::server::{Accounts, ServerStep};
use super::{Mechanism, readable};
use crate::secret::Secret;

/// SASL extensions: names of letters, with their values.
pub type Extensions = Vec<(String, String)>;

const SEPARATOR: u8 = 0x01;

/// Refusal of a token by a broker (RFC 7628, section 3.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRefusal {
    /// The status, such as `invalid_token`.
    pub status: String,
    /// The scope that a token needs.
    pub scope: Option<String>,
    /// URL of the provider's configuration.
    pub openid_configuration: Option<String>,
}

impl TokenRefusal {
    /// Refusal with a status of RFC 7628, without further details.
    pub fn status(status: &str) -> Self {
        Self { status: status.to_owned(), ..Self::default() }
    }

    fn json(&self) -> String {
        let entry =
            |(key, value): (&str, &Option<String>)| value.as_ref().map(|value| format!(",\"{key}\":{}", quoted(value)));
        let optional = [("scope", &self.scope), ("openid-configuration", &self.openid_configuration)];
        let rest: String = optional.into_iter().filter_map(entry).collect();
        format!("{{\"status\":{}{rest}}}", quoted(&self.status))
    }
}

fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars().filter(|character| !character.is_control()) {
        if matches!(character, '"' | '\\') {
            json.push('\\');
        }
        json.push(character);
    }
    json.push('"');
    json
}

#[derive(Debug)]
pub(super) struct Client(ClientState);

#[derive(Debug)]
enum ClientState {
    Sent,
    Refused(String),
    Ended,
}

impl Client {
    pub(super) fn start(token: &Secret, extensions: &Extensions) -> Result<(Self, Secret), SaslError> {
        let refused = |problem| Err(SaslError::Credentials { mechanism: Mechanism::OauthBearer, problem });
        if !is_token(token.expose()) {
            return refused(what_is_wrong(token.expose()));
        }
        for (name, value) in extensions {
            if !is_name(name) || name == "auth" {
                return refused("the name of an extension consists of letters, and is not auth");
            }
            if !is_value(value) {
                return refused("the value of an extension consists of printable ASCII characters, and is not empty");
            }
        }
        let length = 20
            + token.expose().len()
            + extensions.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
        let mut message = Vec::with_capacity(length);
        message.extend_from_slice(b"n,,\x01auth=Bearer ");
        message.extend_from_slice(token.expose());
        message.push(SEPARATOR);
        for (name, value) in extensions {
            message.extend_from_slice(name.as_bytes());
            message.push(b'=');
            message.extend_from_slice(value.as_bytes());
            message.push(SEPARATOR);
        }
        message.push(SEPARATOR);
        Ok((Self(ClientState::Sent), Secret::new(message)))
    }

    pub(super) fn step(&mut self, challenge: &[u8]) -> Result<ExchangeStep, SaslError> {
        let mechanism = Mechanism::OauthBearer;
        match std::mem::replace(&mut self.0, ClientState::Ended) {
            ClientState::Sent if challenge.is_empty() => Ok(ExchangeStep::Done),
            ClientState::Sent => {
                self.0 = ClientState::Refused(readable(challenge));
                Ok(ExchangeStep::Send(Secret::new([SEPARATOR])))
            }
            ClientState::Refused(reason) => Err(SaslError::Refused { mechanism, reason }),
            ClientState::Ended => Err(SaslError::Ended { mechanism }),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Server {
    refusal: Option<String>,
}

impl Server {
    pub(super) fn step(&mut self, message: &[u8], accounts: &dyn Accounts) -> Result<ServerStep, String> {
        if let Some(json) = self.refusal.take() {
            return Err(json);
        }
        let (token, extensions) = parse(message)?;
        match accounts.check_token(token, &extensions) {
            Ok(authenticated) => Ok(ServerStep::Authenticated(Secret::default(), authenticated)),
            Err(refusal) => {
                let json = refusal.json();
                self.refusal = Some(json.clone());
                Ok(ServerStep::Challenge(Secret::from(json)))
            }
        }
    }
}

/// Token and extensions in a client's first message.
fn parse(message: &[u8]) -> Result<(&str, Extensions), String> {
    let text = std::str::from_utf8(message).map_err(|_| "the client's message is not text")?;
    let text =
        text.strip_prefix("n,").ok_or("the client's message does not begin with n,: there is no channel binding")?;
    let (authorization_id, text) = text.split_once(",\x01").ok_or("the header does not end")?;
    if !authorization_id.is_empty() && !authorization_id.starts_with("a=") {
        return Err("the authorization id does not begin with a=".into());
    }
    let pairs = text.strip_suffix("\x01\x01").ok_or("the message does not end in two separators")?;
    let mut token = None;
    let mut extensions = Extensions::new();
    for pair in pairs.split('\x01') {
        let (name, value) = pair.split_once('=').ok_or("a pair has no =")?;
        if !is_name(name) || !is_value(value) {
            return Err("a pair has characters that it cannot have".into());
        }
        match name {
            "auth" if token.is_some() => return Err("there are two tokens".into()),
            "auth" => token = Some(value),
            _ => extensions.push((name.to_owned(), value.to_owned())),
        }
    }
    let (scheme, token) = token.and_then(|auth| auth.split_once(' ')).ok_or("there is no token")?;
    let token = token.trim_start_matches(' ');
    if !scheme.eq_ignore_ascii_case("bearer") || !is_token(token.as_bytes()) {
        return Err("there is no bearer token".into());
    }
    Ok((token, extensions))
}

/// Returns true for a b64token of RFC 6750: the characters that `Authorization: Bearer` can carry.
fn is_token(token: &[u8]) -> bool {
    let end = token.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
    let allowed = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    end > 0 && token[..end].iter().all(allowed)
}

/// Reason why a text is no token.
fn what_is_wrong(token: &[u8]) -> &'static str {
    match token {
        [] => "the token is empty",
        [b'B' | b'b', b'e', b'a', b'r', b'e', b'r', b' ', ..] => {
            "the token begins with \"Bearer \": give the token alone"
        }
        token if token.iter().any(|byte| matches!(byte, b'\r' | b'\n')) => "the token has a line break in it",
        _ => "the token has characters that a bearer token cannot have (RFC 6750, b64token)",
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t' | b'\r' | b'\n'))
}
