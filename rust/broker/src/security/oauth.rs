//! Bearer tokens for OAUTHBEARER: JSON Web Tokens that the broker mints and checks with a key of its own.

use hmac::{Hmac, KeyInit, Mac};
use monedula_protocol::base64;
use monedula_protocol::sasl::Authenticated;
use monedula_protocol::secret::Secret;
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::random;

/// The key, and whether tokens without a signature are taken too.
#[derive(Debug)]
pub(crate) struct OauthKeys {
    key: Secret,
    takes_unsecured: bool,
}

impl OauthKeys {
    pub(crate) fn new(takes_unsecured: bool) -> Self {
        Self { key: Secret::new(random::<32>()), takes_unsecured }
    }

    /// Makes a token for a subject. `claims` are added to, and replace, those that it has by itself.
    pub(crate) fn mint(
        &self,
        subject: &str,
        lifetime_ms: i64,
        is_signed: bool,
        claims: Map<String, Value>,
        now_ms: i64,
    ) -> String {
        let algorithm = if is_signed { "HS256" } else { "none" };
        let mut payload = json!({
            "sub": subject,
            "scope": "kafka",
            "iat": now_ms as f64 / 1000.0,
            "exp": now_ms.saturating_add(lifetime_ms) as f64 / 1000.0,
        });
        if let Some(payload) = payload.as_object_mut() {
            payload.extend(claims);
        }
        let part = |value: Value| base64::encode_url_safe(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(json!({ "alg": algorithm, "typ": "JWT" })), part(payload));
        let signature = if is_signed { base64::encode_url_safe(self.sign(&signed).expose()) } else { String::new() };
        format!("{signed}.{signature}")
    }

    fn sign(&self, text: &str) -> Secret {
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(self.key.expose());
        let Ok(mut mac) = mac else { return Secret::default() };
        mac.update(text.as_bytes());
        Secret::new(mac.finalize().into_bytes().as_slice())
    }

    /// Checks a token.
    ///
    /// # Errors
    /// The problem, for the log. It has nothing of the token.
    pub(crate) fn check(&self, token: &str, now_ms: i64) -> Result<Authenticated, &'static str> {
        let mut parts = token.splitn(4, '.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("the token does not have three parts");
        };
        let header = object(header).ok_or("the token's header is no JSON object")?;
        match header.get("alg").and_then(Value::as_str) {
            Some("none") if !self.takes_unsecured => return Err("the token has no signature"),
            Some("none") if signature.is_empty() => {}
            Some("HS256") => {
                let signed = &token[..token.len() - signature.len() - 1];
                let signature = base64::decode(signature).ok_or("the signature is no base64")?;
                if Secret::new(signature) != self.sign(signed) {
                    return Err("the token has another signature than this broker's");
                }
            }
            _ => return Err("the token has an algorithm that this broker does not take: it takes HS256"),
        }
        let payload = object(payload).ok_or("the token's payload is no JSON object")?;
        let ms = |claim: &str| payload.get(claim).and_then(Value::as_f64).map(|seconds| (seconds * 1000.0) as i64);
        let expires_ms = ms("exp").ok_or("the token does not say when it expires (exp)")?;
        if expires_ms <= now_ms {
            return Err("the token has expired");
        }
        if ms("nbf").is_some_and(|from_ms| now_ms < from_ms) {
            return Err("the token is not valid yet (nbf)");
        }
        let subject = payload.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or("the token has no subject (sub)")?;
        Ok(Authenticated { principal: subject.to_owned(), expires_at_ms: Some(expires_ms), by_delegation_token: false })
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&base64::decode(part)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mint(keys: &OauthKeys, is_signed: bool, claims: Value) -> String {
        keys.mint("anna", 1000, is_signed, claims.as_object().unwrap().clone(), 5000)
    }

    #[test]
    fn a_token_of_ones_own_is_taken_until_it_expires() {
        let keys = OauthKeys::new(false);
        let token = mint(&keys, true, json!({}));
        let who = keys.check(&token, 5500).unwrap();
        assert_eq!((who.principal.as_str(), who.expires_at_ms), ("anna", Some(6000)));
        assert_eq!(keys.check(&token, 6000), Err("the token has expired"));
        assert!(OauthKeys::new(false).check(&token, 5500).unwrap_err().contains("another signature"));
    }

    #[test]
    fn a_token_without_a_signature_is_taken_only_where_that_is_set() {
        let token = mint(&OauthKeys::new(false), false, json!({}));
        assert_eq!(OauthKeys::new(false).check(&token, 5500), Err("the token has no signature"));
        assert!(OauthKeys::new(true).check(&token, 5500).is_ok());
        let forged = format!("{token}AAAA");
        assert!(OauthKeys::new(true).check(&forged, 5500).is_err());
    }

    #[test]
    fn claims_are_checked() {
        let keys = OauthKeys::new(false);
        for (claims, problem) in [
            (json!({ "sub": "" }), "no subject"),
            (json!({ "sub": 7 }), "no subject"),
            (json!({ "exp": "soon" }), "when it expires"),
            (json!({ "exp": 1e300 }), ""),
            (json!({ "nbf": 7 }), "not valid yet"),
        ] {
            let found = keys.check(&mint(&keys, true, claims.clone()), 5500);
            assert!(found.err().unwrap_or_default().contains(problem), "{claims}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let keys = OauthKeys::new(true);
        for token in ["", "a", "a.b", "a.b.c", "e30.e30.", "e30.e30.e30.e30", "....", "bnVsbA.bnVsbA."] {
            assert!(keys.check(token, 0).is_err(), "{token}");
        }
    }
}
