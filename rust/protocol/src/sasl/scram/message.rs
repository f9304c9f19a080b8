//! Text messages of SCRAM (RFC 5802, section 7).

use crate::base64;
use crate::sasl::{Mechanism, SaslError};
use crate::secret::Secret;

#[derive(Debug)]
pub(super) struct ClientFirst<'a> {
    pub(super) header: &'a str,
    pub(super) authorization_id: String,
    /// The part of the message that is signed.
    pub(super) bare: &'a str,
    pub(super) username: String,
    pub(super) nonce: &'a str,
    /// Kafka's `tokenauth=true`: the user name is the id of a delegation token.
    pub(super) delegation_token: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerFirst<'a> {
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    /// The number of iterations as received, not checked yet; a number beyond 64 bits is `u64::MAX`.
    pub(super) iterations: u64,
}

#[derive(Debug)]
pub(super) struct ClientFinal<'a> {
    pub(super) channel_binding: Vec<u8>,
    pub(super) nonce: &'a str,
    pub(super) proof: Vec<u8>,
    /// Part of the message that is signed.
    pub(super) without_proof: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerFinal<'a> {
    Signature(Secret),
    Error(&'a str),
}

impl<'a> ClientFirst<'a> {
    pub(super) fn parse(mechanism: Mechanism, bytes: &'a [u8]) -> Result<Self, SaslError> {
        let malformed = |problem| SaslError::Malformed { mechanism, problem };
        let text = text(mechanism, bytes)?;
        let rest =
            text.strip_prefix("n,").ok_or(malformed("the client asks for channel binding, which Kafka lacks"))?;
        let (authorization_id, bare) = rest.split_once(',').ok_or(malformed("the header has no end"))?;
        let authorization_id = match authorization_id {
            "" => String::new(),
            named => {
                named.strip_prefix("a=").and_then(unescape).ok_or(malformed("the authorization id is malformed"))?
            }
        };
        let mut attributes = Attributes::new(mechanism, bare)?;
        let username = unescape(attributes.take("n")?).ok_or(malformed("the user name is malformed"))?;
        let nonce = attributes.nonce()?;
        let mut delegation_token = false;
        for (name, value) in attributes.rest()? {
            if name == "tokenauth" {
                delegation_token = value.eq_ignore_ascii_case("true");
            }
        }
        let header = &text[..text.len() - bare.len()];
        Ok(Self { header, authorization_id, bare, username, nonce, delegation_token })
    }
}

impl<'a> ServerFirst<'a> {
    pub(super) fn parse(mechanism: Mechanism, bytes: &'a [u8]) -> Result<Self, SaslError> {
        let malformed = |problem| SaslError::Malformed { mechanism, problem };
        let text = text(mechanism, bytes)?;
        // Some servers refuse the user already here, although RFC 5802 has no error in this message.
        if let Some(reason) = text.strip_prefix("e=") {
            return Err(SaslError::Refused { mechanism, reason: crate::sasl::readable(reason.as_bytes()) });
        }
        let mut attributes = Attributes::new(mechanism, text)?;
        let nonce = attributes.nonce()?;
        let salt = base64::decode_standard(attributes.take("s")?).ok_or(malformed("the salt is not base64"))?;
        if salt.is_empty() {
            return Err(malformed("the salt is empty"));
        }
        let iterations = attributes.take("i")?;
        let is_number = !iterations.starts_with('0')
            && !iterations.is_empty()
            && iterations.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            return Err(malformed("the iteration count is not a number"));
        }
        attributes.rest()?;
        Ok(Self { nonce, salt, iterations: iterations.parse().unwrap_or(u64::MAX) })
    }
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(mechanism: Mechanism, bytes: &'a [u8]) -> Result<Self, SaslError> {
        let malformed = |problem| SaslError::Malformed { mechanism, problem };
        let text = text(mechanism, bytes)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(malformed("the proof is missing"))?;
        let proof = base64::decode_standard(proof).ok_or(malformed("the proof is not base64"))?;
        let mut attributes = Attributes::new(mechanism, without_proof)?;
        let channel_binding = base64::decode_standard(attributes.take("c")?);
        let channel_binding = channel_binding.ok_or(malformed("the channel binding is not base64"))?;
        let nonce = attributes.nonce()?;
        attributes.rest()?;
        Ok(Self { channel_binding, nonce, proof, without_proof })
    }
}

impl<'a> ServerFinal<'a> {
    pub(super) fn parse(mechanism: Mechanism, bytes: &'a [u8]) -> Result<Self, SaslError> {
        let malformed = |problem| SaslError::Malformed { mechanism, problem };
        let text = text(mechanism, bytes)?;
        if let Some(error) = text.strip_prefix("e=") {
            return Ok(Self::Error(error.split(',').next().unwrap_or_default()));
        }
        let mut attributes = Attributes::new(mechanism, text)?;
        let signature =
            base64::decode_standard(attributes.take("v")?).ok_or(malformed("the signature is not base64"))?;
        attributes.rest()?;
        Ok(Self::Signature(Secret::new(signature)))
    }
}

fn text(mechanism: Mechanism, bytes: &[u8]) -> Result<&str, SaslError> {
    std::str::from_utf8(bytes).map_err(|_| SaslError::Malformed { mechanism, problem: "the message is not UTF-8" })
}

/// The attributes of a message, in their fixed order.
struct Attributes<'a> {
    mechanism: Mechanism,
    parts: std::str::Split<'a, char>,
}

impl<'a> Attributes<'a> {
    fn new(mechanism: Mechanism, text: &'a str) -> Result<Self, SaslError> {
        if text.starts_with("m=") {
            return Err(SaslError::MandatoryExtension { mechanism });
        }
        Ok(Self { mechanism, parts: text.split(',') })
    }

    /// Value of the next attribute, which must have this name.
    fn take(&mut self, name: &'static str) -> Result<&'a str, SaslError> {
        let part = self.parts.next().and_then(|part| part.split_once('='));
        match part {
            Some((found, value)) if found == name => Ok(value),
            _ => Err(self.malformed("an attribute is missing, or not in its place")),
        }
    }

    fn nonce(&mut self) -> Result<&'a str, SaslError> {
        let nonce = self.take("r")?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(self.malformed("the nonce is empty, or not printable ASCII"));
        }
        Ok(nonce)
    }

    /// The rest of the message: extensions. Their names and values are checked, and ignored.
    fn rest(self) -> Result<Vec<(&'a str, &'a str)>, SaslError> {
        let mechanism = self.mechanism;
        let extension = |part: &'a str| {
            let (name, value) = part.split_once('=')?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
            (is_name && !value.is_empty() && !value.contains('\0')).then_some((name, value))
        };
        let extensions: Option<Vec<_>> = self.parts.map(extension).collect();
        let extensions = extensions.ok_or(SaslError::Malformed { mechanism, problem: "an extension is malformed" })?;
        if extensions.iter().any(|(name, _)| *name == "m") {
            return Err(SaslError::MandatoryExtension { mechanism });
        }
        Ok(extensions)
    }

    fn malformed(&self, problem: &'static str) -> SaslError {
        SaslError::Malformed { mechanism: self.mechanism, problem }
    }
}

/// Encodes a user name as RFC 5802's saslname.
pub(super) fn escape(name: &str) -> String {
    name.replace('=', "=3D").replace(',', "=2C")
}

/// Decodes a saslname to the user name; `None` if it has an `=` that is no escape.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut unescaped = parts.next()?.to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        unescaped.push(character);
        unescaped.push_str(rest);
    }
    (!unescaped.is_empty()).then_some(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_there_and_back() {
        for name in ["user", "a=b,c", "=2C", ",,==", "žluťoučký", "2C=3D"] {
            let escaped = escape(name);
            assert!(!escaped.contains(','));
            assert_eq!(unescape(&escaped).as_deref(), Some(name));
        }
        for malformed in ["a=b", "=", "=2", "=2c", ""] {
            assert_eq!(unescape(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn the_messages_of_rfc_5802_are_read() {
        // Grammar only: the RFC's example uses SCRAM-SHA-1, which Kafka lacks.
        let mechanism = Mechanism::ScramSha256;
        let first = ClientFirst::parse(mechanism, b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL").unwrap();
        assert_eq!((first.username.as_str(), first.header), ("user", "n,,"));
        assert_eq!(first.bare, "n=user,r=fyko+d2lbbFgONRv9qkxdawL");
        let server_first = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        let server_first = ServerFirst::parse(mechanism, server_first).unwrap();
        assert_eq!((server_first.iterations, server_first.salt.len()), (4096, 12));
        let client_final = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
        let client_final = ClientFinal::parse(mechanism, client_final).unwrap();
        assert_eq!(client_final.channel_binding, b"n,,");
        assert_eq!(client_final.nonce, server_first.nonce);
        let server_final = ServerFinal::parse(mechanism, b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=").unwrap();
        assert!(matches!(server_final, ServerFinal::Signature(signature) if signature.expose().len() == 20));
    }
}
