//! Private keys that are encrypted with a password: PKCS#8 with PBES2, and with the algorithms of older versions of
//! OpenSSL.

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::material::Problem;

/// Highest accepted number of PBKDF2 iterations, which take some seconds. OpenSSL writes 2048, others up to a million.
const MOST_ROUNDS: u32 = 10_000_000;

/// Highest accepted memory of scrypt.
const MOST_SCRYPT_BYTES: u64 = 256 << 20;

pub(super) fn decrypt(der: &[u8], password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, Problem> {
    let damaged = |_| Problem::new("the encrypted private key is damaged");
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der).map_err(damaged)?;
    let Some(password) = password else {
        return Err(Problem::new("the private key is encrypted: give ssl.key.password"));
    };
    if !is_affordable(&encrypted.encryption_algorithm) {
        return Err(Problem::new(
            "the private key asks for more work or memory to decrypt it than any honest one does",
        ));
    }
    let decrypted = encrypted.decrypt(password).map_err(|error| match error {
        pkcs8::Error::EncryptedPrivateKey(pkcs8::pkcs5::Error::DecryptFailed) | pkcs8::Error::Asn1(_) => {
            Problem::new("the private key cannot be decrypted: ssl.key.password is wrong")
        }
        _ => Problem::new(
            "the private key cannot be decrypted: ssl.key.password is wrong, or the key is encrypted in a way that is not \
             supported; openssl pkcs8 -topk8 -in OLD.key -out NEW.key writes one that is",
        ),
    })?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(decrypted.as_bytes().to_vec())))
}

fn is_affordable(scheme: &EncryptionScheme) -> bool {
    match scheme {
        EncryptionScheme::Pbes2(parameters) => match &parameters.kdf {
            Kdf::Pbkdf2(pbkdf2) => pbkdf2.iteration_count <= MOST_ROUNDS,
            Kdf::Scrypt(scrypt) => {
                let bytes = scrypt.cost_parameter.saturating_mul(u64::from(scrypt.block_size)).saturating_mul(128);
                bytes <= MOST_SCRYPT_BYTES && scrypt.parallelization <= 16
            }
            _ => false,
        },
        _ => true,
    }
}
