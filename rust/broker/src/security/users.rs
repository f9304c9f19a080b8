//! Users and their credentials: passwords for PLAIN, and salted keys for SCRAM.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use monedula_protocol::sasl::scram::{MIN_ITERATIONS, ScramCredential, ScramHash};
use monedula_protocol::secret::Secret;

use super::random;

/// Length of a salt that the broker draws, in bytes.
const SALT_BYTES: usize = 16;

/// All users. They are kept in memory only.
#[derive(Debug, Default)]
pub(crate) struct Users(BTreeMap<String, User>);

#[derive(Debug, Default)]
struct User {
    /// The password that PLAIN compares; `None` for a user who was created with SCRAM credentials alone.
    password: Option<Secret>,
    scram: BTreeMap<ScramHash, Scram>,
}

/// A SCRAM credential of a user.
#[derive(Debug)]
enum Scram {
    /// Derived from the user's password when it is first used, which takes milliseconds.
    OfPassword(OnceCell<ScramCredential>),
    Stored(ScramCredential),
}

impl Users {
    /// Sets the password of a user, for PLAIN and SCRAM. A user who does not exist is created.
    pub(crate) fn set_password(&mut self, name: &str, password: Secret) {
        let of_password = |hash| (hash, Scram::OfPassword(OnceCell::new()));
        let scram = [ScramHash::Sha256, ScramHash::Sha512].map(of_password).into();
        self.0.insert(name.to_owned(), User { password: Some(password), scram });
    }

    /// Sets the credential of one SCRAM mechanism, and leaves the others as they are.
    pub(crate) fn set_scram(&mut self, name: &str, hash: ScramHash, credential: ScramCredential) {
        self.0.entry(name.to_owned()).or_default().scram.insert(hash, Scram::Stored(credential));
    }

    /// Removes the credential of one SCRAM mechanism.
    pub(crate) fn remove_scram(&mut self, name: &str, hash: ScramHash) {
        if let Some(user) = self.0.get_mut(name) {
            user.scram.remove(&hash);
            if user.scram.is_empty() && user.password.is_none() {
                self.0.remove(name);
            }
        }
    }

    /// Removes a user. Returns whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// The names of all users.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether this is the user's password.
    pub(crate) fn has_password(&self, name: &str, password: &Secret) -> bool {
        self.0.get(name).and_then(|user| user.password.as_ref()) == Some(password)
    }

    /// The credential of a SCRAM mechanism.
    pub(crate) fn scram(&self, name: &str, hash: ScramHash) -> Option<ScramCredential> {
        let user = self.0.get(name)?;
        match user.scram.get(&hash)? {
            Scram::Stored(credential) => Some(credential.clone()),
            Scram::OfPassword(made) => {
                let password = user.password.as_ref()?;
                let make = || ScramCredential::from_password(hash, password, &random::<SALT_BYTES>(), MIN_ITERATIONS);
                Some(made.get_or_init(make).clone())
            }
        }
    }

    /// The SCRAM mechanisms of a user, each with its iterations.
    pub(crate) fn scram_infos(&self, name: &str) -> Vec<(ScramHash, u32)> {
        let iterations = |scram: &Scram| match scram {
            Scram::Stored(credential) => credential.iterations,
            Scram::OfPassword(_) => MIN_ITERATIONS,
        };
        let user = self.0.get(name);
        user.into_iter().flat_map(|user| &user.scram).map(|(hash, scram)| (*hash, iterations(scram))).collect()
    }
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
