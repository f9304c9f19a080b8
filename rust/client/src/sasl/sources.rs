//! Token sources without an identity provider: a file that another program keeps up to date, and unsecured tokens.

use std::path::PathBuf;

use monedula_protocol::secret::Secret;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::jwt;
use super::token::{Token, TokenError, TokenSource};
use crate::files;
use crate::wall_clock::now_ms;

/// Largest file that is read as a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// A token that names no expiry is read again after this time.
pub(super) const OPAQUE_LIFE_MS: i64 = 60_000;

/// A token in a file, such as the projected service account token of a Kubernetes pod. It is read anew each time.
#[derive(Debug)]
pub(super) struct FileSource {
    pub(super) path: PathBuf,
    pub(super) extensions: Vec<(String, String)>,
}

impl TokenSource for FileSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let text = read_small(&self.path, "the token").map_err(TokenError::Failed)?;
        let value = text.trim();
        if value.is_empty() {
            return Err(TokenError::Failed(format!("{} is empty", self.path.display())));
        }
        let expires_at_ms = jwt::expires_at_ms(value).unwrap_or_else(|| now_ms() + OPAQUE_LIFE_MS);
        Ok(Token { value: value.into(), expires_at_ms, extensions: self.extensions.clone() })
    }
}

/// The text of a file that holds a token or key.
pub(super) fn read_small(path: &std::path::Path, what: &str) -> Result<Zeroizing<String>, String> {
    files::read_text(path, MAX_TOKEN_BYTES)
        .map_err(|reason| format!("{what} in {} cannot be read: {reason}", path.display()))
}

/// Unsigned tokens, made by the client, for brokers in development (`unsecuredLoginStringClaim_sub`).
#[derive(Debug)]
pub(super) struct UnsecuredSource {
    pub(super) claims: Vec<(String, String)>,
    pub(super) lifetime_seconds: u32,
    pub(super) extensions: Vec<(String, String)>,
}

impl TokenSource for UnsecuredSource {
    fn fetch(&self) -> Result<Token, TokenError> {
        let now = now_ms();
        let expires_at_ms = now + i64::from(self.lifetime_seconds) * 1000;
        let texts = self.claims.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
        let mut claims: Map<String, Value> = texts.collect();
        claims.insert("iat".into(), Value::from(now as f64 / 1000.0));
        claims.insert("exp".into(), Value::from(expires_at_ms as f64 / 1000.0));
        let value = Secret::from(jwt::unsecured(&claims));
        Ok(Token { value, expires_at_ms, extensions: self.extensions.clone() })
    }
}
