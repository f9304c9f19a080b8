//! Meaning of a wait without records: whether it is about the topic, or only about brokers or a registry that are silent.

use std::time::Duration;

use crate::base::ClientBase;
use crate::error::ClientError;
use crate::net::metadata::View;
use crate::reach::{Failure, Reach};
use crate::run_time::RunInstant;

/// Brokers that do not answer a reader.
pub(crate) struct Trouble {
    what: &'static str,
    failure: Failure,
}

impl Trouble {
    /// The trouble of a reader: no broker was reached yet, none that leads an assigned partition answers (or none leads
    /// any) although it `is_fetching`, or the group's coordinator does not, which is no trouble if it `may_be_silent`. One
    /// leader that answers is enough: its partitions are read.
    pub(crate) fn of(
        base: &ClientBase,
        view: &View,
        reach: &Reach,
        is_fetching: impl FnOnce() -> bool,
        may_be_silent: impl FnOnce() -> bool,
    ) -> Option<Self> {
        let unreached = (view.answers == 0).then(|| base.metadata.first_attempt()).flatten().map(|since| {
            let last_error = view.failing.as_ref().map(|(_, error)| error.clone());
            Self { what: "no broker has answered yet,", failure: Failure { since, last_error } }
        });
        let coordinator = || {
            let failure = reach.coordinator().filter(|_| !may_be_silent())?;
            Some(Self { what: "the group's coordinator has not answered", failure })
        };
        let leaders = || {
            let failure = reach.leaders(base.config.fetch_max_wait).filter(|_| is_fetching())?;
            Some(Self { what: "no broker that leads an assigned partition has answered", failure })
        };
        unreached.or_else(|| leaders().into_iter().chain(coordinator()).min_by_key(|trouble| trouble.failure.since))
    }

    /// Raises it, unless it is too young.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if it has lasted for `at_least`.
    pub(crate) fn check(self, base: &ClientBase, at_least: Duration) -> Result<(), ClientError> {
        let failing_for = self.failure.since.elapsed();
        if failing_for < at_least {
            return Ok(());
        }
        let last_error = base.network.explain(self.failure.last_error);
        Err(ClientError::Unavailable { what: self.what, failing_for, last_error })
    }

    /// Duration and last error of a failure: of this one, or of metadata.
    pub(crate) fn first(trouble: Option<Self>, base: &ClientBase, view: &View) -> Option<(Duration, String)> {
        let metadata = view.failing.clone();
        let trouble = trouble.map(|Self { what, failure }| {
            let error = base.network.explain(failure.last_error);
            (failure.since, error.unwrap_or_else(|| what.trim_end_matches(',').into()))
        });
        let first: Option<(RunInstant, String)> = trouble.into_iter().chain(metadata).min_by_key(|(since, _)| *since);
        first.map(|(since, error)| (since.elapsed(), error))
    }
}

/// Whether the schema registry is silent, for at least `at_least`, while records wait for a schema (`is_awaited`).
///
/// # Errors
/// [`ClientError::RegistryUnavailable`].
pub(crate) fn check_registry(
    base: &ClientBase,
    is_awaited: impl FnOnce() -> bool,
    at_least: Duration,
) -> Result<(), ClientError> {
    let registry = base.config.schema_registry.as_ref().filter(|_| is_awaited());
    match registry.and_then(|registry| registry.waiting()) {
        Some((failing_for, last_error)) if failing_for >= at_least => {
            Err(ClientError::RegistryUnavailable { failing_for, last_error })
        }
        _ => Ok(()),
    }
}
