//! Client side of SCRAM.

use super::credentials::{KeyDerivation, ScramKeys, xor};
use super::hash::ScramHash;
use super::message::{ServerFinal, ServerFirst, escape};
use super::{MAX_ITERATIONS, MIN_ITERATIONS};
use crate::base64;
use crate::sasl::client::ExchangeStep;
use crate::sasl::{NONCE_BYTES, SaslError, readable};
use crate::secret::Secret;

/// Base64 of `n,,`: no channel binding.
const CHANNEL_BINDING: &str = "biws";

#[derive(Debug)]
pub(in crate::sasl) struct Client {
    hash: ScramHash,
    password: Secret,
    state: ScramClientState,
}

#[derive(Debug)]
enum ScramClientState {
    AwaitsServerFirst {
        nonce: String,
        first_bare: String,
    },
    Derives {
        first_bare: String,
        server_first: String,
        server_nonce: String,
    },
    /// Proof sent; the server's signature, which proves that the server knows the password too, is awaited.
    AwaitsServerFinal {
        server_signature: Secret,
    },
    Ended,
}

impl Client {
    pub(in crate::sasl) fn start(
        hash: ScramHash,
        username: &str,
        password: &Secret,
        delegation_token: bool,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<(Self, Secret), SaslError> {
        Self::with_nonce(hash, username, password, delegation_token, base64::encode_url_safe(&nonce))
    }

    fn with_nonce(
        hash: ScramHash,
        username: &str,
        password: &Secret,
        delegation_token: bool,
        nonce: String,
    ) -> Result<(Self, Secret), SaslError> {
        let refused = |problem| Err(SaslError::Credentials { mechanism: hash.mechanism(), problem });
        if username.is_empty() {
            return refused("the user name is empty");
        }
        if username.contains('\0') {
            return refused("the user name cannot contain a NUL character");
        }
        if password.is_empty() {
            return refused("the password is empty");
        }
        let extension = if delegation_token { ",tokenauth=true" } else { "" };
        let first_bare = format!("n={},r={nonce}{extension}", escape(username));
        let message = Secret::from(format!("n,,{first_bare}"));
        let state = ScramClientState::AwaitsServerFirst { nonce, first_bare };
        Ok((Self { hash, password: password.clone(), state }, message))
    }

    /// Takes a message of the server. An error ends the exchange.
    pub(in crate::sasl) fn step(&mut self, challenge: &[u8]) -> Result<ExchangeStep, SaslError> {
        match std::mem::replace(&mut self.state, ScramClientState::Ended) {
            ScramClientState::AwaitsServerFirst { nonce, first_bare } => {
                self.server_first(challenge, &nonce, first_bare)
            }
            ScramClientState::AwaitsServerFinal { server_signature } => self.server_final(challenge, &server_signature),
            ScramClientState::Derives { .. } | ScramClientState::Ended => Err(self.ended()),
        }
    }

    fn server_first(&mut self, challenge: &[u8], nonce: &str, first_bare: String) -> Result<ExchangeStep, SaslError> {
        let mechanism = self.hash.mechanism();
        let parsed = ServerFirst::parse(mechanism, challenge)?;
        if !parsed.nonce.starts_with(nonce) || parsed.nonce.len() == nonce.len() {
            return Err(SaslError::ForeignNonce { mechanism });
        }
        let iterations = u32::try_from(parsed.iterations).ok();
        let iterations = iterations.filter(|iterations| (MIN_ITERATIONS..=MAX_ITERATIONS).contains(iterations));
        let iterations = iterations.ok_or(SaslError::Iterations { mechanism, iterations: parsed.iterations })?;
        let server_nonce = parsed.nonce.to_owned();
        let salt = parsed.salt;
        // Copy as received, since the signature covers unknown extensions. Parsing has shown that it is UTF-8.
        let server_first = String::from_utf8_lossy(challenge).into_owned();
        self.state = ScramClientState::Derives { first_bare, server_first, server_nonce };
        Ok(ExchangeStep::Derive(KeyDerivation { hash: self.hash, salt, iterations, password: self.password.clone() }))
    }

    /// Takes the keys, and makes the proof that the client knows the password.
    pub(in crate::sasl) fn derived(&mut self, keys: &ScramKeys) -> Result<ExchangeStep, SaslError> {
        let state = std::mem::replace(&mut self.state, ScramClientState::Ended);
        let ScramClientState::Derives { first_bare, server_first, server_nonce } = state else {
            return Err(self.ended());
        };
        if keys.hash != self.hash {
            return Err(self.ended());
        }
        let without_proof = format!("c={CHANNEL_BINDING},r={server_nonce}");
        let auth_message = format!("{first_bare},{server_first},{without_proof}");
        let stored_key = self.hash.hash(keys.client_key.expose());
        let client_signature = self.hash.hmac(&stored_key, auth_message.as_bytes());
        let proof = base64::encode(&xor(keys.client_key.expose(), &client_signature));
        let server_signature = self.hash.hmac(keys.server_key.expose(), auth_message.as_bytes());
        self.state = ScramClientState::AwaitsServerFinal { server_signature: Secret::new(server_signature.as_slice()) };
        Ok(ExchangeStep::Send(Secret::from(format!("{without_proof},p={proof}"))))
    }

    fn server_final(&mut self, challenge: &[u8], server_signature: &Secret) -> Result<ExchangeStep, SaslError> {
        let mechanism = self.hash.mechanism();
        match ServerFinal::parse(mechanism, challenge)? {
            ServerFinal::Error(error) => Err(SaslError::Refused { mechanism, reason: readable(error.as_bytes()) }),
            // Equality of secrets takes constant time.
            ServerFinal::Signature(signature) if signature == *server_signature => Ok(ExchangeStep::Done),
            ServerFinal::Signature(_) => Err(SaslError::ServerSignature { mechanism }),
        }
    }

    fn ended(&self) -> SaslError {
        SaslError::Ended { mechanism: self.hash.mechanism() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sasl::Mechanism;

    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    /// Runs RFC 7677's exchange up to the proof, then feeds `signature`.
    fn exchange(hash: ScramHash, signature: &str) -> (String, Result<ExchangeStep, SaslError>) {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        let (mut client, first) = Client::with_nonce(hash, "user", &"pencil".into(), false, nonce).unwrap();
        assert_eq!(first.expose(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let ExchangeStep::Derive(derivation) = client.step(SERVER_FIRST).unwrap() else { panic!("no derivation") };
        let ExchangeStep::Send(last) = client.derived(&derivation.run()).unwrap() else { panic!("no proof") };
        let text = last.expose_text().unwrap();
        let nonce = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=";
        (text.strip_prefix(nonce).unwrap().to_owned(), client.step(signature.as_bytes()))
    }

    #[test]
    fn the_exchange_of_rfc_7677() {
        let (proof, end) = exchange(ScramHash::Sha256, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(proof, "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(end, Ok(ExchangeStep::Done));
    }

    #[test]
    fn the_same_exchange_with_sha_512() {
        // Computed with Python's hashlib and hmac, since no RFC has an example.
        let (proof, end) = exchange(
            ScramHash::Sha512,
            "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
        );
        assert_eq!(proof, "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==");
        assert_eq!(end, Ok(ExchangeStep::Done));
    }

    #[test]
    fn a_signature_that_differs_in_one_bit_is_wrong() {
        let (_, end) = exchange(ScramHash::Sha256, "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(end, Err(SaslError::ServerSignature { mechanism: Mechanism::ScramSha256 }));
    }
}
