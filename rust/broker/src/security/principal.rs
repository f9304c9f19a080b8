//! Principals: who a client is, as ACLs name it.

use std::fmt;
use std::sync::Arc;

/// A principal, written `type:name` as in Kafka: `User:anna`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

/// The type of all principals that authenticate.
const USER: &str = "User";

impl Principal {
    /// The user of this name.
    pub fn user(name: &str) -> Self {
        Self::new(USER, name)
    }

    /// The principal of this type and name.
    pub fn new(kind: &str, name: &str) -> Self {
        Self(format!("{kind}:{name}").into())
    }

    /// The principal of a connection that is not authenticated.
    pub fn anonymous() -> Self {
        Self::user("ANONYMOUS")
    }

    /// Parses `type:name`. The name may be empty and may contain colons.
    ///
    /// # Errors
    /// A text without a colon, or without a type before it.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((kind, _)) if !kind.is_empty() => Ok(Self(text.into())),
            _ => Err(format!("{text:?} is no principal, which is written type:name, such as User:anna")),
        }
    }

    /// The type, the part before the first colon.
    pub fn kind(&self) -> &str {
        self.0.split_once(':').map_or("", |(kind, _)| kind)
    }

    /// The name, the part after the first colon.
    pub fn name(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, name)| name)
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_is_split_at_its_first_colon() {
        let principal = Principal::parse("User:CN=a:b").unwrap();
        assert_eq!((principal.kind(), principal.name(), principal.as_str()), ("User", "CN=a:b", "User:CN=a:b"));
        assert_eq!(Principal::anonymous(), Principal::parse("User:ANONYMOUS").unwrap());
    }

    #[test]
    fn a_principal_without_a_type_is_refused() {
        for text in ["", "anna", ":anna"] {
            assert!(Principal::parse(text).is_err(), "{text:?}");
        }
    }
}
