//! JSON web tokens, as far as a client needs them: their expiry, unsecured ones for development, and signed assertions.

use monedula_protocol::base64;
use monedula_protocol::secret::Secret;
use rustls::SignatureScheme;
use serde_json::{Map, Value, json};

use crate::net::tls::private_key;

/// Expiry of the token by its claim `exp`, in milliseconds since 1970; `None` if it is opaque or has none.
pub(super) fn expires_at_ms(token: &str) -> Option<i64> {
    let claims = token.split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&base64::decode(claims)?).ok()?;
    let seconds = claims.get("exp")?.as_f64()?;
    // A time beyond the range of the clock never comes.
    Some((seconds * 1000.0) as i64)
}

/// An unsigned token, as Java's clients make it for brokers in development.
pub(super) fn unsecured(claims: &Map<String, Value>) -> String {
    format!("{}.{}.", part(&json!({"alg": "none"})), part(&Value::from(claims.clone())))
}

pub(super) fn part(value: &Value) -> String {
    base64::encode_url_safe(value.to_string().as_bytes())
}

/// The algorithm that signs an assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

/// The setting that has the password of an assertion's private key.
pub(super) const PASSPHRASE: &str = "sasl.oauthbearer.assertion.private.key.passphrase";

/// Signs an assertion with a private key in PEM, which may be encrypted. `header` has what its header names besides the
/// algorithm, such as `kid`.
///
/// # Errors
/// Problem of the key.
pub(super) fn signed(
    algorithm: Algorithm,
    pem: &[u8],
    passphrase: Option<&Secret>,
    mut header: Map<String, Value>,
    claims: &Map<String, Value>,
) -> Result<String, String> {
    let key = private_key(pem, passphrase.map(Secret::expose), PASSPHRASE)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(key).map_err(|_| "the private key cannot be used")?;
    let scheme = match algorithm {
        Algorithm::Rs256 => SignatureScheme::RSA_PKCS1_SHA256,
        Algorithm::Es256 => SignatureScheme::ECDSA_NISTP256_SHA256,
    };
    let wrong_kind = || format!("the private key is of another kind than {} takes", algorithm.name());
    let signer = key.choose_scheme(&[scheme]).ok_or_else(wrong_kind)?;
    header.insert("alg".into(), algorithm.name().into());
    header.insert("typ".into(), "JWT".into());
    let text = format!("{}.{}", part(&Value::from(header)), part(&Value::from(claims.clone())));
    let signature = signer.sign(text.as_bytes()).map_err(|_| "the private key could not sign")?;
    let signature = match algorithm {
        Algorithm::Rs256 => signature,
        Algorithm::Es256 => fixed_width(&signature).ok_or("the private key could not sign")?,
    };
    Ok(format!("{text}.{}", base64::encode_url_safe(&signature)))
}

/// Converts an ECDSA signature from DER, which TLS uses, to the two numbers of 32 bytes that JWS uses.
fn fixed_width(der: &[u8]) -> Option<Vec<u8>> {
    let (&[0x30, _], mut rest) = der.split_first_chunk::<2>()? else { return None };
    let mut fixed = vec![0; 64];
    for half in fixed.chunks_mut(32) {
        let (&[0x02, length], after) = rest.split_first_chunk::<2>()? else { return None };
        let (number, after) = after.split_at_checked(usize::from(length))?;
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        half.get_mut(32_usize.checked_sub(number.len())?..)?.copy_from_slice(number);
        rest = after;
    }
    Some(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(json: Value) -> Map<String, Value> {
        json.as_object().cloned().expect("an object")
    }

    #[test]
    fn the_end_of_a_token_is_its_claim() {
        let token = unsecured(&claims(json!({"sub": "anna", "exp": 1_700_000_000})));
        assert_eq!(expires_at_ms(&token), Some(1_700_000_000_000));
        let token = unsecured(&claims(json!({"exp": 1_700_000_000.5})));
        assert_eq!(expires_at_ms(&token), Some(1_700_000_000_500));
    }

    #[test]
    fn opaque_tokens_have_no_end_of_their_own() {
        for token in ["", "opaque", "a.b.c", "a.!!!.c", "..", "e30.e30.", "e30.eyJleHAiOiJ4In0."] {
            assert_eq!(expires_at_ms(token), None, "{token}");
        }
    }

    #[test]
    fn a_claim_beyond_the_clock_is_the_last_moment() {
        let token = unsecured(&claims(json!({"exp": 1e300})));
        assert_eq!(expires_at_ms(&token), Some(i64::MAX));
    }

    #[test]
    fn numbers_of_ecdsa_are_padded_and_cut_to_32_bytes() {
        let mut der = vec![0x30, 0x26, 0x02, 0x01, 0x05, 0x02, 0x21, 0x00];
        der.extend([0xff; 32]);
        let fixed = fixed_width(&der).expect("a signature");
        assert_eq!((fixed[31], fixed[0]), (5, 0));
        assert_eq!(fixed[32..], [0xff; 32]);
        for cut in 0..der.len() {
            assert_eq!(fixed_width(&der[..cut]), None);
        }
    }
}
