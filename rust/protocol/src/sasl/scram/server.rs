//! Broker side of SCRAM.

use super::credentials::{ScramCredential, xor};
use super::hash::ScramHash;
use super::message::{ClientFinal, ClientFirst};
use crate::base64;
use crate::sasl::server::{Accounts, Authenticated, ServerStep};
use crate::sasl::{NONCE_BYTES, readable};
use crate::secret::Secret;

#[derive(Debug)]
pub(in crate::sasl) struct Server {
    hash: ScramHash,
    nonce: String,
    state: ScramServerState,
}

#[derive(Debug)]
enum ScramServerState {
    AwaitsClientFirst,
    AwaitsClientFinal(Box<Pending>),
    Ended,
}

/// The state between the client's two messages.
#[derive(Debug)]
struct Pending {
    header: String,
    first_bare: String,
    server_first: String,
    nonce: String,
    credential: ScramCredential,
    authenticated: Authenticated,
}

impl Server {
    pub(in crate::sasl) fn new(hash: ScramHash, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { hash, nonce: base64::encode_url_safe(&nonce), state: ScramServerState::AwaitsClientFirst }
    }

    /// Takes a message of the client; an error is the reason for refusing, for the log.
    pub(in crate::sasl) fn step(&mut self, message: &[u8], accounts: &dyn Accounts) -> Result<ServerStep, String> {
        match std::mem::replace(&mut self.state, ScramServerState::Ended) {
            ScramServerState::AwaitsClientFirst => self.client_first(message, accounts),
            ScramServerState::AwaitsClientFinal(pending) => self.client_final(message, *pending),
            ScramServerState::Ended => Err("a message after the exchange has ended".into()),
        }
    }

    fn client_first(&mut self, message: &[u8], accounts: &dyn Accounts) -> Result<ServerStep, String> {
        let first = ClientFirst::parse(self.hash.mechanism(), message).map_err(|error| error.to_string())?;
        let username = readable(first.username.as_bytes());
        if !first.authorization_id.is_empty() && first.authorization_id != first.username {
            return Err(format!("{username} asks for another authorization id"));
        }
        let account = match first.delegation_token {
            true => accounts.delegation_token(self.hash, &first.username),
            false => accounts
                .scram_credential(self.hash, &first.username)
                .map(|credential| (credential, Authenticated::user(&first.username))),
        };
        let (credential, authenticated) =
            account.ok_or_else(|| format!("{username} has no {} credential", self.hash.mechanism()))?;
        let nonce = format!("{}{}", first.nonce, self.nonce);
        let salt = base64::encode(&credential.salt);
        let server_first = format!("r={nonce},s={salt},i={}", credential.iterations);
        let challenge = Secret::from(server_first.as_str());
        self.state = ScramServerState::AwaitsClientFinal(Box::new(Pending {
            header: first.header.to_owned(),
            first_bare: first.bare.to_owned(),
            server_first,
            nonce,
            credential,
            authenticated,
        }));
        Ok(ServerStep::Challenge(challenge))
    }

    fn client_final(&self, message: &[u8], pending: Pending) -> Result<ServerStep, String> {
        let last = ClientFinal::parse(self.hash.mechanism(), message).map_err(|error| error.to_string())?;
        let username = readable(pending.authenticated.principal.as_bytes());
        if last.nonce != pending.nonce {
            return Err(format!("{username} sent another nonce than it was given (CVE-2024-56128)"));
        }
        // Java's client sends the base64 of `n,,` even if the header has an authorization id.
        if last.channel_binding != pending.header.as_bytes() && last.channel_binding != b"n,," {
            return Err(format!("{username} sent another channel binding than it began with"));
        }
        let auth_message = format!("{},{},{}", pending.first_bare, pending.server_first, last.without_proof);
        let client_signature = self.hash.hmac(pending.credential.stored_key.expose(), auth_message.as_bytes());
        let client_key = xor(&last.proof, &client_signature);
        // Compared with its length: a proof of another length is wrong, but XOR truncates to the shorter one.
        let stored_key = Secret::new(self.hash.hash(&client_key).as_slice());
        if last.proof.len() != client_signature.len() || stored_key != pending.credential.stored_key {
            return Err(format!("{username} has another password"));
        }
        let signature = self.hash.hmac(pending.credential.server_key.expose(), auth_message.as_bytes());
        let last = Secret::from(format!("v={}", base64::encode(&signature)));
        Ok(ServerStep::Authenticated(last, pending.authenticated))
    }
}
