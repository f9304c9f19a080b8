//! PKCS#12: the keystores and truststores that Java writes since version 9, and `openssl pkcs12 -export`.

use p12_keystore::{CertificateBag, Pkcs12Archive, PrivateKeyBag};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::material::{Entry, Material, Passwords, Problem};

/// More private keys than any client has, and longer chains than any server takes: what is beyond is left out, since
/// looking for issuers takes time for each certificate that there is.
const MOST_KEYS: usize = 64;
const LONGEST_CHAIN: usize = 16;

/// True if the DER sequence begins with the version of PKCS#12.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    let header = match bytes.get(1) {
        Some(length) if *length < 0x80 => 2,
        Some(0x80) => 2,
        Some(length) => 2 + usize::from(length & 0x7f),
        None => return false,
    };
    bytes.get(header..header + 3) == Some(&[0x02, 0x01, 0x03])
}

/// The private keys with their chains, and the certificates that belong to none of them.
pub(super) fn read(bytes: &[u8], passwords: Passwords<'_>) -> Result<Material, Problem> {
    let password = match passwords.store.map(std::str::from_utf8) {
        Some(Ok(password)) => password,
        Some(Err(_)) => return Err(Problem::new("the password of a PKCS#12 keystore must be UTF-8")),
        None => "",
    };
    let archive = Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| failed(&error, passwords))?;
    let keys = archive.keys.iter().take(MOST_KEYS);
    let chains: Vec<Vec<&CertificateBag>> = keys.map(|key| chain_of(key, &archive.certs)).collect();
    let alone = archive.certs.iter().filter(|bag| !chains.iter().flatten().any(|used| std::ptr::eq(*used, *bag)));
    let certificates = alone.map(certificate).collect();
    let entry = |(bag, chain): (&PrivateKeyBag, &Vec<&CertificateBag>)| Entry {
        chain: chain.iter().copied().map(certificate).collect(),
        key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(bag.key.as_der().to_vec())),
    };
    let entries = archive.keys.iter().zip(&chains).map(entry).collect();
    Ok(Material { certificates, entries, ..Material::default() })
}

/// The certificate of the key, then that of each issuer.
fn chain_of<'c>(key: &PrivateKeyBag, certs: &'c [CertificateBag]) -> Vec<&'c CertificateBag> {
    let id = key.local_key_id.as_ref().map(AsRef::as_ref);
    let own = certs.iter().find(|bag| bag.local_key_id.as_deref() == id).or_else(|| certs.first());
    let mut chain: Vec<&CertificateBag> = own.into_iter().collect();
    while let Some(issuer) = chain.last().and_then(|last| issuer_of(last, certs))
        && chain.len() < LONGEST_CHAIN
        // A circle ends it.
        && !chain.iter().any(|known| known.cert == issuer.cert)
    {
        chain.push(issuer);
    }
    chain
}

/// The certificate of the authority that issued this one: of those with its name the one whose key has signed it.
fn issuer_of<'c>(bag: &CertificateBag, certs: &'c [CertificateBag]) -> Option<&'c CertificateBag> {
    let named = || certs.iter().filter(|other| other.cert.subject() == bag.cert.issuer());
    let signer = || named().find(|other| is_signed_by(bag, other));
    let first = named().next();
    if named().nth(1).is_some() { signer().or(first) } else { first }
}

fn is_signed_by(bag: &CertificateBag, issuer: &CertificateBag) -> bool {
    let parsed = [bag, issuer].map(|bag| X509Certificate::from_der(bag.cert.as_der()));
    let [Ok((_, signed)), Ok((_, issuer))] = parsed else { return false };
    let (key, message) = (&issuer.public_key().subject_public_key.data, signed.tbs_certificate.as_ref());
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    algorithms.iter().any(|algorithm| algorithm.verify_signature(key, message, &signed.signature_value.data).is_ok())
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
