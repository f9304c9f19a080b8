//! The consumer as a member of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use monedula_columns::OutOfMemory;
use monedula_engine::TopicPartition;
use monedula_engine::assign::Pace;
use monedula_engine::group::CommitError;
use monedula_engine::ledger::{BatchId, Holder};
use tokio::sync::oneshot;

use super::non_member_commits::{Committer, NonMemberCommits};
use super::{Consumer, Partitions};
use crate::config::GroupProtocol;
use crate::error::ClientError;
use crate::fetch::buffer::{BatchLimits, CommitCall, FetchBuffer, MembershipGate, RowCursor, WorkGate};
use crate::group::handle::{Group, MembershipParts};
use crate::group::subscription::{CompiledSubscription, pattern_for_nobody};
use crate::group::{
    CommitOffset, CommitOutcome, CommitWhat, GroupEvent, GroupHealth, HandedBatch, Leaving, Listens, PendingCallback,
    Polled, Subscribed,
};
use crate::lock::lock;
use crate::log::{Log, kinds};

/// A batch, or the batches of a holder, that the user may still finish. Dropping it means that nobody will: what is not
/// finished then stays uncommitted, holds no revocation up, and a warning is logged.
#[derive(Debug)]
pub struct Unfinished {
    what: What,
    buffer: Weak<FetchBuffer>,
    log: Log,
}

#[derive(Debug)]
enum What {
    Batch(BatchId),
    Held(Holder),
}

impl Unfinished {
    /// True if the consumer is gone, and with it what was to be finished.
    pub fn is_void(&self) -> bool {
        self.buffer.strong_count() == 0
    }

    /// True if it is about the holder of a consumer.
    pub fn is_of(&self, consumer: &Consumer) -> bool {
        std::ptr::eq(self.buffer.as_ptr(), Arc::as_ptr(&consumer.buffer))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.upgrade() else { return };
        let (who, unfinished) = match self.what {
            What::Batch(id) => (
                "a batch that was handed over was dropped",
                buffer.finishing(|handed_out, _| handed_out.batch_ended(id)),
            ),
            What::Held(holder) => ("a thread or task ended", buffer.holder_ended(holder).into_iter().collect()),
        };
        if unfinished.is_empty() {
            return;
        }
        self.log.record(&kinds::ROWS_UNFINISHED, || {
            let ends = unfinished.iter().map(|(partition, next)| format!("{partition} before offset {}", next.offset));
            let ends: Vec<String> = ends.collect();
            format!(
                "{who} before all its rows were finished: {}. They stay uncommitted, and so does what follows them, until the \
                 partition is assigned anew: finish() or commit() what is done",
                ends.join(", ")
            )
        });
    }
}

impl Consumer {
    /// Joins the group of `group.id`, in the background, and reads the partitions of these topics that the group
    /// assigns. Replaces an earlier subscription.
    ///
    /// # Errors
    /// If there is no `group.id`, partitions are assigned by hand, a pattern cannot be read, or the consumer is closed.
    pub fn subscribe(&self, what: Subscribed, listens: Listens) -> Result<(), ClientError> {
        let subscription = CompiledSubscription::read(what, self.base.config.exclude_internal_topics)?;
        if let CompiledSubscription::ServerPattern(pattern) = &subscription
            && self.base.config.group_protocol == GroupProtocol::Classic
        {
            return Err(pattern_for_nobody(pattern));
        }
        let _changing = self.changing();
        let assigned =
            !self.buffer.look(|state| state.partitions().assigned_by_hand()).is_empty() || !self.topics().is_empty();
        if assigned && !self.is_subscribed() {
            return Err(ClientError::Argument(
                "partitions are assigned to this consumer by hand: call unassign() before subscribe()".into(),
            ));
        }
        let group = self.group()?;
        self.buffer.group().keep_alive();
        group.subscribe(subscription, listens)?;
        self.subscribed.store(true, Ordering::Release);
        Ok(())
    }

    /// True if it subscribes to something.
    pub fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Acquire)
    }

    /// The next batch or callback. Waits, at most until `until`. `holder` names the thread or task that asks: what it
    /// was handed before is finished. A callback is to be run by the caller, and ended by [`Self::called_back`].
    ///
    /// # Errors
    /// Errors of single partitions and of the membership, once each; of the whole client, and fatal ones, on every
    /// call.
    pub fn next(&self, want: &BatchLimits, until: Instant, holder: Holder) -> Result<Polled, ClientError> {
        if self.reads_nothing() {
            return Err(ClientError::Argument(
                "nothing is assigned to this consumer; call subscribe() or assign() first".into(),
            ));
        }
        catch_unwind(AssertUnwindSafe(|| self.buffer.next(want, until, holder))).unwrap_or_else(|payload| {
            let lack = payload.downcast::<OutOfMemory>().unwrap_or_else(|payload| resume_unwind(payload));
            // Rows of a batch that was half built are gone from the queue: going on would skip them.
            self.buffer.close();
            Err(ClientError::OutOfMemory { bytes: lack.bytes })
        })
    }

    /// Finishes what `holder` was handed; it can run callbacks from now on. To be called before [`Self::ready`].
    pub fn enter(&self, holder: Holder) {
        self.buffer.enter(holder);
    }

    /// A call waits in a task of the runtime's for as long as the returned value lives: that counts as polling.
    pub fn waits(&self) -> impl Send + Sync + use<> {
        self.buffer.begin_waiting_in_task()
    }

    /// Finishes what `holder` was handed.
    pub fn finish_held(&self, holder: Holder) {
        self.buffer.finishing(|handed_out, _| handed_out.finish_held(holder));
    }

    /// A batch is finished, whichever holder has it; the next commit has it.
    ///
    /// # Errors
    /// A batch of another consumer; no `group.id`; a consumer that is closed.
    pub fn finish(&self, batch: &HandedBatch) -> Result<(), ClientError> {
        self.refuse_without_group()?;
        self.check_own(batch)?;
        let rows = batch.columns.record_batch.num_rows();
        self.buffer.finishing(|handed_out, _| handed_out.finish_batch(batch.id, rows));
        Ok(())
    }

    /// A batch becomes one for each run of rows of a partition, in their order. Each is finished by [`Self::finish`] or
    /// by a commit that names it, and by nothing else; `holder`, which was handed the batch, does not finish it by
    /// asking for the next. With each comes a value to drop when nobody can finish it any more: it stays uncommitted
    /// then, and nothing waits for it.
    ///
    /// # Errors
    /// If the batch is finished already, or another consumer's, without a `group.id`, or if the consumer is closed.
    pub fn hand_over(
        &self,
        batch: &HandedBatch,
        holder: Holder,
    ) -> Result<Vec<(HandedBatch, Unfinished)>, ClientError> {
        self.refuse_without_group()?;
        self.check_own(batch)?;
        let parts = self.buffer.finishing(|handed_out, partitions| handed_out.hand_over(partitions, batch, holder));
        let parts = parts?.into_iter();
        let unfinished = |id| Unfinished { what: What::Batch(id), buffer: self.buffer(), log: self.base.log.clone() };
        Ok(parts.map(|part| (unfinished(part.id), part)).map(|(guard, part)| (part, guard)).collect())
    }

    /// A value to drop when nobody will [`Self::claim`] a batch with refused records any more.
    pub fn unaccepted(&self, batch: &HandedBatch) -> Unfinished {
        Unfinished { what: What::Batch(batch.id), buffer: self.buffer(), log: self.base.log.clone() }
    }

    /// The partitions of a batch whose rows will never be handed out: they were sought or lost since, or are being
    /// revoked. Nobody needs to keep the records that the batch refused of them.
    pub fn revoked_partitions(&self, batch: &HandedBatch) -> Vec<TopicPartition> {
        self.buffer.look(|state| state.partitions().revoked_partitions(batch))
    }

    /// The records that a batch refused are in safe keeping: from now on `holder` holds the batch. False if its rows
    /// must not be used: some of its partitions were sought, paused or lost since. [`Self::next`] hands the others'
    /// rows out again.
    pub fn claim(&self, batch: &HandedBatch, holder: Holder) -> bool {
        self.buffer.claim(batch, holder)
    }

    /// Rows of a batch that come before the refused records with these indices are given back: [`Self::next`] hands
    /// them out, and their partitions' rows from those records on wait in the batch that is returned, with the same
    /// refused records. `None` if no row comes before.
    pub fn give_back_before(&self, batch: &HandedBatch, unwritten: &[usize], holder: Holder) -> Option<HandedBatch> {
        self.buffer.give_back_before(batch, unwritten, holder)
    }

    /// True if rows were given back that [`Self::next`] hands out now.
    pub fn has_returned(&self) -> bool {
        self.buffer.look(|state| state.has_returned())
    }

    /// True if rows of a part from [`Self::hand_over`] may be begun, to be asked before each.
    pub fn work_gate(&self, part: &HandedBatch) -> WorkGate {
        self.buffer.look(|state| state.work_gate(part))
    }

    /// The first rows of a part are finished. They count once all earlier parts of the partition are.
    pub fn finish_rows(&self, part: &HandedBatch, rows: usize) {
        self.buffer.finishing(|handed_out, _| handed_out.finish_rows(part, rows));
    }

    /// Nobody will finish the rest of a part: it stays uncommitted, and no revocation waits for it.
    pub fn abandon(&self, part: &HandedBatch) {
        self.buffer.finishing(|handed_out, _| handed_out.abandon(part));
    }

    /// As [`Self::next`], but hands out no rows.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn poll_callbacks(&self, until: Instant, holder: Holder) -> Result<Polled, ClientError> {
        self.buffer.poll_callbacks(until, holder)
    }

    /// A value to drop when this thread or task of the user's ends: what it holds then stays uncommitted, and nothing
    /// waits for it.
    pub fn holder(&self, holder: Holder) -> Unfinished {
        Unfinished { what: What::Held(holder), buffer: self.buffer(), log: self.base.log.clone() }
    }

    fn buffer(&self) -> Weak<FetchBuffer> {
        Arc::downgrade(&self.buffer)
    }

    /// # Errors
    /// If something else than this consumer has returned the batch: it must not be taken for one of this consumer's.
    pub fn check_own(&self, batch: &HandedBatch) -> Result<(), ClientError> {
        if self.buffer.handed_out(|handed_out| handed_out.is_own(batch)) {
            return Ok(());
        }
        let message = "this batch is not one of this consumer: give it to the consumer that returned it";
        Err(ClientError::Argument(message.into()))
    }

    fn refuse_without_group(&self) -> Result<(), ClientError> {
        match (&self.base.config.group_id, self.is_closed()) {
            (_, true) => Err(ClientError::Closed),
            (None, _) => Err(no_group()),
            _ => Ok(()),
        }
    }

    /// A callback that is to be run now, unless another is running.
    pub fn next_callback(&self) -> Option<PendingCallback> {
        self.buffer.group().membership(MembershipGate::next_callback)
    }

    /// A callback has ended; `failed` if it raised an error, which the user sees. An on_assigned that failed is run
    /// again by the next wait, and its partitions are not handed out before it succeeded.
    pub fn called_back(&self, ticket: u64, failed: bool) {
        if let Some(group) = self.group.get() {
            group.called_back(ticket, failed);
        }
    }

    /// The rows of a batch are handed out one by one: a row is finished when the one after it is taken. The caller
    /// takes each row from the cursor, until no more may be handed out or there are none, and then calls
    /// [`Self::give_back`].
    pub fn by_rows(&self, batch: &HandedBatch, holder: Holder) -> Arc<RowCursor> {
        self.buffer.by_rows(batch, holder)
    }

    /// Rows of a batch that were not taken are handed out again, before all others of their partition and by the next
    /// call of any holder, unless the partition was sought or lost since. The last row stays with `holder`, which
    /// finishes it with its next call. Does nothing where all rows were taken.
    pub fn give_back(&self, batch: &HandedBatch, holder: Option<Holder>) {
        self.buffer.give_back(batch.id, holder);
    }

    /// Commits; the future has what became of each partition. What was finished counts as finished at once, whether the
    /// future is waited for or not.
    ///
    /// # Errors
    /// By the future: without a `group.id`, if the consumer is closed, or if a consumer that is no member got no
    /// answer.
    pub fn commit(
        &self,
        what: CommitWhat,
        timeout: Duration,
    ) -> impl Future<Output = Result<CommitOutcome, ClientError>> + Send + use<> {
        let call = self.buffer.begin_commit();
        let (offsets, known) = self.to_commit(what);
        let mut closed = self.closed.subscribe();
        let committing = self.committing(offsets, timeout, call);
        let buffer = self.buffer.clone();
        async move {
            let mut outcome = tokio::select! {
                // An outcome that closing waited for goes before the error that the consumer was closed.
                biased;
                outcome = committing? => outcome?,
                _ = closed.wait_for(|&closed| closed) => return Err(ClientError::Closed),
            };
            outcome.extend(known);
            // A membership that has ended took its partitions with it: to commit nothing is no success then, and no
            // other member is the reason.
            let nothing = outcome.values().all(|(_, each)| matches!(each, Err(CommitError::NotOwned)));
            match nothing.then(|| buffer.group().membership(|gate| gate.error())).flatten() {
                Some(error) => Err(error),
                None => Ok(outcome),
            }
        }
    }

    /// The offsets that have to be sent, and outcomes that are known without asking the coordinator.
    pub(super) fn to_commit(&self, what: CommitWhat) -> (BTreeMap<TopicPartition, CommitOffset>, CommitOutcome) {
        match what {
            CommitWhat::Finished { holder } => {
                (self.buffer.finishing(|handed_out, _| handed_out.finish_all(holder)), CommitOutcome::new())
            }
            CommitWhat::Offsets(mut offsets) => {
                self.buffer.handed_out(|handed_out| handed_out.commits_own_offsets(&mut offsets));
                (offsets, CommitOutcome::new())
            }
            CommitWhat::Batch { id, places } => {
                self.buffer.finishing(|handed_out, partitions| handed_out.finish(partitions, id, &places))
            }
        }
    }

    fn committing(
        &self,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
        call: CommitCall,
    ) -> Result<impl Future<Output = Result<CommitOutcome, ClientError>> + Send + use<>, ClientError> {
        let group_id = self.base.config.group_id.clone().ok_or_else(no_group)?;
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
        let answer = match self.group.get().filter(|_| self.is_subscribed()) {
            _ if offsets.is_empty() => PendingCommit::Nothing,
            Some(group) => PendingCommit::Member(group.commit(offsets.clone(), timeout, call)?),
            None => {
                let committer =
                    || Committer { coordinators: self.base.coordinators.clone(), buffer: self.buffer.clone() };
                let what = (group_id, offsets.clone(), timeout);
                PendingCommit::NonMember(NonMemberCommits::commit(
                    &self.non_member_commits,
                    &self.runtime,
                    committer,
                    what,
                )?)
            }
        };
        Ok(async move {
            match answer {
                PendingCommit::Nothing => Ok(CommitOutcome::new()),
                PendingCommit::Member(answer) => Ok(answer.await.unwrap_or_else(|_| crate::group::closed(offsets))),
                PendingCommit::NonMember(answer) => answer.await.unwrap_or_else(|_| Ok(crate::group::closed(offsets))),
            }
        })
    }

    /// Counts as a poll, for a user in the middle of a long batch.
    pub fn keep_alive(&self) {
        self.buffer.group().keep_alive();
    }

    /// Partitions that are being revoked, and wait until the user has finished what it holds of them.
    pub fn rebalance_wanted(&self) -> Partitions {
        self.buffer.group().membership(|gate| gate.revocation_pending())
    }

    /// Joins the group again, `after` from now. Ends what an assignor left for later: lost members, the first ones of a
    /// group and the next round are waited for no longer.
    ///
    /// # Errors
    /// If nothing is subscribed to, or the consumer is closed.
    pub fn enforce_rebalance(&self, reason: String, after: Duration) -> Result<(), ClientError> {
        match self.group.get().filter(|_| self.is_subscribed()) {
            _ if self.is_closed() => Err(ClientError::Closed),
            Some(group) => group.rejoin(reason, after),
            None => Err(ClientError::Argument("there is no rebalance without a subscription; call subscribe()".into())),
        }
    }

    /// The state of the membership; `None` before the first subscription.
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

    /// True if there is anything for [`Self::take_events`].
    pub fn has_events(&self) -> bool {
        self.group.get().is_some_and(Group::has_events)
    }

    /// Events of the membership since the last call, with their times.
    pub fn take_events(&self) -> Vec<(SystemTime, GroupEvent)> {
        self.group.get().map(Group::take_events).unwrap_or_default()
    }

    /// Begins to release what is owned and to leave the group: what is finished is committed (with automatic commits),
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
        // The consumer counts as subscribed until it is closed: calls that wait get that error, and no other.
        match self.group.get() {
            Some(group) if !self.closing.swap(true, Ordering::AcqRel) => group.close(timeout),
            _ => Ok(()),
        }
    }

    /// Progress of leaving; waits for a change until `until`. A callback is to be run as those of [`Self::next`].
    pub fn leaving(&self, until: Instant) -> Leaving {
        self.buffer.leaving(until)
    }

    /// No callback will be run any more: leaving goes on without them.
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
            self.called_back(callback.ticket, false);
        }
    }

    /// The membership, made when it is first needed.
    fn group(&self) -> Result<&Group, ClientError> {
        if self.base.config.group_id.is_none() {
            return Err(no_group());
        }
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        Ok(self.group.get_or_init(|| {
            for problem in self.base.config.timing_problems() {
                self.base.log.record(&kinds::GROUP_WARNING, || problem.message);
            }
            let defers = self.assignors.iter().any(|assignor| assignor.defers());
            if self.base.config.pace != Pace::default() && !defers {
                self.base.log.record(&kinds::GROUP_WARNING, || {
                    "scheduled.rebalance.max.delay.ms, group.initial.rebalance.delay.ms, max.moves.per.round and \
                     round.interval.ms do nothing without deferred or incremental in partition.assignment.strategy"
                        .to_owned()
                });
            }
            let parts = MembershipParts {
                base: self.base.clone(),
                buffer: self.buffer.clone(),
                reach: self.reach.clone(),
                assignors: self.assignors.clone(),
                seed: self.seed,
            };
            let group = Group::start(parts, &self.runtime);
            group.keep_events(self.keeps_events.load(Ordering::Acquire));
            let _ = self.observed.set(group.observer());
            group
        }))
    }

    pub(super) fn topics(&self) -> std::sync::MutexGuard<'_, BTreeSet<Arc<str>>> {
        lock(&self.topics)
    }
}

enum PendingCommit {
    Nothing,
    Member(oneshot::Receiver<CommitOutcome>),
    NonMember(oneshot::Receiver<Result<CommitOutcome, ClientError>>),
}

pub(super) fn no_group() -> ClientError {
    ClientError::Argument(
        "this needs a consumer group: set group.id; without one, assign() reads topics and partitions".into(),
    )
}
