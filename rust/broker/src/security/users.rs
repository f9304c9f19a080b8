//! Users and their credentials: passwords for PLAIN, and salted keys for SCRAM.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use monedula_protocol::sasl::scram::{MIN_ITERATIONS, ScramCredential, ScramHash};
use monedula_protocol::secret::Secret;

use super::random;
use super::stored::{StoredCredential, StoredUser};

/// Length of a salt that the broker draws, in bytes.
const SALT_BYTES: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Users {
    by_name: BTreeMap<String, User>,
    /// True after a change that is not stored yet.
    pub(super) touched: bool,
}

#[derive(Debug, Default)]
struct User {
    /// The password for PLAIN; `None` for a user who was created with SCRAM credentials alone.
    plain: Option<Plain>,
    scram: BTreeMap<ScramHash, Scram>,
}

/// A password, as PLAIN compares it.
#[derive(Debug)]
enum Plain {
    /// As it was set, and its salted key once it was stored.
    Set(Secret, OnceCell<ScramCredential>),
    /// As it was stored, with SHA-256.
    Stored(ScramCredential),
}

/// A SCRAM credential of a user.
#[derive(Debug)]
enum Scram {
    /// Derived from the user's password when it is first used, which takes milliseconds.
    OfPassword(OnceCell<ScramCredential>),
    Stored(ScramCredential),
}

/// The credential of a password, with a salt of its own.
pub(super) fn hashed(hash: ScramHash, password: &Secret) -> ScramCredential {
    ScramCredential::from_password(hash, password, &random::<SALT_BYTES>(), MIN_ITERATIONS)
}

/// True if a credential, made with SHA-256, is that of a password.
pub(super) fn is_of(credential: &ScramCredential, password: &Secret) -> bool {
    let made = ScramCredential::from_password(ScramHash::Sha256, password, &credential.salt, credential.iterations);
    made.stored_key == credential.stored_key
}

impl Users {
    /// Sets the password of a user, for PLAIN and SCRAM. A user who does not exist is created.
    pub(crate) fn set_password(&mut self, name: &str, password: Secret) {
        let of_password = |hash| (hash, Scram::OfPassword(OnceCell::new()));
        let scram = [ScramHash::Sha256, ScramHash::Sha512].map(of_password).into();
        self.by_name.insert(name.to_owned(), User { plain: Some(Plain::Set(password, OnceCell::new())), scram });
        self.touched = true;
    }

    /// Sets the credential of one SCRAM mechanism, and leaves the others as they are.
    pub(crate) fn set_scram(&mut self, name: &str, hash: ScramHash, credential: ScramCredential) {
        self.by_name.entry(name.to_owned()).or_default().scram.insert(hash, Scram::Stored(credential));
        self.touched = true;
    }

    /// Removes the credential of one SCRAM mechanism.
    pub(crate) fn remove_scram(&mut self, name: &str, hash: ScramHash) {
        if let Some(user) = self.by_name.get_mut(name) {
            user.scram.remove(&hash);
            if user.scram.is_empty() && user.plain.is_none() {
                self.by_name.remove(name);
            }
            self.touched = true;
        }
    }

    /// Removes a user. Returns whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.touched = true;
        self.by_name.remove(name).is_some()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    pub(crate) fn has_password(&self, name: &str, password: &Secret) -> bool {
        match self.by_name.get(name).and_then(|user| user.plain.as_ref()) {
            Some(Plain::Set(set, _)) => set == password,
            Some(Plain::Stored(credential)) => is_of(credential, password),
            None => false,
        }
    }

    /// The credential of a SCRAM mechanism.
    pub(crate) fn scram(&self, name: &str, hash: ScramHash) -> Option<ScramCredential> {
        self.by_name.get(name)?.scram(hash)
    }

    /// The SCRAM mechanisms of a user, each with its iterations.
    pub(crate) fn scram_infos(&self, name: &str) -> Vec<(ScramHash, u32)> {
        let iterations = |scram: &Scram| match scram {
            Scram::Stored(credential) => credential.iterations,
            Scram::OfPassword(_) => MIN_ITERATIONS,
        };
        let user = self.by_name.get(name);
        user.into_iter().flat_map(|user| &user.scram).map(|(hash, scram)| (*hash, iterations(scram))).collect()
    }
}

impl Users {
    pub(super) fn restore(&mut self, stored: BTreeMap<String, StoredUser>) {
        let user = |stored: StoredUser| User {
            plain: stored.plain.map(|plain| Plain::Stored(plain.into())),
            scram: stored
                .scram
                .into_iter()
                .filter_map(|(name, stored)| Some((hash_named(&name)?, Scram::Stored(stored.into()))))
                .collect(),
        };
        self.by_name = stored.into_iter().map(|(name, stored)| (name, user(stored))).collect();
    }

    pub(super) fn to_store(&self) -> BTreeMap<String, StoredUser> {
        self.by_name.iter().map(|(name, user)| (name.clone(), user.to_store())).collect()
    }
}

impl User {
    fn scram(&self, hash: ScramHash) -> Option<ScramCredential> {
        match (self.scram.get(&hash)?, &self.plain) {
            (Scram::Stored(credential), _) => Some(credential.clone()),
            (Scram::OfPassword(made), Some(Plain::Set(password, _))) => {
                Some(made.get_or_init(|| hashed(hash, password)).clone())
            }
            (Scram::OfPassword(_), _) => None,
        }
    }

    fn to_store(&self) -> StoredUser {
        let plain = self.plain.as_ref().map(|plain| match plain {
            Plain::Set(password, made) => made.get_or_init(|| hashed(ScramHash::Sha256, password)),
            Plain::Stored(credential) => credential,
        });
        let scram = |hash: &ScramHash| Some((hash.mechanism().name().to_owned(), (&self.scram(*hash)?).into()));
        StoredUser { plain: plain.map(StoredCredential::from), scram: self.scram.keys().filter_map(scram).collect() }
    }
}

fn hash_named(name: &str) -> Option<ScramHash> {
    [ScramHash::Sha256, ScramHash::Sha512].into_iter().find(|hash| hash.mechanism().name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_compared_and_salted() {
        let mut users = Users::default();
        users.set_password("anna", "secret".into());
        assert!(users.has_password("anna", &"secret".into()));
        assert!(!users.has_password("anna", &"Secret".into()));
        assert!(!users.has_password("ben", &"secret".into()));
        let credential = users.scram("anna", ScramHash::Sha256).unwrap();
        assert_eq!(users.scram("anna", ScramHash::Sha256), Some(credential.clone()), "it is made once");
        assert_ne!(users.scram("anna", ScramHash::Sha512).unwrap().salt, credential.salt);
        assert_eq!(users.scram_infos("anna"), [(ScramHash::Sha256, 4096), (ScramHash::Sha512, 4096)]);
    }

    #[test]
    fn scram_credentials_come_and_go_one_by_one() {
        let mut users = Users::default();
        let credential = ScramCredential::from_password(ScramHash::Sha256, &"secret".into(), b"salt", 5000);
        users.set_scram("ben", ScramHash::Sha256, credential.clone());
        assert_eq!(users.scram("ben", ScramHash::Sha256), Some(credential));
        assert_eq!(users.scram("ben", ScramHash::Sha512), None);
        assert!(!users.has_password("ben", &"secret".into()));
        users.remove_scram("ben", ScramHash::Sha256);
        assert_eq!(users.names().count(), 0);
    }

    #[test]
    fn debug_shows_no_password() {
        let mut users = Users::default();
        users.set_password("anna", "canary".into());
        assert!(!format!("{users:?}").contains("canary"));
    }
}
