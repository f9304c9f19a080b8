//! The hash functions of SCRAM.

use hmac::{Hmac, KeyInit, Mac};
use pbkdf2::pbkdf2_hmac;
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

use crate::sasl::Mechanism;

/// The hash function of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScramHash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl ScramHash {
    /// The mechanism that uses it.
    pub fn mechanism(self) -> Mechanism {
        match self {
            Self::Sha256 => Mechanism::ScramSha256,
            Self::Sha512 => Mechanism::ScramSha512,
        }
    }

    /// Length of a hash, and of each key, in bytes.
    pub fn output_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// PBKDF2 of the password: RFC 5802's `Hi`, Kafka's salted password. Takes milliseconds to half a second.
    pub fn salted_password(self, password: &[u8], salt: &[u8], iterations: u32) -> Zeroizing<Vec<u8>> {
        let mut salted = Zeroizing::new(vec![0; self.output_bytes()]);
        match self {
            Self::Sha256 => pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted),
            Self::Sha512 => pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted),
        }
        salted
    }

    pub(super) fn hash(self, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        })
    }

    pub(super) fn hmac(self, key: &[u8], bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        fn compute<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Vec<u8> {
            let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(bytes);
            mac.finalize().into_bytes().to_vec()
        }
        Zeroizing::new(match self {
            Self::Sha256 => compute::<Hmac<Sha256>>(key, bytes),
            Self::Sha512 => compute::<Hmac<Sha512>>(key, bytes),
        })
    }
}
