//! The authorizer: what a client may do, by Kafka's rules (StandardAuthorizer, KIP-801).
//!
//! An entry that denies wins over all that allow. READ, WRITE, DELETE and ALTER allow DESCRIBE too, and ALTER_CONFIGS
//! allows DESCRIBE_CONFIGS; entries that deny imply nothing. Super users may do everything. If no entry exists for a
//! resource, whoever it names, `allow.everyone.if.no.acl.found` decides.

use std::collections::{BTreeMap, BTreeSet};

use monedula_protocol::error_code::ErrorCode;

use super::acl::{Acl, AclFilter, CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType, WILDCARD};
use super::{Principal, SecuritySettings};

/// A resource that a request names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Topic(&'a str),
    Group(&'a str),
    Cluster,
    TransactionalId(&'a str),
    /// By its token id.
    DelegationToken(&'a str),
    /// By its principal.
    User(&'a str),
}

impl<'a> Resource<'a> {
    fn parts(self) -> (ResourceType, &'a str) {
        match self {
            Self::Topic(name) => (ResourceType::Topic, name),
            Self::Group(name) => (ResourceType::Group, name),
            Self::Cluster => (ResourceType::Cluster, CLUSTER_NAME),
            Self::TransactionalId(name) => (ResourceType::TransactionalId, name),
            Self::DelegationToken(name) => (ResourceType::DelegationToken, name),
            Self::User(name) => (ResourceType::User, name),
        }
    }

    /// The error for a client that may not do what it asks for.
    pub(crate) fn refusal(self) -> ErrorCode {
        match self {
            Self::Topic(_) => ErrorCode::TopicAuthorizationFailed,
            Self::Group(_) => ErrorCode::GroupAuthorizationFailed,
            Self::Cluster => ErrorCode::ClusterAuthorizationFailed,
            Self::TransactionalId(_) => ErrorCode::TransactionalIdAuthorizationFailed,
            Self::DelegationToken(_) | Self::User(_) => ErrorCode::DelegationTokenAuthorizationFailed,
        }
    }

    /// The operations that the resource supports, and that descriptions of it list.
    fn operations(self) -> &'static [Operation] {
        use Operation::{Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, Read, Write};
        match self {
            Self::Topic(_) => &[Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs],
            Self::Group(_) => &[Read, Describe, Delete, DescribeConfigs, AlterConfigs],
            Self::Cluster => {
                &[Create, ClusterAction, DescribeConfigs, AlterConfigs, Operation::IdempotentWrite, Alter, Describe]
            }
            Self::TransactionalId(_) => &[Describe, Write],
            Self::DelegationToken(_) => &[Describe],
            Self::User(_) => &[Operation::CreateTokens, Operation::DescribeTokens],
        }
    }

    /// The bits of the operations for which `is_allowed` is true, as the fields of authorized operations have them.
    pub(crate) fn operation_bits(self, mut is_allowed: impl FnMut(Operation) -> bool) -> i32 {
        let allowed = self.operations().iter().copied().filter(|&operation| is_allowed(operation));
        allowed.fold(0, |bits, operation| bits | 1 << operation.code())
    }
}

/// A client, as the rules see it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Client<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) host: &'a str,
}

/// The entries, and the rules for clients that no entry names.
#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    acls: BTreeMap<ResourceType, BTreeSet<Acl>>,
    super_users: BTreeSet<Principal>,
    allow_everyone_if_no_acl_found: bool,
    /// True after a change that is not stored yet.
    pub(super) touched: bool,
}

impl Authorizer {
    pub(super) fn new(settings: &SecuritySettings) -> Self {
        let mut authorizer = Self {
            acls: BTreeMap::new(),
            super_users: settings.super_users.iter().cloned().collect(),
            allow_everyone_if_no_acl_found: settings.allow_everyone_if_no_acl_found,
            touched: false,
        };
        settings.acls.iter().cloned().for_each(|acl| authorizer.add(acl));
        authorizer
    }

    /// Adds an entry. One that exists already is not added again.
    pub(crate) fn add(&mut self, acl: Acl) {
        self.touched |= self.acls.entry(acl.resource_type).or_default().insert(acl);
    }

    pub(crate) fn remove(&mut self, acl: &Acl) {
        if let Some(acls) = self.acls.get_mut(&acl.resource_type) {
            self.touched |= acls.remove(acl);
        }
    }

    pub(super) fn restore(&mut self, stored: BTreeSet<Acl>) {
        self.acls.clear();
        stored.into_iter().for_each(|acl| self.add(acl));
    }

    pub(super) fn to_store(&self) -> BTreeSet<Acl> {
        self.acls.values().flatten().cloned().collect()
    }

    /// The entries that a filter selects.
    pub(crate) fn select(&self, filter: &AclFilter<'_>) -> impl Iterator<Item = &Acl> {
        self.acls.values().flatten().filter(|acl| filter.selects(acl))
    }

    /// True if the client may do this with the resource.
    pub(crate) fn allows(&self, client: Client<'_>, operation: Operation, resource: Resource<'_>) -> bool {
        if self.super_users.contains(client.principal) {
            return true;
        }
        let (kind, name) = resource.parts();
        let mut has_entries = false;
        let mut is_allowed = false;
        for acl in self.acls.get(&kind).into_iter().flatten().filter(|acl| acl.covers(name)) {
            has_entries = true;
            if !acl.concerns(client.principal.as_str(), client.host) {
                continue;
            }
            match acl.permission {
                PermissionType::Deny if is_same(acl.operation, operation) => return false,
                PermissionType::Allow => is_allowed |= implies(acl.operation, operation),
                PermissionType::Deny => {}
            }
        }
        if has_entries { is_allowed } else { self.allow_everyone_if_no_acl_found }
    }

    /// True if the client may write to at least one topic (KIP-679). As in Kafka, entries for other operations imply
    /// nothing here.
    pub(crate) fn may_write_some_topic(&self, client: Client<'_>) -> bool {
        let operation = Operation::Write;
        // For a name without entries, super users are allowed, and everybody else if that is the default.
        if self.allows(client, operation, Resource::Topic("hardcode")) {
            return true;
        }
        let concerned = || {
            let acls = self.acls.get(&ResourceType::Topic).into_iter().flatten();
            acls.filter(|acl| acl.concerns(client.principal.as_str(), client.host) && is_same(acl.operation, operation))
        };
        let denied = |of: PatternType| {
            concerned().filter(move |acl| acl.permission == PermissionType::Deny && acl.pattern_type == of)
        };
        if denied(PatternType::Literal).any(|acl| acl.name == WILDCARD) {
            return false;
        }
        concerned().filter(|acl| acl.permission == PermissionType::Allow).any(|acl| {
            let is_literal = acl.pattern_type == PatternType::Literal;
            let is_denied = is_literal && denied(PatternType::Literal).any(|denied| denied.name == acl.name)
                || denied(PatternType::Prefixed).any(|denied| acl.name.starts_with(&denied.name));
            is_literal && acl.name == WILDCARD || !is_denied
        })
    }
}

fn is_same(of_entry: Operation, asked: Operation) -> bool {
    of_entry == Operation::All || of_entry == asked
}

/// True if an entry that allows one operation allows another.
fn implies(of_entry: Operation, asked: Operation) -> bool {
    use Operation::{Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
    is_same(of_entry, asked)
        || asked == Describe && matches!(of_entry, Read | Write | Delete | Alter)
        || asked == DescribeConfigs && of_entry == AlterConfigs
}

#[cfg(test)]
mod tests {
    use super::super::acl::acl;
    use super::*;

    fn entry(principal: &str, operation: &str, kind: &str, name: &str) -> Acl {
        acl(&format!(
            r#"{{"principal": "{principal}", "operation": "{operation}", "resource_type": "{kind}", "name": "{name}"}}"#
        ))
    }

    fn with(acls: &[Acl]) -> Authorizer {
        Authorizer::new(&SecuritySettings {
            acls: acls.to_vec(),
            super_users: vec![Principal::user("root")],
            ..Default::default()
        })
    }

    fn allows(authorizer: &Authorizer, user: &str, operation: Operation, resource: Resource<'_>) -> bool {
        authorizer.allows(Client { principal: &Principal::user(user), host: "127.0.0.1" }, operation, resource)
    }

    const ORDERS: Resource<'_> = Resource::Topic("orders");

    #[test]
    fn nobody_but_super_users_may_do_what_no_entry_allows() {
        let authorizer = with(&[]);
        assert!(!allows(&authorizer, "anna", Operation::Read, ORDERS));
        assert!(allows(&authorizer, "root", Operation::Read, ORDERS));
    }

    #[test]
    fn an_entry_allows_its_operation_and_what_that_implies() {
        let authorizer = with(&[entry("User:anna", "READ", "TOPIC", "orders")]);
        assert!(allows(&authorizer, "anna", Operation::Read, ORDERS));
        assert!(allows(&authorizer, "anna", Operation::Describe, ORDERS));
        assert!(!allows(&authorizer, "anna", Operation::Write, ORDERS));
        assert!(!allows(&authorizer, "anna", Operation::DescribeConfigs, ORDERS));
        assert!(!allows(&authorizer, "ben", Operation::Read, ORDERS));
        assert!(!allows(&authorizer, "anna", Operation::Read, Resource::Topic("orders2")));
        assert!(!allows(&authorizer, "anna", Operation::Read, Resource::Group("orders")));
        let authorizer = with(&[entry("User:anna", "ALTER_CONFIGS", "TOPIC", "orders")]);
        assert!(allows(&authorizer, "anna", Operation::DescribeConfigs, ORDERS));
        assert!(!allows(&authorizer, "anna", Operation::Describe, ORDERS));
    }

    #[test]
    fn an_entry_that_denies_wins_and_implies_nothing() {
        let denied = Acl { permission: PermissionType::Deny, ..entry("User:*", "READ", "TOPIC", "*") };
        let authorizer = with(&[entry("User:anna", "ALL", "TOPIC", "orders"), denied]);
        assert!(!allows(&authorizer, "anna", Operation::Read, ORDERS));
        assert!(allows(&authorizer, "anna", Operation::Write, ORDERS));
        assert!(allows(&authorizer, "anna", Operation::Describe, ORDERS));
        assert!(allows(&authorizer, "root", Operation::Read, ORDERS));
    }

    #[test]
    fn names_are_literal_prefixed_or_any() {
        let prefixed = Acl { pattern_type: PatternType::Prefixed, ..entry("User:anna", "READ", "TOPIC", "ord") };
        let authorizer = with(&[prefixed, entry("User:ben", "READ", "TOPIC", "*")]);
        assert!(allows(&authorizer, "anna", Operation::Read, ORDERS));
        assert!(!allows(&authorizer, "anna", Operation::Read, Resource::Topic("events")));
        assert!(allows(&authorizer, "ben", Operation::Read, Resource::Topic("events")));
        // A prefix of an asterisk is one, and a literal prefix selects nothing else.
        assert!(!allows(&with(&[entry("User:anna", "READ", "TOPIC", "ord")]), "anna", Operation::Read, ORDERS));
    }

    #[test]
    fn an_entry_may_be_for_one_host() {
        let authorizer = with(&[Acl { host: "10.0.0.1".to_owned(), ..entry("User:anna", "READ", "TOPIC", "*") }]);
        let principal = &Principal::user("anna");
        assert!(authorizer.allows(Client { principal, host: "10.0.0.1" }, Operation::Read, ORDERS));
        assert!(!authorizer.allows(Client { principal, host: "10.0.0.2" }, Operation::Read, ORDERS));
    }

    #[test]
    fn the_default_applies_only_to_resources_without_any_entry() {
        let mut authorizer = with(&[entry("User:anna", "READ", "TOPIC", "orders")]);
        authorizer.allow_everyone_if_no_acl_found = true;
        assert!(allows(&authorizer, "ben", Operation::Read, Resource::Topic("events")));
        assert!(!allows(&authorizer, "ben", Operation::Read, ORDERS));
    }

    #[test]
    fn some_topic_is_enough_for_an_idempotent_producer() {
        let client = Client { principal: &Principal::user("anna"), host: "127.0.0.1" };
        let may = |acls: &[Acl]| with(acls).may_write_some_topic(client);
        let write = entry("User:anna", "WRITE", "TOPIC", "orders");
        let deny = |acl: Acl| Acl { permission: PermissionType::Deny, ..acl };
        let prefixed = |acl: Acl| Acl { pattern_type: PatternType::Prefixed, ..acl };
        assert!(!may(&[]));
        assert!(may(std::slice::from_ref(&write)));
        assert!(!may(&[entry("User:anna", "READ", "TOPIC", "orders")]));
        assert!(!may(&[write.clone(), deny(write.clone())]));
        assert!(!may(&[write.clone(), deny(prefixed(entry("User:anna", "WRITE", "TOPIC", "ord")))]));
        assert!(may(&[write.clone(), deny(entry("User:anna", "WRITE", "TOPIC", "events"))]));
        assert!(!may(&[write, deny(entry("User:*", "ALL", "TOPIC", "*"))]));
    }

    #[test]
    fn the_bits_are_those_of_kafka_where_everything_is_allowed() {
        let all = |resource: Resource<'_>| resource.operation_bits(|_| true);
        assert_eq!((all(ORDERS), all(Resource::Cluster)), (3576, 8096));
        assert_eq!(all(Resource::Group("g")), 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11);
    }
}
