//! Who may connect, who a client is, and what it may do.
//!
//! Everything is off by default and then costs nothing: a connection is anonymous, and everybody may do everything.

mod acl;
mod authorizer;
mod principal;

pub use acl::{Acl, Operation, PatternType, PermissionType, ResourceType};
pub(crate) use acl::{AclFilter, CLUSTER_NAME};
pub(crate) use authorizer::{Authorizer, Client, Resource};
pub use principal::Principal;

use monedula_protocol::error_code::ErrorCode;

use crate::BrokerError;
use crate::core::{Call, ConnectionId, Core};

/// What is set about security when a broker starts.
#[derive(Clone, Debug, Default)]
pub struct SecuritySettings {
    /// Whether there is an authorizer (`authorizer.class.name`). Without one everybody may do everything.
    pub authorizer: bool,
    /// The principals that may do everything (`super.users`).
    pub super_users: Vec<Principal>,
    /// Whether a resource without any ACL is open to everybody (`allow.everyone.if.no.acl.found`).
    pub allow_everyone_if_no_acl_found: bool,
    /// The ACLs that exist at the start.
    pub acls: Vec<Acl>,
}

impl SecuritySettings {
    /// Sets a setting by Kafka's name. Returns false if it is none about security.
    ///
    /// # Errors
    /// [`BrokerError::Setting`] for an invalid value.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, BrokerError> {
        let wrong = |problem: String| BrokerError::Setting { name: name.to_owned(), problem };
        match name {
            "authorizer.class.name" => self.authorizer = !value.trim().is_empty(),
            "super.users" => {
                // Kafka separates them by semicolons, because names of certificates contain commas.
                let users = value.split(';').map(str::trim).filter(|user| !user.is_empty());
                self.super_users = users.map(Principal::parse).collect::<Result<_, _>>().map_err(wrong)?;
            }
            "allow.everyone.if.no.acl.found" => self.allow_everyone_if_no_acl_found = boolean(value).map_err(wrong)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}

/// The state of security that outlives a connection.
#[derive(Debug)]
pub(crate) struct Security {
    /// `None` if everybody may do everything.
    pub(crate) authorizer: Option<Authorizer>,
}

impl Security {
    pub(crate) fn new(settings: &SecuritySettings) -> Self {
        Self { authorizer: settings.authorizer.then(|| Authorizer::new(settings)) }
    }
}

impl Core {
    /// Whether the client of a request may do this with the resource.
    pub(crate) fn allows(&self, call: &Call<'_>, operation: Operation, resource: Resource<'_>) -> bool {
        self.rules_for(call).is_none_or(|(rules, client)| rules.allows(client, operation, resource))
    }

    /// Checks that the client of a request may do this with the resource.
    ///
    /// # Errors
    /// The resource's error of authorization.
    pub(crate) fn authorize(
        &self,
        call: &Call<'_>,
        operation: Operation,
        resource: Resource<'_>,
    ) -> Result<(), ErrorCode> {
        if self.allows(call, operation, resource) { Ok(()) } else { Err(resource.refusal()) }
    }

    /// Whether the client of a request may write to at least one topic.
    pub(crate) fn may_write_some_topic(&self, call: &Call<'_>) -> bool {
        self.rules_for(call).is_none_or(|(rules, client)| rules.may_write_some_topic(client))
    }

    /// The bits of the operations that the client of a request may do with the resource.
    pub(crate) fn authorized_operations(&self, call: &Call<'_>, resource: Resource<'_>) -> i32 {
        let rules = self.rules_for(call);
        resource
            .operation_bits(|operation| rules.is_none_or(|(rules, client)| rules.allows(client, operation, resource)))
    }

    /// The authorizer, and the client as its rules see it; `None` if the client may do everything, as the broker itself
    /// always may.
    fn rules_for<'a>(&'a self, call: &'a Call<'_>) -> Option<(&'a Authorizer, Client<'a>)> {
        let rules = self.security.authorizer.as_ref().filter(|_| call.ticket.connection != ConnectionId::NONE)?;
        Some((rules, Client { principal: &call.origin.principal, host: &call.origin.host }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_go_by_kafkas_names() {
        let mut settings = SecuritySettings::default();
        assert!(settings.set("super.users", "User:root; User:CN=a,O=b").unwrap());
        assert_eq!(settings.super_users[1], Principal::user("CN=a,O=b"));
        assert!(settings.set("allow.everyone.if.no.acl.found", "True").unwrap());
        assert!(
            settings.set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer").unwrap()
        );
        assert!(settings.authorizer && settings.allow_everyone_if_no_acl_found);
        assert!(!settings.set("num.partitions", "1").unwrap());
        assert!(settings.set("super.users", "root").is_err());
    }
}
