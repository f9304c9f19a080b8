//! Commands about rights and users.

use serde_json::{Value, json};

use crate::BrokerError;
use crate::core::Core;
use crate::security::{Acl, AclFilter, Authorizer};

impl Core {
    pub(super) fn create_acls_on_command(&mut self, acls: Vec<Acl>) -> Result<Value, BrokerError> {
        let authorizer = self.authorizer()?;
        acls.into_iter().for_each(|acl| authorizer.add(acl));
        Ok(Value::Null)
    }

    pub(super) fn delete_acls_on_command(&mut self, acls: &[Acl]) -> Result<Value, BrokerError> {
        let authorizer = self.authorizer()?;
        acls.iter().for_each(|acl| authorizer.remove(acl));
        Ok(Value::Null)
    }

    pub(super) fn describe_acls(&mut self) -> Result<Value, BrokerError> {
        Ok(json!(self.authorizer()?.select(&AclFilter::any()).collect::<Vec<_>>()))
    }

    fn authorizer(&mut self) -> Result<&mut Authorizer, BrokerError> {
        let problem = "the broker has no authorizer: start it with ACLs, super users or authorizer.class.name";
        self.security.authorizer.as_mut().ok_or_else(|| BrokerError::Command(problem.to_owned()))
    }
}
