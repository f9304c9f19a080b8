//! PEM: blocks of base64 between lines that say what they are. Text around them is a comment (RFC 7468).
//!
//! A block may stand in one line, as Java takes it in a properties file and people put it into environment variables,
//! where each line break may also be left as a backslash and an n.

use monedula_protocol::base64;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer,
    PrivateSec1KeyDer,
};
use zeroize::Zeroizing;

use super::material::{Material, Passwords, Problem};
use super::pkcs8;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// True if there is a block somewhere.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
}

struct Block<'t> {
    label: &'t str,
    body: &'t str,
}

/// Takes the next block off the text.
fn next<'t>(rest: &mut &'t str) -> Result<Option<Block<'t>>, Problem> {
    let Some((_, after)) = rest.split_once(BEGIN) else { return Ok(None) };
    let Some((label, after)) = after.split_once(DASHES) else {
        return Err(Problem::new("a line -----BEGIN has no end"));
    };
    let end = format!("{END}{label}{DASHES}");
    let Some((body, after)) = after.split_once(end.as_str()) else {
        return Err(Problem(format!("the block -----BEGIN {}----- has no {end}", shown(label))));
    };
    *rest = after;
    Ok(Some(Block { label, body }))
}

/// Shortens a label for an error message: the text in the place of a label may be part of a key.
fn shown(label: &str) -> &str {
    let plain =
        label.len() <= 40 && label.bytes().all(|byte| byte.is_ascii_uppercase() || b" 0123456789".contains(&byte));
    if plain { label } else { "..." }
}

impl Block<'_> {
    /// The decoded bytes, without headers such as `DEK-Info`.
    fn decode(&self) -> Result<Zeroizing<Vec<u8>>, Problem> {
        let mut text = Zeroizing::new(String::with_capacity(self.body.len()));
        let mut characters = self.body.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.next_if(|next| matches!(next, 'n' | 'r')).is_some() => {}
                character if character.is_ascii_whitespace() => {}
                character => text.push(character),
            }
        }
        let decoded = base64::decode(&text).filter(|bytes| !bytes.is_empty());
        decoded.map(Zeroizing::new).ok_or_else(|| {
            Problem(format!("the block -----BEGIN {}----- is not base64; it may be cut or damaged", shown(self.label)))
        })
    }
}

/// All certificates, the first private key, and all revocation lists.
pub(super) fn read(bytes: &[u8], passwords: Passwords<'_>) -> Result<Material, Problem> {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut material) = (&*text, Material::default());
    while let Some(block) = next(&mut rest)? {
        match block.label {
            "CERTIFICATE" | "X509 CERTIFICATE" => {
                material.certificates.push(CertificateDer::from(block.decode()?.to_vec()));
            }
            "X509 CRL" => material.revocations.push(CertificateRevocationListDer::from(block.decode()?.to_vec())),
            label if label.ends_with("PRIVATE KEY") && material.key.is_none() => {
                material.key = Some(private_key(&block, passwords)?);
            }
            // Parameters, public keys and certificate requests are not used.
            _ => {}
        }
    }
    Ok(material)
}

fn private_key(block: &Block<'_>, passwords: Passwords<'_>) -> Result<PrivateKeyDer<'static>, Problem> {
    if block.body.contains("DEK-Info") || block.body.contains("Proc-Type") {
        return Err(Problem::new(
            "the private key is encrypted in OpenSSL's old way (DEK-Info), which is weak and not supported: convert it with \
             openssl pkcs8 -topk8 -in OLD.key -out NEW.key",
        ));
    }
    let bytes = block.decode()?;
    Ok(match block.label {
        "PRIVATE KEY" => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(bytes.to_vec())),
        "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(bytes.to_vec())),
        "EC PRIVATE KEY" => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(bytes.to_vec())),
        "ENCRYPTED PRIVATE KEY" => pkcs8::decrypt(&bytes, passwords.key.or(passwords.store))?,
        "OPENSSH PRIVATE KEY" => {
            return Err(Problem::new("the private key is one for SSH; TLS needs the key of the certificate"));
        }
        label => return Err(Problem(format!("private keys of the kind {} are not supported", shown(label)))),
    })
}
