//! PLAIN (RFC 4616): user name and password unencrypted, so only TLS hides them.

use super::client::ExchangeStep;
use super::error::SaslError;
use super::server::{Accounts, Authenticated, ServerStep};
use super::{Mechanism, readable};
use crate::secret::Secret;

#[derive(Debug)]
pub(super) struct Client {
    ended: bool,
}

impl Client {
    pub(super) fn start(username: &str, password: &Secret) -> Result<(Self, Secret), SaslError> {
        let refused = |problem| Err(SaslError::Credentials { mechanism: Mechanism::Plain, problem });
        if username.is_empty() {
            return refused("the user name is empty");
        }
        if password.is_empty() {
            return refused("the password is empty");
        }
        if username.contains('\0') || password.expose().contains(&0) {
            return refused("user name and password cannot contain a NUL character");
        }
        let mut message = Vec::with_capacity(2 + username.len() + password.expose().len());
        message.push(0);
        message.extend_from_slice(username.as_bytes());
        message.push(0);
        message.extend_from_slice(password.expose());
        Ok((Self { ended: false }, Secret::new(message)))
    }

    /// Ends the exchange. PLAIN gives the broker's answer no meaning: its error code says everything.
    pub(super) fn step(&mut self, _challenge: &[u8]) -> Result<ExchangeStep, SaslError> {
        if std::mem::replace(&mut self.ended, true) {
            return Err(SaslError::Ended { mechanism: Mechanism::Plain });
        }
        Ok(ExchangeStep::Done)
    }
}

pub(super) fn check(message: &[u8], accounts: &dyn Accounts) -> Result<ServerStep, String> {
    let parts: Vec<&[u8]> = message.splitn(4, |&byte| byte == 0).collect();
    let &[authorization_id, username, password] = parts.as_slice() else {
        return Err(format!("{} fields instead of authorization id, user name and password", parts.len()));
    };
    let username = std::str::from_utf8(username).map_err(|_| "the user name is not UTF-8")?;
    if username.is_empty() || password.is_empty() {
        return Err("user name or password is empty".into());
    }
    if !authorization_id.is_empty() && authorization_id != username.as_bytes() {
        return Err(format!("{username} asks for the authorization id {}", readable(authorization_id)));
    }
    if !accounts.has_password(username, &Secret::new(password)) {
        return Err(format!("{} is unknown or has another password", readable(username.as_bytes())));
    }
    Ok(ServerStep::Authenticated(Secret::default(), Authenticated::user(username)))
}
