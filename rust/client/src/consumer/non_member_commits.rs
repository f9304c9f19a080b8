//! Commits of a consumer that is no member of its group. One is sent after the other, in the order of the calls: two in
//! flight at once could arrive in any order, and the older one would stand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fault;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::coordinator::Coordinators;
use crate::error::ClientError;
use crate::fetch::buffer::FetchBuffer;
use crate::group::{CommitError, CommitOffset, CommitOutcome};
use crate::lock::lock;
use crate::tasks::block_until;

type Offsets = BTreeMap<TopicPartition, CommitOffset>;

/// A commit that waits for those before it.
pub(super) struct Call {
    group_id: String,
    offsets: Offsets,
    timeout: Duration,
    deadline: Instant,
    reply: oneshot::Sender<Result<CommitOutcome, ClientError>>,
}

#[derive(Clone)]
pub(super) struct Committer {
    pub(super) coordinators: Coordinators,
    pub(super) buffer: Arc<FetchBuffer>,
}

/// The queue of commits and the task that sends them, from the first one on.
#[derive(Default)]
pub(super) enum NonMemberCommits {
    #[default]
    Unused,
    Running(mpsc::UnboundedSender<Call>, JoinHandle<()>),
    Ended,
}

impl NonMemberCommits {
    /// Queues a commit.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub(super) fn commit(
        this: &Mutex<Self>,
        runtime: &Handle,
        committer: impl FnOnce() -> Committer,
        (group_id, offsets, timeout): (String, Offsets, Duration),
    ) -> Result<oneshot::Receiver<Result<CommitOutcome, ClientError>>, ClientError> {
        let mut this = lock(this);
        if matches!(*this, Self::Unused) {
            let (calls, inbox) = mpsc::unbounded_channel();
            *this = Self::Running(calls, runtime.spawn(committer().run(inbox)));
        }
        let Self::Running(calls, _) = &*this else { return Err(ClientError::Closed) };
        let (reply, outcome) = oneshot::channel();
        let call = Call { group_id, offsets, timeout, deadline: Instant::now() + timeout, reply };
        calls.send(call).map_err(|_| ClientError::Closed)?;
        Ok(outcome)
    }

    /// Waits until the queued commits are made, at most until `until`; no more are taken.
    pub(super) fn finish(this: &Mutex<Self>, runtime: &Handle, until: Instant) {
        let before = std::mem::replace(&mut *lock(this), Self::Ended);
        let Self::Running(calls, task) = before else { return };
        drop(calls);
        let stop = task.abort_handle();
        if !block_until(runtime, until, async move { drop(task.await) }) {
            stop.abort();
        }
    }
}

impl Committer {
    async fn run(self, mut calls: mpsc::UnboundedReceiver<Call>) {
        while let Some(Call { group_id, offsets, timeout, deadline, reply }) = calls.recv().await {
            let left = deadline.saturating_duration_since(Instant::now());
            let outcome = match left.is_zero() {
                true => Err(self.late(&group_id, timeout)),
                false => self.make(group_id, offsets, left).await.map_err(|error| error.of_call(timeout)),
            };
            // The caller may have gone; the commit stands.
            let _ = reply.send(outcome);
        }
    }

    fn late(&self, group: &str, after: Duration) -> ClientError {
        let what = format!("the commit of offsets to group {group}");
        let last_error = self.coordinators.explain("commits before it were not done in time");
        ClientError::TimedOut { what, after, last_error }
    }

    async fn make(&self, group_id: String, offsets: Offsets, timeout: Duration) -> Result<CommitOutcome, ClientError> {
        let mut commits = self.coordinators.commit(group_id, offsets.clone(), timeout).await?;
        let mut outcome_of = |partition: &TopicPartition| match commits.remove(partition) {
            Some(outcome) => outcome.map_err(|fault: Fault| CommitError::Refused { code: fault.code() }),
            None => Err(CommitError::TimedOut { last: "the answer did not name it".into() }),
        };
        let outcome: CommitOutcome = offsets
            .into_iter()
            .map(|(partition, at)| {
                let outcome = outcome_of(&partition);
                (partition, (at, outcome))
            })
            .collect();
        let outcomes = outcome.iter().map(|(partition, (at, outcome))| (partition, at, outcome.is_ok()));
        self.buffer.handed_out(|handed_out| handed_out.committed(outcomes));
        Ok(outcome)
    }
}
