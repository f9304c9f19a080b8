//! Values derived from a password: the client's keys, and the credential that a broker stores.

use zeroize::Zeroizing;

use super::hash::ScramHash;
use crate::secret::Secret;

/// Keys derived from a password, a salt and a number of iterations. They permit a login, as the password does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramKeys {
    pub(super) hash: ScramHash,
    pub(super) client_key: Secret,
    pub(super) server_key: Secret,
}

impl ScramKeys {
    fn from_salted(hash: ScramHash, salted_password: &[u8]) -> Self {
        let key = |name: &[u8]| Secret::new(hash.hmac(salted_password, name).as_slice());
        Self { hash, client_key: key(b"Client Key"), server_key: key(b"Server Key") }
    }
}

/// PBKDF2 job that a client has to run, on a thread that nobody else waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDerivation {
    /// The mechanism's hash.
    pub hash: ScramHash,
    /// The salt of the server.
    pub salt: Vec<u8>,
    /// Number of iterations, already checked against the limits.
    pub iterations: u32,
    pub(super) password: Secret,
}

impl KeyDerivation {
    /// Derives the keys. Takes milliseconds to half a second.
    pub fn run(&self) -> ScramKeys {
        let salted = self.hash.salted_password(self.password.expose(), &self.salt, self.iterations);
        ScramKeys::from_salted(self.hash, &salted)
    }
}

/// The credential that a broker stores: enough to check the password, not enough to log in elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramCredential {
    /// The salt.
    pub salt: Vec<u8>,
    /// The number of iterations.
    pub iterations: u32,
    /// The hash of the client's key.
    pub stored_key: Secret,
    /// The server's key.
    pub server_key: Secret,
}

impl ScramCredential {
    /// The credential of a password. Takes milliseconds to half a second.
    pub fn from_password(hash: ScramHash, password: &Secret, salt: &[u8], iterations: u32) -> Self {
        Self::from_salted(hash, &hash.salted_password(password.expose(), salt, iterations), salt, iterations)
    }

    /// The credential of a salted password, which is what AlterUserScramCredentials carries (KIP-554).
    pub fn from_salted(hash: ScramHash, salted_password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let ScramKeys { client_key, server_key, .. } = ScramKeys::from_salted(hash, salted_password);
        let stored_key = Secret::new(hash.hash(client_key.expose()).as_slice());
        Self { salt: salt.to_vec(), iterations, stored_key, server_key }
    }
}

/// XOR of two values of one length.
pub(super) fn xor(left: &[u8], right: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(left.iter().zip(right).map(|(left, right)| left ^ right).collect())
}
