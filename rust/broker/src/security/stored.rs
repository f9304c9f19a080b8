//! Users, ACLs, client quotas and delegation tokens in the data directory.
//!
//! No password is stored: a user has salted keys, as SCRAM makes them, and PLAIN is checked with those too.
//!
//! Users and ACLs that the settings name are set when the settings first name them, or give another password. What was
//! changed or removed since then stays so at the next start, although the settings still have it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use monedula_protocol::base64;
use monedula_protocol::sasl::scram::{ScramCredential, ScramHash};
use monedula_protocol::secret::Secret;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::{Acl, Entity, Security, SecuritySettings};

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredSecurity {
    pub(super) users: BTreeMap<String, StoredUser>,
    /// The users of the settings, with the passwords that the settings gave them.
    pub(super) given_users: BTreeMap<String, StoredCredential>,
    pub(super) acls: BTreeSet<Acl>,
    /// The ACLs of the settings.
    pub(super) given_acls: BTreeSet<Acl>,
    pub(super) quotas: Vec<StoredQuota>,
    pub(super) tokens: Option<StoredTokens>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredUser {
    /// The credential, with SHA-256, by which PLAIN checks a password; `None` for a user who has SCRAM credentials
    /// alone.
    pub(super) plain: Option<StoredCredential>,
    /// By the mechanism's name.
    pub(super) scram: BTreeMap<String, StoredCredential>,
}

/// The salted keys of a password.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCredential {
    salt: StoredSecret,
    iterations: u32,
    stored_key: StoredSecret,
    server_key: StoredSecret,
}

impl From<&ScramCredential> for StoredCredential {
    fn from(credential: &ScramCredential) -> Self {
        Self {
            salt: StoredSecret(Secret::new(credential.salt.as_slice())),
            iterations: credential.iterations,
            stored_key: StoredSecret(credential.stored_key.clone()),
            server_key: StoredSecret(credential.server_key.clone()),
        }
    }
}

impl From<StoredCredential> for ScramCredential {
    fn from(stored: StoredCredential) -> Self {
        Self {
            salt: stored.salt.0.expose().to_vec(),
            iterations: stored.iterations,
            stored_key: stored.stored_key.0,
            server_key: stored.server_key.0,
        }
    }
}

/// The quotas of an entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredQuota {
    pub(super) entity: Entity,
    pub(super) values: BTreeMap<String, f64>,
}

/// The delegation tokens, and the key of their HMACs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredTokens {
    pub(super) key: StoredSecret,
    pub(super) tokens: BTreeMap<String, StoredToken>,
}

/// A delegation token. Its HMAC follows from its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredToken {
    pub(super) owner: String,
    pub(super) requester: String,
    pub(super) renewers: Vec<String>,
    pub(super) issued_ms: i64,
    pub(super) expires_ms: i64,
    pub(super) max_ms: i64,
}

/// Secret bytes, in base64.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredSecret(pub(super) Secret);

impl Serialize for StoredSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::encode(self.0.expose()))
    }
}

impl<'de> Deserialize<'de> for StoredSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        base64::decode(&text).map(|bytes| Self(Secret::new(bytes))).ok_or_else(|| D::Error::custom("no base64"))
    }
}

impl StoredSecurity {
    /// The file: a line with the SHA-256 of the rest, and JSON.
    pub(crate) fn to_text(&self) -> Result<String, String> {
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        Ok(format!("{}\n{json}\n", checksum(&json)))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// A file that is damaged. Nothing of its content is in the error.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let (sum, json) = text.split_once('\n').ok_or("it is cut off")?;
        let json = json.strip_suffix('\n').ok_or("it is cut off")?;
        if sum != checksum(json) {
            return Err("its content does not fit its checksum".to_owned());
        }
        serde_json::from_str(json).map_err(|error| {
            format!("its JSON cannot be read from line {}, column {} on", error.line() + 1, error.column())
        })
    }
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut sum, byte| {
        let _ = write!(sum, "{byte:02x}");
        sum
    })
}

impl Security {
    /// Takes over what was stored, and of the settings what they did not have when it was stored.
    pub(crate) fn restore(&mut self, settings: &SecuritySettings, stored: StoredSecurity) {
        let StoredSecurity { users, given_users, acls, given_acls, quotas, tokens } = stored;
        self.users.restore(users);
        for (name, password) in &settings.users {
            let was_given = given_users.get(name).is_some_and(|given| is_of(given, password));
            match given_users.get(name).filter(|_| was_given) {
                Some(given) => drop(self.given_users.insert(name.clone(), given.clone())),
                None => self.users.set_password(name, password.clone()),
            }
        }
        let new = settings.acls.iter().filter(|acl| !given_acls.contains(acl)).cloned();
        let acls: BTreeSet<Acl> = acls.into_iter().chain(new).collect();
        match &mut self.authorizer {
            Some(authorizer) => authorizer.restore(acls),
            None => self.idle_acls = acls,
        }
        self.quotas.restore(quotas);
        if let Some(tokens) = tokens {
            self.tokens.restore(tokens);
        }
    }

    pub(crate) fn snapshot(&mut self, settings: &SecuritySettings) -> StoredSecurity {
        for (name, password) in &settings.users {
            let hashed = || StoredCredential::from(&super::users::hashed(ScramHash::Sha256, password));
            self.given_users.entry(name.clone()).or_insert_with(hashed);
        }
        StoredSecurity {
            users: self.users.to_store(),
            given_users: self.given_users.clone(),
            acls: self.authorizer.as_ref().map_or_else(|| self.idle_acls.clone(), super::Authorizer::to_store),
            given_acls: settings.acls.iter().cloned().collect(),
            quotas: self.quotas.to_store(),
            tokens: self.tokens.to_store(),
        }
    }

    /// True if something has changed that is stored. The next call tells of later changes.
    pub(crate) fn take_touched(&mut self) -> bool {
        let authorizer = self.authorizer.as_mut().is_some_and(|authorizer| std::mem::take(&mut authorizer.touched));
        let (users, quotas) = (std::mem::take(&mut self.users.touched), std::mem::take(&mut self.quotas.touched));
        std::mem::take(&mut self.tokens.touched) | users | quotas | authorizer
    }

    /// Has what is stored written again.
    pub(crate) fn touch(&mut self) {
        self.users.touched = true;
    }
}

fn is_of(credential: &StoredCredential, password: &Secret) -> bool {
    super::users::is_of(&credential.clone().into(), password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(password: &str) -> SecuritySettings {
        SecuritySettings { users: [("anna".to_owned(), password.into())].into(), ..Default::default() }
    }

    fn started(settings: &SecuritySettings, stored: &StoredSecurity) -> Security {
        let mut security = Security::new(settings, "localhost").unwrap();
        security.restore(settings, stored.clone());
        security
    }

    #[test]
    fn a_password_is_stored_as_a_salted_key_that_plain_and_scram_take() {
        let settings = settings("canary");
        let stored = Security::new(&settings, "localhost").unwrap().snapshot(&settings);
        assert!(!stored.to_text().unwrap().contains("canary"));
        let security =
            started(&SecuritySettings::default(), &StoredSecurity::from_text(&stored.to_text().unwrap()).unwrap());
        assert!(security.users.has_password("anna", &"canary".into()));
        assert!(!security.users.has_password("anna", &"Canary".into()));
        assert_eq!(security.users.scram_infos("anna").len(), 2);
    }

    #[test]
    fn a_password_that_was_changed_stays_until_the_settings_give_another() {
        let mut security = Security::new(&settings("first"), "localhost").unwrap();
        security.users.set_password("anna", "changed".into());
        let stored = security.snapshot(&settings("first"));
        assert!(started(&settings("first"), &stored).users.has_password("anna", &"changed".into()));
        assert!(started(&settings("second"), &stored).users.has_password("anna", &"second".into()));
    }

    #[test]
    fn what_was_removed_stays_removed_although_the_settings_have_it() {
        let acl = super::super::acl::acl(
            r#"{"principal": "User:anna", "operation": "READ", "resource_type": "TOPIC", "name": "orders"}"#,
        );
        let settings = SecuritySettings { authorizer: true, acls: vec![acl.clone()], ..settings("secret") };
        let mut security = Security::new(&settings, "localhost").unwrap();
        security.users.remove("anna");
        security.authorizer.as_mut().unwrap().remove(&acl);
        let stored = security.snapshot(&settings);
        let mut again = started(&settings, &stored);
        assert_eq!(again.users.names().count(), 0);
        assert_eq!(again.snapshot(&settings).acls.len(), 0);
    }

    #[test]
    fn acls_are_kept_while_there_is_no_authorizer() {
        let acl = super::super::acl::acl(
            r#"{"principal": "User:anna", "operation": "READ", "resource_type": "TOPIC", "name": "orders"}"#,
        );
        let with = SecuritySettings { authorizer: true, acls: vec![acl], ..Default::default() };
        let stored = Security::new(&with, "localhost").unwrap().snapshot(&with);
        let without = SecuritySettings::default();
        assert_eq!(started(&without, &stored).snapshot(&without).acls.len(), 1);
    }

    #[test]
    fn a_file_that_was_changed_is_refused_and_not_quoted() {
        let settings = settings("canary");
        let text = Security::new(&settings, "localhost").unwrap().snapshot(&settings).to_text().unwrap();
        for wrong in ["", "x", &text[..text.len() - 2], &text.replace("4096", "4097"), &text.replace("anna", "boris")] {
            assert!(StoredSecurity::from_text(wrong).is_err());
        }
        let json = r#"{"users": "canary"}"#;
        let error = StoredSecurity::from_text(&format!("{}\n{json}\n", checksum(json))).unwrap_err();
        assert!(error.contains("line 2") && !error.contains("canary"), "{error}");
    }
}
