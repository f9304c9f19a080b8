//! Authorization and throttling of requests.

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::request::{Call, ConnectionId};
use crate::security::{Authorizer, ByteQuota, Client, Operation, Resource};

impl Core {
    /// True if the client of a request may do this with the resource.
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
        let rules = self.security.authorizer().filter(|_| call.ticket.connection != ConnectionId::NONE)?;
        Some((rules, Client { principal: &call.origin.principal, host: &call.origin.host }))
    }

    /// Counts the bytes of a request or a response for the quota of a connection's client. Returns how long the client
    /// has to wait, in milliseconds, and has its connection not read for that time.
    pub(crate) fn throttle(&mut self, connection: ConnectionId, quota: ByteQuota, bytes: usize) -> i32 {
        let Some(client) = self.peers.client(connection) else { return 0 };
        let wait_ms = self.security.throttle(client, quota, bytes, self.now_ms);
        self.peers.mute(connection, wait_ms);
        i32::try_from(wait_ms).unwrap_or(i32::MAX)
    }

    /// The largest Fetch response that the client's quota ever lets pass.
    pub(crate) fn fetch_quota_bytes(&self, connection: ConnectionId) -> i32 {
        self.peers.client(connection).map_or(i32::MAX, |client| self.security.fetch_quota_bytes(client))
    }
}
