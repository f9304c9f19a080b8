//! Commits of a member: those that a user's call waits for, and those that `commit_by_count` starts.

use std::collections::BTreeMap;

use monedula_engine::group::{CommitError, CommitOffset, Input, Ticket};
use monedula_engine::{Now, TopicPartition};
use tokio::sync::oneshot;

use super::CommitOutcome;
use super::task::Task;

/// Commits in flight, and the callers that wait for them.
#[derive(Default)]
pub(super) struct PendingCommits {
    last: Ticket,
    replies: BTreeMap<Ticket, oneshot::Sender<CommitOutcome>>,
    /// The commit in flight that a number of finished rows caused: one at a time, however slow the coordinator is.
    counted: Option<Ticket>,
}

impl Task {
    /// Gives a user's commit to the member; `reply` gets the outcome.
    pub(super) fn commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        deadline: Now,
        reply: oneshot::Sender<CommitOutcome>,
    ) {
        self.commits.replies.retain(|_, reply| !reply.is_closed());
        self.commits.last += 1;
        let ticket = self.commits.last;
        self.commits.replies.insert(ticket, reply);
        self.handle(Input::Commit { ticket, offsets, deadline });
    }

    pub(super) fn committed(&mut self, ticket: Option<Ticket>, outcomes: CommitOutcome) {
        let ended = outcomes.iter().map(|(partition, (at, outcome))| (partition, at, outcome.is_ok()));
        self.parts.buffer.handed_out(|handed_out| handed_out.committed(ended));
        let reply = ticket.and_then(|ticket| self.commits.replies.remove(&ticket));
        if let Some(reply) = reply {
            // The caller may have stopped waiting; the commit stands.
            let _ = reply.send(self.explained(outcomes));
        }
        if ticket.is_some() && self.commits.counted == ticket {
            self.commits.counted = None;
            // As many rows may be finished again already, and a user who now waits for records triggers nothing else.
            let next = self.commit_by_count();
            self.inputs.extend(next);
        }
    }

    /// Outcomes with what is wrong with brokers, where a commit was not done in time.
    fn explained(&self, mut outcomes: CommitOutcome) -> CommitOutcome {
        for (_, outcome) in outcomes.values_mut() {
            if let Err(CommitError::TimedOut { last }) = outcome {
                let failing = self.parts.reach.coordinator().and_then(|failure| failure.last_error);
                let last_error = self.parts.base.network.explain(failing);
                if let Some(error) = last_error.filter(|error| !last.contains(error.as_str())) {
                    *last = format!("{last}; {error}");
                }
            }
        }
        outcomes
    }

    /// Commits the finished offsets once `auto.commit.records` rows are finished.
    pub(super) fn commit_by_count(&mut self) -> Option<Input> {
        if self.commits.counted.is_some()
            || !self.parts.buffer.handed_out(|handed_out| handed_out.has_finished_enough())
        {
            return None;
        }
        let offsets = self.parts.buffer.handed_out(|handed_out| handed_out.snapshot(None));
        if offsets.is_empty() {
            return None;
        }
        self.commits.last += 1;
        let ticket = self.commits.last;
        self.commits.counted = Some(ticket);
        let deadline = self.shared.now() + self.parts.base.config.default_api_timeout;
        Some(Input::Commit { ticket, offsets, deadline })
    }
}

/// The outcome of a commit whose task has ended.
pub(crate) fn closed(offsets: BTreeMap<TopicPartition, CommitOffset>) -> CommitOutcome {
    offsets.into_iter().map(|(partition, at)| (partition, (at, Err(CommitError::Closed)))).collect()
}
