//! Commands about rights and users.

use monedula_protocol::secret::Secret;
use serde_json::{Map, Value, json};

use crate::BrokerError;
use crate::core::Core;
use crate::security::{Acl, AclFilter, Authorizer, Issued, Principal};

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

    pub(super) fn remove_user(&mut self, user: &str) -> Result<Value, BrokerError> {
        match self.security.users_mut().remove(user) {
            true => Ok(Value::Null),
            false => Err(BrokerError::Command(format!("there is no user {user:?}"))),
        }
    }

    pub(super) fn expire_sessions(&mut self, principal: Option<&str>) -> Result<Value, BrokerError> {
        let principal = principal.map(Principal::parse).transpose().map_err(BrokerError::Command)?;
        Ok(json!({ "expired": self.peers.expire_sessions(principal.as_ref(), self.now_ms) }))
    }

    pub(super) fn mint_token(
        &mut self,
        user: &str,
        lifetime_ms: i64,
        unsecured: bool,
        claims: Map<String, Value>,
    ) -> Value {
        let token = self.security.oauth().mint(user, lifetime_ms, !unsecured, claims, self.now_ms);
        json!({ "token": token, "expires_ms": self.now_ms.saturating_add(lifetime_ms) })
    }

    pub(super) fn check_token(&self, token: &Secret) -> Value {
        match self.security.oauth().check(token.expose_text().unwrap_or_default(), self.now_ms) {
            Ok(who) => json!({ "subject": who.principal, "problem": null }),
            Err(problem) => json!({ "subject": null, "problem": problem }),
        }
    }

    fn authorizer(&mut self) -> Result<&mut Authorizer, BrokerError> {
        let problem = "the broker has no authorizer: start it with ACLs, super users or authorizer.class.name";
        self.security.authorizer_mut().ok_or_else(|| BrokerError::Command(problem.to_owned()))
    }
}

/// A certificate with its key, which leaves the broker here: it is for the client that asks.
pub(super) fn describe_issued(issued: &Issued) -> Value {
    json!({ "certificate": issued.chain_pem, "key": issued.key_pem.expose_text() })
}
