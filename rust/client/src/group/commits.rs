//! Commits that users wait for.

use std::collections::BTreeMap;

use monedula_engine::group::{CommitError, CommitOffset, Input, Ticket};
use monedula_engine::{Now, TopicPartition};
use tokio::sync::oneshot;

use super::CommitOutcome;
use super::task::Task;

/// Who waits for which commit.
#[derive(Default)]
pub(super) struct Waiting {
    last: Ticket,
    replies: BTreeMap<Ticket, oneshot::Sender<CommitOutcome>>,
    /// The commit that is under way because of a number of rows: one at a time, however long the coordinator takes.
    counted: Option<Ticket>,
}

impl Task {
    /// Hands a user's commit to the machine, whose answer it waits for.
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
        self.parts.buffer.committed(outcomes.iter().map(|(partition, (at, outcome))| (partition, at, outcome.is_ok())));
        let reply = ticket.and_then(|ticket| self.commits.replies.remove(&ticket));
        if let Some(reply) = reply {
            // Whoever asked may have gone; the commit stands.
            let _ = reply.send(outcomes);
        }
        if ticket.is_some() && self.commits.counted == ticket {
            self.commits.counted = None;
            // As many may be finished again, by a user who now waits for records and says nothing more.
            let next = self.commit_by_count();
            self.inputs.extend(next);
        }
    }

    /// Commits what was finished, because it is so many rows.
    pub(super) fn commit_by_count(&mut self) -> Option<Input> {
        if self.commits.counted.is_some() || !self.parts.buffer.has_finished_enough() {
            return None;
        }
        let offsets = self.parts.buffer.snapshot(None);
        if offsets.is_empty() {
            return None;
        }
        self.commits.last += 1;
        let ticket = self.commits.last;
        self.commits.counted = Some(ticket);
        let deadline = self.shared.now() + self.parts.config.default_api_timeout;
        Some(Input::Commit { ticket, offsets, deadline })
    }
}

/// What became of a commit whose task is gone.
pub(crate) fn closed(offsets: BTreeMap<TopicPartition, CommitOffset>) -> CommitOutcome {
    offsets.into_iter().map(|(partition, at)| (partition, (at, Err(CommitError::Closed)))).collect()
}
