//! What has to be true after every step. The truth about what is committed and assigned comes from the coordinator's side of
//! the network, the truth about what a member owns from its outputs; the delivery under test is not asked.

mod coordinator;
mod outputs;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::{Now, TopicPartition};

use crate::excuses::{Excuse, Excuses};
use crate::oracle::Oracle;
use crate::sometimes::Sometimes;
use monedula_engine::group::{CallId, MemberState};

pub(crate) use crate::network::Pid;

/// The id of a reading: of the time from one assignment of a partition, or seek in it, to the next. A commit carries it
/// in its metadata.
pub(crate) type ReadingId = u64;

/// Which rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// One owner for each partition in each generation, or epoch.
    OneOwner,
    /// No partition is assigned to two members, and none gains what another still has.
    NoDoubleClientAssignment,
    /// No partition is to be two members'.
    LegalTargetAssignment,
    /// No member is ahead of its group.
    ValidMemberEpoch,
    /// No epoch goes back.
    MonotonicEpochs,
    /// Nothing is handed out of what is not owned, not started, settling, or not announced.
    OwnedDelivery,
    /// Nothing is handed out past the lease.
    LeasedDelivery,
    /// No two members may hand out one partition at the same time.
    Overlap,
    /// The lease ends before the session that the coordinator keeps.
    LeaseTooLong,
    /// Within an ownership no offset is left out or handed out twice.
    Gap,
    /// Reading starts at what is committed, or where the policy says.
    Start,
    /// Nothing is committed that no user has finished.
    CommittedUnfinished,
    /// What is told as committed is committed.
    ToldCommitted,
    /// A commit names the generation of its member, and what that owns.
    CommitByOwner,
    /// What is given up was finished by the user, and committed or tried.
    RevokedInOrder,
    /// Callbacks are balanced: assigned = revoked + lost.
    Callbacks,
    /// A user who waits gets what is there.
    Stalled,
    /// State changes are those of the table.
    Transition,
    /// Each call, commit and close has one outcome, in time.
    Outcomes,
    /// No error ends a membership that nothing justifies.
    Fatal,
    /// No more partitions move at a time than may.
    Rationed,
    /// Where somebody is lost and waited for, nobody else gives up anything.
    KeptForLoss,
    /// What breaks a rule by Kafka's own fault is seldom.
    Excuses,
    /// The machine comes to rest.
    Spins,
    /// After the faults, all is owned once, and all is finished and committed.
    Converges,
}

/// A broken rule.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) at: Now,
    pub(crate) text: String,
}

/// A partition's log: offsets are all that counts of records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Whether someone finished the record, or jumped over it by a seek or a policy; from `start` on.
    covered: Vec<bool>,
}

/// A stray commit of a partition; see [`Excuse::StrayGoesBack`].
#[derive(Clone, Copy, Debug)]
struct Stray {
    /// The request that brought it, and maybe others of many partitions.
    request: (Pid, CallId),
    /// What was committed before.
    replaced: Option<i64>,
}

/// What a process owns and may hand out, by its machine's outputs.
#[derive(Debug, Default)]
struct View {
    instance_id: Option<String>,
    session: Duration,
    state: Option<MemberState>,
    generation: i32,
    owned: BTreeMap<TopicPartition, Owned>,
    told: BTreeSet<TopicPartition>,
    lease: Option<Now>,
    /// When the last request was sent whose answer proves the membership.
    proof: Option<Now>,
    committing: usize,
    /// When the heartbeat was sent that was answered blindly last; see [`Excuse::Blind`].
    blind: Option<Now>,
    /// Heartbeats that were answered blindly.
    blind_calls: BTreeSet<CallId>,
    /// When a late request misled the coordinator, until an answer to a later one is there; see [`Excuse::Misled`].
    misled: Option<Now>,
}

#[derive(Debug, Default)]
struct Owned {
    announced: bool,
    /// Where it starts, if that is known.
    starts: Option<i64>,
    settling: bool,
    /// Its topic is no more; another may have the name.
    gone: bool,
    /// Why the coordinator may believe that it is another's.
    doubt: Option<Excuse>,
    /// What is committed by the coordinator's answer to its lookup.
    looked_up: Option<Option<i64>>,
    /// The next offset to hand out, once something was, or a seek said so.
    next: Option<i64>,
}

/// All rules.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) violation: Option<Violation>,
    pub(crate) met: Sometimes,
    pub(crate) logs: BTreeMap<TopicPartition, Log>,
    pub(crate) committed: BTreeMap<TopicPartition, i64>,
    /// What was committed by whom, in which reading.
    accepted: BTreeSet<(Pid, TopicPartition, i64, ReadingId)>,
    /// Readings that seeks began, until something is committed of them, or of a later one.
    sought: BTreeMap<(Pid, TopicPartition), BTreeSet<ReadingId>>,
    /// What stray commits replaced since the last one of an owner, that first.
    strays: BTreeMap<TopicPartition, Vec<Stray>>,
    pub(crate) excuses: Excuses,
    /// Of which partitions and processes something was excused before, whether it is over or not: planted bugs hide there.
    pub(crate) excused: BTreeSet<(Excuse, Option<Pid>, Option<TopicPartition>)>,
    /// Calls that the coordinator had a reason to refuse.
    pub(crate) justified: BTreeSet<(Pid, CallId)>,
    pub(crate) oracle: Oracle,
    /// The last process that joined under each static id. One before it is fenced, and Kafka's protocol lets it hear so only by its
    /// next request.
    holders: BTreeMap<String, (Pid, Now)>,
    views: BTreeMap<Pid, View>,
    now: Now,
}

impl Checks {
    pub(crate) fn at(&mut self, now: Now) {
        self.now = now;
    }

    pub(crate) fn fail(&mut self, rule: Rule, text: impl Into<String>) {
        let at = self.now;
        self.violation.get_or_insert_with(|| Violation { rule, at, text: text.into() });
    }

    pub(crate) fn add_log(&mut self, partition: TopicPartition, start: i64) {
        self.logs.insert(partition, Log { start, end: start, covered: Vec::new() });
    }

    pub(crate) fn append(&mut self, partition: &TopicPartition, records: i64) {
        if let Some(log) = self.logs.get_mut(partition) {
            log.end += records;
            log.covered.resize((log.end - log.start) as usize, false);
        }
    }

    pub(crate) fn end(&self, partition: &TopicPartition) -> i64 {
        self.logs.get(partition).map_or(0, |log| log.end)
    }

    /// A user finished these, or jumped over them.
    pub(crate) fn cover(&mut self, partition: &TopicPartition, from: i64, to: i64) {
        if let Some(log) = self.logs.get_mut(partition) {
            for offset in from.max(log.start)..to.min(log.end) {
                log.covered[(offset - log.start) as usize] = true;
            }
        }
    }

    /// The first record that nobody finished.
    fn uncovered(&self, partition: &TopicPartition) -> i64 {
        let Some(log) = self.logs.get(partition) else { return 0 };
        let first = log.covered.iter().position(|covered| !covered);
        first.map_or(log.end, |index| log.start + index as i64)
    }

    fn view(&mut self, pid: Pid) -> &mut View {
        self.views.entry(pid).or_default()
    }

    /// Whether another process has its static id since, and it may not have heard so: no heartbeat of its own is acknowledged since.
    fn is_replaced(&self, pid: Pid, view: &View) -> bool {
        let holder = view.instance_id.as_ref().and_then(|id| self.holders.get(id));
        holder.is_some_and(|(holder, since)| *holder != pid && self.now < *since + view.session)
    }

    /// Forgives something that breaks a rule.
    pub(crate) fn excuse(&mut self, excuse: Excuse) {
        if self.excuses.used(excuse) {
            self.fail(Rule::Excuses, format!("{excuse:?} is the reason for too much"));
        }
    }

    /// Why a process may believe by mistake that a partition is its own.
    fn mistaken(&self, pid: Pid, partition: &TopicPartition) -> Option<Excuse> {
        let view = self.views.get(&pid)?;
        if self.is_replaced(pid, view) {
            return Some(Excuse::Replaced);
        }
        view.blind.map(|_| Excuse::Blind).or(view.owned.get(partition)?.doubt)
    }

    pub(crate) fn closed(&mut self, pid: Pid) {
        if let Some(view) = self.views.remove(&pid)
            && (!view.told.is_empty() || !view.owned.is_empty())
        {
            self.fail(Rule::Callbacks, format!("p{pid} is closed, but was not told of the end of {:?}", view.told));
        }
    }

    /// What is missing before all is as it should be, `None` if nothing is.
    pub(crate) fn missing(&mut self, subscribed: &BTreeSet<Arc<str>>) -> Option<String> {
        let mut strays = BTreeSet::new();
        for (partition, log) in self.logs.iter().filter(|(partition, _)| subscribed.contains(&partition.topic)) {
            let owners: Vec<_> = self.views.iter().filter(|(_, view)| view.owned.contains_key(partition)).collect();
            if owners.len() != 1 {
                let owners: Vec<_> = owners.iter().map(|(pid, _)| pid).collect();
                return Some(format!("{partition} is owned by {owners:?}"));
            }
            let uncovered = self.uncovered(partition);
            if uncovered < log.end {
                return Some(format!("{partition}: nobody finished {uncovered}, the end is {}", log.end));
            }
            let committed = self.committed.get(partition).copied();
            // The owner has committed this offset already, and does not commit it again.
            let over = self.strays.get(partition).into_iter().flatten().find(|stray| stray.replaced == Some(log.end));
            if committed != Some(log.end) && log.end > log.start {
                if let Some(stray) = over {
                    strays.insert(stray.request);
                    continue;
                }
                return Some(format!("{partition}: {committed:?} is committed, the end is {}", log.end));
            }
        }
        let mut views = self.views.iter();
        if let Some((pid, view)) = views.find(|(_, view)| view.told.iter().ne(view.owned.keys())) {
            return Some(format!("p{pid} was told of {:?}, but owns {:?}", view.told, view.owned.keys()));
        }
        strays.iter().for_each(|_| self.excuse(Excuse::StrayAtTheEnd));
        None
    }
}

impl View {
    /// Whether it knows by itself that what it owns may be another's.
    fn is_lost(&self, now: Now) -> bool {
        self.lease.is_none_or(|until| now >= until)
    }
}
