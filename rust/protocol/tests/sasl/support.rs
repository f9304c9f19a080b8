//! One user for each mechanism, and a driver that carries messages between client and server.

use std::sync::Arc;

use monedula_protocol::sasl::oauthbearer::{Extensions, TokenRefusal};
use monedula_protocol::sasl::scram::{ScramCredential, ScramHash};
use monedula_protocol::sasl::{
    Accounts, Authenticated, ClientExchange, Credentials, ExchangeStep, NONCE_BYTES, SaslError, ServerExchange,
    ServerStep,
};
use monedula_protocol::secret::Secret;

pub(crate) const CLIENT_NONCE: [u8; NONCE_BYTES] = [7; NONCE_BYTES];
pub(crate) const SERVER_NONCE: [u8; NONCE_BYTES] = [9; NONCE_BYTES];
pub(crate) const HASHES: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha512];
pub(crate) const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0.";

/// Users of a broker: anna with the given password, a delegation token of hers, and one bearer token.
pub(crate) struct Users {
    pub(crate) password: &'static str,
    pub(crate) iterations: u32,
    /// Password that the server signs with instead of the true one.
    pub(crate) signs_with: Option<&'static str>,
}

impl Default for Users {
    fn default() -> Self {
        Self { password: "heslo, s=čárkou", iterations: 4096, signs_with: None }
    }
}

impl Users {
    fn credential(&self, hash: ScramHash, password: &str) -> ScramCredential {
        let of = |password: &str| ScramCredential::from_password(hash, &password.into(), b"salt", self.iterations);
        ScramCredential { server_key: of(self.signs_with.unwrap_or(password)).server_key, ..of(password) }
    }
}

impl Accounts for Users {
    fn has_password(&self, username: &str, password: &Secret) -> bool {
        username == "anna" && *password == Secret::from(self.password)
    }

    fn scram_credential(&self, hash: ScramHash, username: &str) -> Option<ScramCredential> {
        (username == "anna").then(|| self.credential(hash, self.password))
    }

    fn delegation_token(&self, hash: ScramHash, token_id: &str) -> Option<(ScramCredential, Authenticated)> {
        let owner = Authenticated { expires_at_ms: Some(99), by_delegation_token: true, ..Authenticated::user("anna") };
        (token_id == "token-1").then(|| (self.credential(hash, "hmac=="), owner))
    }

    fn check_token(&self, token: &str, extensions: &Extensions) -> Result<Authenticated, TokenRefusal> {
        if token != TOKEN {
            let scope = Some("kafka \"all\"".to_owned());
            return Err(TokenRefusal { scope, ..TokenRefusal::status("invalid_token") });
        }
        assert_eq!(extensions, &[("cluster".to_owned(), "lkc-1".to_owned())]);
        Ok(Authenticated { expires_at_ms: Some(1_000), ..Authenticated::user("anna") })
    }
}

pub(crate) fn scram(hash: ScramHash, username: &str, password: &str) -> Credentials {
    Credentials::Scram { hash, username: username.into(), password: password.into(), delegation_token: false }
}

pub(crate) fn bearer(token: &str) -> Credentials {
    Credentials::OauthBearer { token: token.into(), extensions: vec![("cluster".into(), "lkc-1".into())] }
}

/// Result of an exchange on each side; `None` if the client gave up before.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) client: Result<(), SaslError>,
    pub(crate) server: Option<ServerStep>,
}

/// Carries messages between client and server until one of them has ended.
pub(crate) fn log_in(credentials: &Credentials, users: &Users) -> Ended {
    let (mut client, first) = ClientExchange::start(credentials, CLIENT_NONCE).unwrap();
    let mut server = ServerExchange::new(credentials.mechanism(), SERVER_NONCE).unwrap();
    let mut message = first;
    loop {
        let step = server.step(message.expose(), users);
        let answer = match &step {
            ServerStep::Challenge(answer) | ServerStep::Authenticated(answer, _) => answer.clone(),
            ServerStep::Refused(_) => {
                let reason = "error code 58".to_owned();
                let refused = SaslError::Refused { mechanism: credentials.mechanism(), reason };
                return Ended { client: Err(refused), server: Some(step) };
            }
        };
        match advance(&mut client, answer.expose()) {
            Ok(ExchangeStep::Send(next)) => message = next,
            Ok(_) => return Ended { client: Ok(()), server: Some(step) },
            Err(error) => return Ended { client: Err(error), server: Some(step) },
        }
    }
}

/// Advances the client by one step, and derives keys at once.
pub(crate) fn advance(client: &mut ClientExchange, challenge: &[u8]) -> Result<ExchangeStep, SaslError> {
    match client.step(challenge)? {
        ExchangeStep::Derive(derivation) => client.derived(Arc::new(derivation.run())),
        step => Ok(step),
    }
}
