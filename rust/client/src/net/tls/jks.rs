//! JKS, the format of Java's keystores until PKCS#12 became the default with Java 9.
//!
//! Big-endian: magic, version (1 or 2), the number of entries; each is a private key with its chain, or a certificate;
//! then a SHA-1 over the password, a constant phrase and all of this. Private keys are encrypted by Sun's own
//! algorithm: an exclusive-or with a stream of SHA-1 hashes of the password, and a SHA-1 of the key at the end.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::material::{Entry, Material, Passwords, Problem};

const HASH: usize = 20;
const PRIVATE_KEY: u32 = 1;
const CERTIFICATE: u32 = 2;

/// Follows the password in the hash over the store.
const PHRASE: &[u8] = b"Mighty Aphrodite";

/// Sun's proprietary encryption of keys in a JKS, 1.3.6.1.4.1.42.2.17.1.1 as an object identifier in DER.
const KEY_PROTECTOR: [u8; 12] = [0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

/// The bytes of the store that are not read yet.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Result<&'b [u8], Problem> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(Problem::new("the JKS keystore is cut or damaged"));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, Problem> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Bytes with a length of two bytes before them, as Java writes texts.
    fn text(&mut self) -> Result<&'b [u8], Problem> {
        let length = self.take(2)?;
        self.take(usize::from(u16::from_be_bytes([length[0], length[1]])))
    }

    /// Bytes with a length of four bytes before them.
    fn bytes(&mut self) -> Result<&'b [u8], Problem> {
        let length = self.u32()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, Problem> {
        if version == 2 && self.text()? != b"X.509" {
            return Err(Problem::new("the JKS keystore has a certificate that is not X.509"));
        }
        Ok(CertificateDer::from(self.bytes()?.to_vec()))
    }
}

/// The private keys with their chains, and the certificates that stand alone. Keys with another password than the first
/// that can be opened are left out.
pub(super) fn read(store: &[u8], passwords: Passwords<'_>) -> Result<Material, Problem> {
    let mut reader = Reader(store);
    reader.take(4)?;
    let version = reader.u32()?;
    if !(1..=2).contains(&version) {
        return Err(Problem(format!("the JKS keystore has the version {version}; 1 and 2 are known")));
    }
    if let Some(password) = passwords.store {
        check(store, &utf16(password)?)?;
    }
    let (mut entries, mut certificates, mut failure) = (Vec::new(), Vec::new(), None);
    for _ in 0..reader.u32()? {
        let tag = reader.u32()?;
        let _alias = reader.text()?;
        let _date = reader.take(8)?;
        match tag {
            PRIVATE_KEY => {
                let key = reader.bytes()?;
                let mut chain = Vec::new();
                for _ in 0..reader.u32()? {
                    chain.push(reader.certificate(version)?);
                }
                match decrypt(key, passwords.key.or(passwords.store)) {
                    Ok(key) => entries.push(Entry { chain, key }),
                    Err(problem) => _ = failure.get_or_insert(problem),
                }
            }
            CERTIFICATE => certificates.push(reader.certificate(version)?),
            tag => return Err(Problem(format!("the JKS keystore has an entry of the unknown kind {tag}"))),
        }
    }
    match failure {
        Some(problem) if entries.is_empty() => Err(problem),
        _ => Ok(Material { certificates, entries, ..Material::default() }),
    }
}

/// The password as Java hashes it: two bytes for each of its UTF-16 units.
fn utf16(password: &[u8]) -> Result<Zeroizing<Vec<u8>>, Problem> {
    let text =
        std::str::from_utf8(password).map_err(|_| Problem::new("the password of a JKS keystore must be UTF-8"))?;
    Ok(Zeroizing::new(text.encode_utf16().flat_map(u16::to_be_bytes).collect()))
}

fn sha1(parts: &[&[u8]]) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    context.finish()
}

fn check(store: &[u8], password: &[u8]) -> Result<(), Problem> {
    let cut = || Problem::new("the JKS keystore is cut or damaged");
    let (content, hash) = store.len().checked_sub(HASH).map(|at| store.split_at(at)).ok_or_else(cut)?;
    let expected = sha1(&[password, PHRASE, content]);
    verify_slices_are_equal(expected.as_ref(), hash)
        .map_err(|_| Problem::new("the JKS keystore cannot be opened: its password is wrong, or the file is damaged"))
}

fn decrypt(key: &[u8], password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, Problem> {
    let Some(password) = password else {
        return Err(Problem::new(
            "the private key in the JKS keystore needs ssl.keystore.password or ssl.key.password",
        ));
    };
    let password = utf16(password)?;
    let unknown = || Problem::new("the private key in the JKS keystore is encrypted in an unknown way");
    // EncryptedPrivateKeyInfo: a sequence of the algorithm and an octet string.
    let at =
        key.windows(KEY_PROTECTOR.len()).take(16).position(|window| window == KEY_PROTECTOR).ok_or_else(unknown)?;
    let mut after = Reader(&key[at + KEY_PROTECTOR.len()..]);
    // Java writes the algorithm's parameters as NULL, or leaves them out.
    if after.0.starts_with(&[0x05, 0x00]) {
        after.take(2)?;
    }
    let protected = octet_string(&mut after).ok_or_else(unknown)?;
    let length = protected.len().checked_sub(2 * HASH).ok_or_else(unknown)?;
    let (salt, rest) = protected.split_at(HASH);
    let (encrypted, hash) = rest.split_at(length);
    let mut plain = Zeroizing::new(Vec::with_capacity(length));
    let mut stream = sha1(&[&password, salt]);
    for chunk in encrypted.chunks(HASH) {
        plain.extend(chunk.iter().zip(stream.as_ref()).map(|(byte, mask)| byte ^ mask));
        stream = sha1(&[&password, stream.as_ref()]);
    }
    verify_slices_are_equal(sha1(&[&password, &plain]).as_ref(), hash).map_err(|_| {
        Problem::new("the private key in the JKS keystore cannot be decrypted: ssl.key.password is wrong")
    })?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(plain.to_vec())))
}

/// The content of a DER octet string; `None` if there is none or it is longer than what follows.
fn octet_string<'b>(reader: &mut Reader<'b>) -> Option<&'b [u8]> {
    let header = reader.take(2).ok()?;
    if header[0] != 0x04 {
        return None;
    }
    let length = match header[1] {
        short @ 0..=0x7f => usize::from(short),
        long @ 0x81..=0x84 => {
            let bytes = reader.take(usize::from(long & 0x7f)).ok()?;
            bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte))
        }
        _ => return None,
    };
    reader.take(length).ok()
}
