//! Meaning of a wait without records: whether it is about the topic, or only about the brokers.

use std::time::Duration;

use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;

use super::{Consumer, Failure};
use crate::error::ClientError;
use crate::net::metadata::View;
use crate::net::network::NodeId;
use crate::run_time::RunInstant;

struct Trouble {
    what: &'static str,
    failure: Failure,
}

impl Consumer {
    /// The error of a wait that ended without records, if the client has been failing for at least `at_least`: no
    /// broker was reached yet, none that leads an assigned partition answers (or none leads any), or the group's
    /// coordinator does not. One leader that answers is enough: its partitions are read.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], or [`ClientError::RegistryUnavailable`] if records wait for a schema.
    pub fn check_failing(&self, at_least: Duration) -> Result<(), ClientError> {
        match self.failing(&self.base.metadata.view()) {
            Some(Trouble { what, failure }) if failure.since.elapsed() >= at_least => {
                let failing_for = failure.since.elapsed();
                Err(ClientError::Unavailable {
                    what,
                    failing_for,
                    last_error: self.base.network.explain(failure.last_error),
                })
            }
            _ => self.check_registry(at_least),
        }
    }

    /// The error of a wait that ended without records because the schema registry is silent, for at least `at_least`,
    /// and records wait for it.
    fn check_registry(&self, at_least: Duration) -> Result<(), ClientError> {
        let registry = self.base.config.schema_registry.as_ref();
        let waiting = registry.filter(|_| self.buffer.look(|state| state.partitions().awaits_any()));
        match waiting.and_then(|registry| registry.waiting()) {
            Some((failing_for, last_error)) if failing_for >= at_least => {
                Err(ClientError::RegistryUnavailable { failing_for, last_error })
            }
            _ => Ok(()),
        }
    }

    fn failing(&self, view: &View) -> Option<Trouble> {
        if self.is_closed() {
            return None;
        }
        let unreached = (view.answers == 0).then(|| self.base.metadata.first_attempt()).flatten().map(|since| {
            let last_error = view.failing.as_ref().map(|(_, error)| error.clone());
            Trouble { what: "no broker has answered yet,", failure: Failure { since, last_error } }
        });
        let coordinator = || {
            let failure = self.reach.coordinator().filter(|_| !self.is_coordinator_connected())?;
            Some(Trouble { what: "the group's coordinator has not answered", failure })
        };
        let leaders = || {
            let failure = self.reach.leaders(self.base.config.fetch_max_wait).filter(|_| self.is_fetching())?;
            Some(Trouble { what: "no broker that leads an assigned partition has answered", failure })
        };
        unreached.or_else(|| leaders().into_iter().chain(coordinator()).min_by_key(|trouble| trouble.failure.since))
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
        let metadata = view.failing.clone();
        let trouble = self.failing(view).map(|Trouble { what, failure }| {
            let error = self.base.network.explain(failure.last_error);
            (failure.since, error.unwrap_or_else(|| what.trim_end_matches(',').into()))
        });
        let first: Option<(RunInstant, String)> = trouble.into_iter().chain(metadata).min_by_key(|(since, _)| *since);
        first.map(|(since, error)| (since.elapsed(), error))
    }
}
