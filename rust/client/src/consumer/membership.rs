//! The consumer as a member of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use monedula_columns::OutOfMemory;
use monedula_engine::TopicPartition;
use monedula_engine::assign::Pace;
use monedula_engine::fetch::Fault;
use monedula_engine::ledger::Holder;

use super::{Consumer, GroupOffset, Partitions, unless_closed};
use crate::config::GroupProtocol;
use crate::coordinator::Coordinators;
use crate::delivery::{CommitCall, Want};
use crate::error::ClientError;
use crate::group::handle::{Group, Parts};
use crate::group::subscription::{Subscription, pattern_for_nobody};
use crate::group::{
    CommitError, CommitOffset, CommitOutcome, CommitWhat, GroupHealth, HandedBatch, Leaving, Listens, MemberEvent,
    PendingCallback, Step, Subscribed,
};
use crate::log::Level;

impl Consumer {
    /// Joins the group of `group.id`, in the background, and reads what it is given of these topics. In place of an earlier
    /// subscription.
    ///
    /// # Errors
    /// If there is no `group.id`, partitions are assigned by hand, a pattern cannot be read, or the consumer is closed.
    pub fn subscribe(&self, what: Subscribed, listens: Listens) -> Result<(), ClientError> {
        let subscription = Subscription::read(what, self.config.exclude_internal_topics)?;
        if let Subscription::ServerPattern(pattern) = &subscription
            && self.config.group_protocol == GroupProtocol::Classic
        {
            return Err(pattern_for_nobody(pattern));
        }
        let _changing = self.changing();
        let assigned = !self.delivery.is_empty() || !self.topics().is_empty();
        if assigned && !self.is_subscribed() {
            return Err(ClientError::Argument(
                "partitions are assigned to this consumer by hand: call unassign() before subscribe()".into(),
            ));
        }
        let group = self.group()?;
        self.delivery.keep_alive();
        group.subscribe(subscription, listens)?;
        self.subscribed.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it subscribes to something.
    pub fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Acquire)
    }

    /// The next batch or callback. Waits, at most until `until`. `holder` names the thread or task that asks: what it was
    /// handed before is finished. A callback is to be run by the caller, and ended by [`Self::called_back`].
    ///
    /// # Errors
    /// Of single partitions and of the membership, once each; of the whole client, and fatal ones, on every call.
    pub fn next(&self, want: &Want, until: Instant, holder: Holder) -> Result<Step, ClientError> {
        if self.reads_nothing() {
            return Err(ClientError::Argument(
                "nothing is assigned to this consumer; call subscribe() or assign() first".into(),
            ));
        }
        catch_unwind(AssertUnwindSafe(|| self.delivery.next(want, until, holder))).unwrap_or_else(|payload| {
            let lack = payload.downcast::<OutOfMemory>().unwrap_or_else(|payload| resume_unwind(payload));
            // Rows of a batch that was half built are gone from the queue: going on would skip them.
            self.delivery.close();
            Err(ClientError::OutOfMemory { bytes: lack.bytes })
        })
    }

    /// What `holder` was handed is finished, and it is there to run callbacks: to be told before [`Self::ready`] waits for it.
    pub fn enter(&self, holder: Holder) {
        self.delivery.enter(holder);
    }

    /// A callback that is to be run now, unless another is running.
    pub fn next_callback(&self) -> Option<PendingCallback> {
        self.delivery.next_callback()
    }

    /// A callback has ended, also by an error that the user sees.
    pub fn called_back(&self, ticket: u64) {
        if let Some(group) = self.group.get() {
            group.called_back(ticket);
        }
    }

    /// The rows of a batch are handed out one by one: a row is finished when the one after it is asked for. The caller counts
    /// the rows that were asked for, the vain question after the last one too, in what is returned.
    pub fn by_rows(&self, batch: &HandedBatch, holder: Holder) -> Arc<AtomicUsize> {
        self.delivery.by_rows(batch.id, holder, &batch.columns)
    }

    /// Whether more rows of a batch may be handed out one by one: its partitions are where they were and not to be given up, and
    /// the lease has not run out.
    pub fn may_go_on(&self, batch: &HandedBatch) -> bool {
        self.delivery.may_go_on(&batch.places)
    }

    /// Rows of a batch beyond the first `taken` are to be handed out again, except where the partition was sought or lost
    /// since. The rows taken stay with `holder`, who finishes them with its next call.
    pub fn give_back(&self, batch: &HandedBatch, taken: usize, holder: Holder) {
        self.delivery.give_back(batch.id, holder, &batch.columns, &batch.places, taken);
    }

    /// Commits; the future has what became of each partition. What was finished counts as finished at once, whether the future
    /// is waited for or not.
    ///
    /// # Errors
    /// In the future: without a `group.id`, if the consumer is closed, or if a consumer that is no member got no answer.
    pub fn commit(
        &self,
        what: CommitWhat,
        timeout: Duration,
    ) -> impl Future<Output = Result<CommitOutcome, ClientError>> + Send + use<> {
        let call = self.delivery.commits();
        let (offsets, known) = self.to_commit(what);
        let closed = self.closed.subscribe();
        let committing = self.committing(offsets, timeout, call);
        async move {
            let mut outcome = unless_closed(closed, committing?).await?;
            outcome.extend(known);
            Ok(outcome)
        }
    }

    /// What is to be sent, and what is known without a word to the coordinator.
    pub(super) fn to_commit(&self, what: CommitWhat) -> (BTreeMap<TopicPartition, CommitOffset>, CommitOutcome) {
        match what {
            CommitWhat::Finished { holder } => (self.delivery.finish_all(holder), CommitOutcome::new()),
            CommitWhat::Offsets(offsets) => {
                self.delivery.chosen(offsets.keys());
                (offsets, CommitOutcome::new())
            }
            CommitWhat::Batch { id, places } => self.delivery.finish(id, &places),
        }
    }

    fn committing(
        &self,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
        call: CommitCall,
    ) -> Result<impl Future<Output = Result<CommitOutcome, ClientError>> + Send + use<>, ClientError> {
        let group_id = self.config.group_id.clone().ok_or_else(no_group)?;
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        if let Some((partition, at)) = offsets.iter().find(|(_, at)| at.offset < 0) {
            return Err(ClientError::Argument(format!("{partition}: offset {} cannot be committed", at.offset)));
        }
        if let Some((partition, at)) = offsets.iter().find(|(_, at)| at.metadata.len() > i16::MAX as usize) {
            let what = format!("{partition}: metadata of {} bytes cannot be committed", at.metadata.len());
            return Err(ClientError::Argument(format!("{what}; brokers take up to 4096 unless told otherwise")));
        }
        let member = self.group.get().filter(|_| self.is_subscribed() && !offsets.is_empty());
        let answer = member.map(|group| group.commit(offsets.clone(), timeout, call)).transpose()?;
        let (coordinators, delivery) = (self.coordinators.clone(), self.delivery.clone());
        Ok(async move {
            let outcome = match answer {
                Some(answer) => return Ok(answer.await.unwrap_or_else(|_| crate::group::closed(offsets))),
                None => commit_alone(coordinators, group_id, offsets, timeout).await?,
            };
            delivery.committed(outcome.iter().map(|(partition, (at, outcome))| (partition, at, outcome.is_ok())));
            Ok(outcome)
        })
    }

    /// Counts as a poll, for a user in the middle of a long batch.
    pub fn keep_alive(&self) {
        self.delivery.keep_alive();
    }

    /// Partitions that another member waits for, until the user has finished what it holds of them.
    pub fn rebalance_wanted(&self) -> Partitions {
        self.delivery.wanted()
    }

    /// Joins the group again, `after` from now.
    ///
    /// # Errors
    /// If nothing is subscribed to, or the consumer is closed.
    pub fn enforce_rebalance(&self, reason: String, after: Duration) -> Result<(), ClientError> {
        match self.group.get().filter(|_| self.is_subscribed()) {
            Some(group) => group.rejoin(reason, after),
            None => Err(ClientError::Argument("there is no rebalance without a subscription; call subscribe()".into())),
        }
    }

    /// How the membership is; `None` before the first subscription.
    pub fn group_status(&self) -> Option<GroupHealth> {
        self.group.get().map(Group::health)
    }

    /// Keeps events of the group for [`Self::take_events`] from now on, the newest thousand; or no more.
    pub fn keep_events(&self, keep: bool) {
        self.keeps_events.store(keep, Ordering::Release);
        if let Some(group) = self.group.get() {
            group.keep_events(keep);
        }
    }

    /// Whether there is anything for [`Self::take_events`].
    pub fn has_events(&self) -> bool {
        self.group.get().is_some_and(Group::has_events)
    }

    /// What happened to the membership since the last call, and when.
    pub fn take_events(&self) -> Vec<(SystemTime, MemberEvent)> {
        self.group.get().map(Group::take_events).unwrap_or_default()
    }

    /// Begins to give up what is owned and to leave the group: what is finished is committed (with automatic commits),
    /// on_revoked is called, LeaveGroup sent. To be followed by [`Self::leaving`] until that is done. A consumer that
    /// subscribes to nothing has nothing to do.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn start_unsubscribe(&self) -> Result<(), ClientError> {
        if self.subscribed.swap(false, Ordering::AcqRel)
            && let Some(group) = self.group.get()
        {
            group.unsubscribe()?;
        }
        Ok(())
    }

    /// As [`Self::start_unsubscribe`], for good, and at an end after `timeout` in any case. [`Self::close`] follows.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn start_close(&self, timeout: Duration) -> Result<(), ClientError> {
        // It subscribes until it is closed: threads that wait are told of that, and of nothing else.
        match self.group.get() {
            Some(group) if !self.closing.swap(true, Ordering::AcqRel) => group.close(timeout),
            _ => Ok(()),
        }
    }

    /// How far leaving is; waits for news until `until`. A callback is to be run as those of [`Self::next`].
    pub fn leaving(&self, until: Instant) -> Leaving {
        self.delivery.leaving(until)
    }

    /// No callback will be run any more: leaving goes on without.
    pub fn abandon_callbacks(&self) {
        if let Some(group) = self.group.get() {
            group.abandon();
        }
    }

    /// Leaves the group within `timeout`, without callbacks.
    pub(super) fn leave(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        if self.is_closed() || self.group.get().is_none() || self.start_close(timeout).is_err() {
            return;
        }
        self.abandon_callbacks();
        while let Leaving::Callback(callback) = self.leaving(until) {
            self.called_back(callback.ticket);
        }
    }

    /// The membership, made when it is first needed.
    fn group(&self) -> Result<&Group, ClientError> {
        if self.config.group_id.is_none() {
            return Err(no_group());
        }
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        Ok(self.group.get_or_init(|| {
            for problem in self.config.timing_problems() {
                self.log.record(Level::Warning, "groups", || problem.message);
            }
            let defers = self.assignors.iter().any(|assignor| assignor.defers());
            if self.config.pace != Pace::default() && !defers {
                self.log.record(Level::Warning, "groups", || {
                    "scheduled.rebalance.max.delay.ms, group.initial.rebalance.delay.ms, max.moves.per.round and \
                     round.interval.ms do nothing without deferred or incremental in partition.assignment.strategy"
                        .into()
                });
            }
            let parts = Parts {
                config: self.config.clone(),
                network: self.network.clone(),
                metadata: self.metadata.clone(),
                coordinators: self.coordinators.clone(),
                delivery: self.delivery.clone(),
                log: self.log.clone(),
                metrics: self.metrics.clone(),
                assignors: self.assignors.clone(),
                seed: self.seed,
            };
            let group = Group::start(parts, &self.runtime);
            group.keep_events(self.keeps_events.load(Ordering::Acquire));
            group
        }))
    }

    pub(super) fn topics(&self) -> std::sync::MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn no_group() -> ClientError {
    ClientError::Argument("this needs a consumer group: set group.id".into())
}

/// Commits for a consumer whose partitions were assigned by hand.
async fn commit_alone(
    coordinators: Coordinators,
    group_id: String,
    offsets: BTreeMap<TopicPartition, CommitOffset>,
    timeout: Duration,
) -> Result<CommitOutcome, ClientError> {
    let alone = |at: &CommitOffset| GroupOffset {
        offset: at.offset,
        leader_epoch: at.leader_epoch,
        metadata: at.metadata.clone(),
    };
    let asked = offsets.iter().map(|(partition, at)| (partition.clone(), alone(at))).collect();
    let mut commits = coordinators.commit(group_id, asked, timeout).await?;
    let outcome = |partition: &TopicPartition| match commits.remove(partition) {
        Some(outcome) => outcome.map_err(|fault: Fault| CommitError::Refused { code: fault.code() }),
        None => Err(CommitError::TimedOut { last: "the answer did not name it".into() }),
    };
    let mut outcome = outcome;
    Ok(offsets
        .into_iter()
        .map(|(partition, at)| {
            let outcome = outcome(&partition);
            (partition, (at, outcome))
        })
        .collect())
}
