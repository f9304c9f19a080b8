//! Access control lists: their entries, and the filters that select them, with Kafka's codes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The wildcard: any resource name in a literal pattern, any host, any principal of a type.
pub(crate) const WILDCARD: &str = "*";
/// The only name of the resource of type CLUSTER.
pub(crate) const CLUSTER_NAME: &str = "kafka-cluster";

/// Code of every enum for "unknown": what a newer client might send.
pub(crate) const UNKNOWN: i8 = 0;
/// Code of every enum for "any", which only filters have.
pub(crate) const ANY: i8 = 1;

macro_rules! coded {
    ($(#[doc = $doc:literal])* $type:ident { $($(#[doc = $variant_doc:literal])* $variant:ident = $code:literal, $name:literal;)* }) => {
        $(#[doc = $doc])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[doc = $variant_doc])* $variant = $code,)*
        }

        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The value with Kafka's code; `None` for an unknown code and for that of "any".
            pub fn from_code(code: i8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's code.
            pub fn code(self) -> i8 {
                self as i8
            }

            /// Kafka's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let is_named = |value: &&Self| value.name().eq_ignore_ascii_case(text);
                Self::ALL.iter().copied().find(|value| is_named(&value)).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("{text:?} is none of {}", names.join(", "))
                })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

coded! {
    /// The type of a resource.
    ResourceType {
        /// A topic.
        Topic = 2, "TOPIC";
        /// A group.
        Group = 3, "GROUP";
        /// The cluster.
        Cluster = 4, "CLUSTER";
        /// A transactional id.
        TransactionalId = 5, "TRANSACTIONAL_ID";
        /// A delegation token.
        DelegationToken = 6, "DELEGATION_TOKEN";
        /// A user, for whom others may create tokens (KIP-373).
        User = 7, "USER";
    }
}

coded! {
    /// The way in which the name of an ACL selects resources.
    PatternType {
        /// By their whole name, or all if the name is `*`.
        Literal = 3, "LITERAL";
        /// By a prefix of their names.
        Prefixed = 4, "PREFIXED";
    }
}

coded! {
    /// An operation on a resource.
    Operation {
        /// Everything.
        All = 2, "ALL";
        /// Read records, be a member of a group.
        Read = 3, "READ";
        /// Write records, use a transactional id.
        Write = 4, "WRITE";
        /// Create.
        Create = 5, "CREATE";
        /// Delete.
        Delete = 6, "DELETE";
        /// Alter.
        Alter = 7, "ALTER";
        /// Describe.
        Describe = 8, "DESCRIBE";
        /// The requests of brokers among themselves.
        ClusterAction = 9, "CLUSTER_ACTION";
        /// Describe configs.
        DescribeConfigs = 10, "DESCRIBE_CONFIGS";
        /// Alter configs.
        AlterConfigs = 11, "ALTER_CONFIGS";
        /// Get a producer id without a transactional id.
        IdempotentWrite = 12, "IDEMPOTENT_WRITE";
        /// Create tokens for a user.
        CreateTokens = 13, "CREATE_TOKENS";
        /// Describe tokens of a user.
        DescribeTokens = 14, "DESCRIBE_TOKENS";
        /// Prepare transactions of two phases (KIP-939).
        TwoPhaseCommit = 15, "TWO_PHASE_COMMIT";
    }
}

coded! {
    /// The effect of an ACL.
    PermissionType {
        /// The ACL denies, whatever other ACLs allow.
        Deny = 2, "DENY";
        /// The ACL allows.
        Allow = 3, "ALLOW";
    }
}

/// An entry of the access control lists. Its JSON is `{"principal": "User:anna", "operation": "READ", "resource_type":
/// "TOPIC", "name": "orders"}`; the pattern is literal, the permission ALLOW and the host `*` if absent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    /// The type of the resources.
    pub resource_type: ResourceType,
    /// The name of the resource, or a prefix.
    pub name: String,
    /// The way in which `name` selects resources.
    #[serde(default = "literal")]
    pub pattern_type: PatternType,
    /// The principal, such as `User:anna`, or `User:*`.
    pub principal: String,
    /// The client's address, or `*`.
    #[serde(default = "any_host")]
    pub host: String,
    /// The operation.
    pub operation: Operation,
    /// The effect of the entry.
    #[serde(default = "allow")]
    pub permission: PermissionType,
}

fn literal() -> PatternType {
    PatternType::Literal
}

fn any_host() -> String {
    WILDCARD.to_owned()
}

fn allow() -> PermissionType {
    PermissionType::Allow
}

impl Acl {
    /// True if the entry concerns the resource of this name.
    pub(super) fn covers(&self, name: &str) -> bool {
        match self.pattern_type {
            PatternType::Literal => self.name == name || self.name == WILDCARD,
            PatternType::Prefixed => name.starts_with(&self.name),
        }
    }

    /// True if the entry concerns this client.
    pub(super) fn concerns(&self, principal: &str, host: &str) -> bool {
        (self.principal == principal || self.principal == "User:*") && (self.host == WILDCARD || self.host == host)
    }
}

/// A filter of entries, with the codes of a request: 1 selects any value.
#[derive(Clone, Debug, Default)]
pub(crate) struct AclFilter<'a> {
    pub(crate) resource_type: i8,
    pub(crate) name: Option<&'a str>,
    pub(crate) pattern_type: i8,
    pub(crate) principal: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) operation: i8,
    pub(crate) permission_type: i8,
}

/// Code of the pattern type that selects all entries which concern a resource name.
pub(crate) const MATCH: i8 = 2;

impl AclFilter<'_> {
    /// The filter that selects all entries.
    pub(crate) fn any() -> Self {
        Self { resource_type: ANY, pattern_type: ANY, operation: ANY, permission_type: ANY, ..Default::default() }
    }

    /// True if a part of the filter is code 0, which no client sends on purpose.
    pub(crate) fn has_code_0(&self) -> bool {
        [self.resource_type, self.pattern_type, self.operation, self.permission_type].contains(&UNKNOWN)
    }

    /// The part of the filter with a code that Kafka does not know: `patternFilter` or `entryFilter`.
    pub(crate) fn unknown(&self) -> Option<&'static str> {
        let known = |code: i8, is_known: bool| code == ANY || is_known;
        let pattern = known(self.resource_type, ResourceType::from_code(self.resource_type).is_some())
            && known(
                self.pattern_type,
                self.pattern_type == MATCH || PatternType::from_code(self.pattern_type).is_some(),
            );
        let entry = known(self.operation, Operation::from_code(self.operation).is_some())
            && known(self.permission_type, PermissionType::from_code(self.permission_type).is_some());
        match (pattern, entry) {
            (false, _) => Some("patternFilter"),
            (_, false) => Some("entryFilter"),
            _ => None,
        }
    }

    pub(crate) fn selects(&self, acl: &Acl) -> bool {
        let is = |wanted: i8, code: i8| wanted == ANY || wanted == code;
        let is_text = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| wanted == text);
        let is_pattern = match self.pattern_type {
            MATCH => self.name.is_none_or(|name| acl.covers(name)),
            kind => is(kind, acl.pattern_type.code()) && is_text(self.name, &acl.name),
        };
        is_pattern
            && self.pattern_type != UNKNOWN
            && is(self.resource_type, acl.resource_type.code())
            && is_text(self.principal, &acl.principal)
            && is_text(self.host, &acl.host)
            && is(self.operation, acl.operation.code())
            && is(self.permission_type, acl.permission.code())
    }
}

#[cfg(test)]
pub(super) fn acl(text: &str) -> Acl {
    serde_json::from_str(text).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Acl {
        acl(r#"{"principal": "User:anna", "operation": "READ", "resource_type": "TOPIC", "name": "orders"}"#)
    }

    #[test]
    fn an_entry_reads_from_json() {
        let entry = entry();
        assert_eq!((entry.pattern_type, entry.permission), (PatternType::Literal, PermissionType::Allow));
        assert_eq!(entry.host, "*");
        let wrong = serde_json::from_str::<Acl>(
            r#"{"principal": "User:a", "operation": "REED", "resource_type": "TOPIC",
            "name": "x"}"#,
        );
        assert!(wrong.unwrap_err().to_string().contains("\"REED\" is none of ALL, READ"));
    }

    #[test]
    fn a_filter_selects_by_each_of_its_fields() {
        let entry = entry();
        assert!(AclFilter::any().selects(&entry));
        assert!(AclFilter { name: Some("orders"), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { name: Some("order"), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { resource_type: ResourceType::Group.code(), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { principal: Some("User:ben"), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { host: Some("10.0.0.1"), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { operation: Operation::All.code(), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { permission_type: PermissionType::Deny.code(), ..AclFilter::any() }.selects(&entry));
        assert!(!AclFilter { pattern_type: PatternType::Prefixed.code(), ..AclFilter::any() }.selects(&entry));
    }

    #[test]
    fn match_selects_all_that_concern_a_name() {
        let wanted = AclFilter { name: Some("orders"), pattern_type: MATCH, ..AclFilter::any() };
        let prefixed = |name: &str| Acl { name: name.to_owned(), pattern_type: PatternType::Prefixed, ..entry() };
        assert!(wanted.selects(&entry()));
        assert!(wanted.selects(&prefixed("ord")));
        assert!(wanted.selects(&Acl { name: WILDCARD.to_owned(), ..entry() }));
        assert!(!wanted.selects(&prefixed("x")));
        assert!(!wanted.selects(&Acl { name: "order".to_owned(), ..entry() }));
    }

    #[test]
    fn what_a_filter_has_that_is_unknown_is_told() {
        assert_eq!(AclFilter::any().unknown(), None);
        assert_eq!(AclFilter { resource_type: 77, ..AclFilter::any() }.unknown(), Some("patternFilter"));
        assert_eq!(AclFilter { pattern_type: UNKNOWN, ..AclFilter::any() }.unknown(), Some("patternFilter"));
        assert_eq!(AclFilter { operation: UNKNOWN, ..AclFilter::any() }.unknown(), Some("entryFilter"));
    }
}
