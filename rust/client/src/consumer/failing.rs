//! Meaning of a wait without records, for a consumer.

use std::time::Duration;

use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;

use super::Consumer;
use crate::error::ClientError;
use crate::net::metadata::View;
use crate::net::network::NodeId;
use crate::trouble::{Trouble, check_registry};

impl Consumer {
    /// The error of a wait that ended without records, if the client has been failing for at least `at_least`: no
    /// broker was reached yet, none that leads an assigned partition answers (or none leads any), or the group's
    /// coordinator does not. One leader that answers is enough: its partitions are read.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], or [`ClientError::RegistryUnavailable`] if records wait for a schema.
    pub fn check_failing(&self, at_least: Duration) -> Result<(), ClientError> {
        if let Some(trouble) = self.trouble(&self.base.metadata.view()) {
            trouble.check(&self.base, at_least)?;
        }
        let is_awaited = || self.buffer.look(|state| state.partitions().awaits_any());
        check_registry(&self.base, is_awaited, at_least)
    }

    fn trouble(&self, view: &View) -> Option<Trouble> {
        if self.is_closed() {
            return None;
        }
        let (is_fetching, may_be_silent) = (|| self.is_fetching(), || self.is_coordinator_connected());
        Trouble::of(&self.base, view, &self.reach, is_fetching, may_be_silent)
    }

    /// A rebalance may take minutes: the coordinator holds an answer back as long as members are missing, over a
    /// connection that stands.
    fn is_coordinator_connected(&self) -> bool {
        let member = self.group_status().and_then(|group| group.status.coordinator);
        let group_id = self.base.config.group_id.as_deref().unwrap_or_default();
        let node = member.or_else(|| self.base.coordinators.known_node(FindCoordinatorRequest::GROUP, group_id));
        node.is_some_and(|node| self.base.network.is_connected(NodeId::Broker(node)))
    }

    /// True if brokers are to answer: a partition is read, no answer waits for room, and none asks for a pause.
    fn is_fetching(&self) -> bool {
        let reads = self.statuses().values().any(|status| !status.paused && status.fault.is_none());
        reads && !self.budget.is_awaited() && !self.base.network.is_throttled()
    }

    /// Duration and last error of a failure: of one that [`Self::check_failing`] is about, or of metadata.
    pub(super) fn any_failing(&self, view: &View) -> Option<(Duration, String)> {
        Trouble::first(self.trouble(view), &self.base, view)
    }
}
