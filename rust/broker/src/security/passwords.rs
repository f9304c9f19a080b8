//! Passwords in the JSON of options and commands: they are read, and never written.

use std::collections::BTreeMap;

use monedula_protocol::secret::Secret;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A password in a command. It is serialized as `***`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Password(pub Secret);

impl Serialize for Password {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl<'de> Deserialize<'de> for Password {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Errors of serde would quote a value of another type.
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text.into())),
            _ => Err(D::Error::custom("a password is a text")),
        }
    }
}

/// Reads users with their passwords.
pub(crate) fn users<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Secret>, D::Error> {
    let users = BTreeMap::<String, Password>::deserialize(deserializer)?;
    Ok(users.into_iter().map(|(name, Password(password))| (name, password)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_and_not_written() {
        let password: Password = serde_json::from_str("\"canary\"").unwrap();
        assert_eq!(password.0.expose(), b"canary");
        assert_eq!(serde_json::to_string(&password).unwrap(), "\"***\"");
        assert!(!format!("{password:?}").contains("canary"));
    }

    #[test]
    fn a_password_of_another_type_is_not_quoted() {
        let error = serde_json::from_str::<Password>("12345").unwrap_err().to_string();
        assert!(error.starts_with("a password is a text"), "{error}");
    }
}
