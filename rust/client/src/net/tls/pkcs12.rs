//! PKCS#12: the keystores and truststores that Java writes since version 9, and `openssl pkcs12 -export`.

use p12_keystore::{CertificateBag, Pkcs12Archive};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::material::{Material, Passwords, Problem};

/// Whether the DER sequence begins with the version of PKCS#12.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    let header = match bytes.get(1) {
        Some(length) if *length < 0x80 => 2,
        Some(0x80) => 2,
        Some(length) => 2 + usize::from(length & 0x7f),
        None => return false,
    };
    bytes.get(header..header + 3) == Some(&[0x02, 0x01, 0x03])
}

/// Returns the certificates and the first private key. The chain of that key comes first.
pub(super) fn read(bytes: &[u8], passwords: Passwords<'_>) -> Result<Material, Problem> {
    let password = match passwords.store.map(std::str::from_utf8) {
        Some(Ok(password)) => password,
        Some(Err(_)) => return Err(Problem::new("the password of a PKCS#12 keystore must be UTF-8")),
        None => "",
    };
    let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| failed(&error, passwords))?;
    let Some(key) = archive.keys.first() else {
        let certificates = archive.certs.iter().map(certificate).collect();
        return Ok(Material { certificates, ..Material::default() });
    };
    let id = key.local_key_id.as_ref().map(AsRef::as_ref);
    let own = |bag: &&CertificateBag| bag.local_key_id.as_deref() == id;
    let leaf = archive.certs.iter().find(own).or_else(|| archive.certs.first());
    let mut chain: Vec<&CertificateBag> = leaf.into_iter().collect();
    // Each certificate is followed by that of its issuer. A certificate that was there before ends the chain.
    while let Some(last) = chain.last()
        && let Some(issuer) = archive.certs.iter().find(|bag| bag.cert.subject() == last.cert.issuer())
        && !chain.iter().any(|known| known.cert == issuer.cert)
    {
        chain.push(issuer);
    }
    Ok(Material {
        certificates: chain.into_iter().map(certificate).collect(),
        key: Some(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.key.as_der().to_vec()))),
        ..Material::default()
    })
}

fn certificate(bag: &CertificateBag) -> CertificateDer<'static> {
    CertificateDer::from(bag.cert.as_der().to_vec())
}

fn failed(error: &p12_keystore::error::Error, passwords: Passwords<'_>) -> Problem {
    use p12_keystore::error::Error;
    match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) if passwords.store.is_none() => {
            Problem::new("the PKCS#12 keystore needs its password (ssl.keystore.password, ssl.truststore.password)")
        }
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => {
            Problem::new("the PKCS#12 keystore cannot be opened: its password is wrong, or the file is damaged")
        }
        Error::UnsupportedEncryptionScheme | Error::UnsupportedMacAlgorithm => Problem::new(
            "the PKCS#12 keystore is encrypted in a way that is not supported; write it anew with keytool -importkeystore \
             -srckeystore OLD.p12 -destkeystore NEW.p12 -deststoretype PKCS12",
        ),
        _ => Problem::new("the PKCS#12 keystore is damaged"),
    }
}
