//! What has to be true after every step. The truth about what is committed and assigned comes from the coordinator's side of
//! the network, the truth about what a member owns from its outputs; the delivery under test is not asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::group::{self as classic, CallbackKind, CommitError, CommitOffset};
use monedula_engine::membership as consumer;
use monedula_engine::{Now, TopicPartition};
use monedula_protocol::error_code::ErrorCode;

use crate::machine::State;
use crate::messages::{Answer, Call};
use crate::oracle::Oracle;
use crate::sometimes::{Situation, Sometimes};

pub(crate) type Pid = u32;

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

/// What a process owns and may hand out, by its machine's outputs.
#[derive(Debug, Default)]
struct View {
    instance_id: Option<String>,
    session: Duration,
    state: Option<State>,
    generation: i32,
    owned: BTreeMap<TopicPartition, Owned>,
    told: BTreeSet<TopicPartition>,
    lease: Option<Now>,
    /// When the last request was sent whose answer proves the membership.
    proof: Option<Now>,
    committing: usize,
    /// A coordinator that was loading has answered a heartbeat, as Kafka's do, with success and without knowing whether the member
    /// is in the group. Until the next answer nobody can tell that from an acknowledgement. Or a late request of its own has misled
    /// the coordinator, or a downgrade.
    blind: bool,
}

#[derive(Debug, Default)]
struct Owned {
    announced: bool,
    /// Where it starts, if that is known.
    starts: Option<i64>,
    settling: bool,
    /// Its topic is no more; another may have the name.
    gone: bool,
    /// The coordinator upgraded the group without knowing that the member has it; see [`Checks::upgraded`].
    unaccounted: bool,
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
    accepted: BTreeSet<(TopicPartition, i64)>,
    /// What a late request committed, or a seek: going back is no fault of anyone's.
    excused: BTreeSet<TopicPartition>,
    /// What a late request committed last, or a member whose partition an upgrade gave to another: Kafka has nothing that tells it
    /// from a new one of the same generation.
    overwritten: BTreeSet<TopicPartition>,
    pub(crate) oracle: Oracle,
    /// The last process that joined under each static id. One before it is fenced, and Kafka's protocol lets it hear so only by its
    /// next request.
    holders: BTreeMap<String, Pid>,
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

    // ----- Logs ---------------------------------------------------------------------------------------------------------

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

    // ----- The coordinator's side -----------------------------------------------------------------------------------------

    /// The coordinator answered `call` of a process. `late`: its sender has given it up.
    pub(crate) fn served(&mut self, pid: Pid, call: &Call, answer: &Answer, late: bool) {
        if let (Some((_, offsets)), Some(codes)) = (call.commit(), answer.commit_codes()) {
            for (partition, at) in offsets {
                match codes.get(partition) {
                    Some(ErrorCode::None) => {
                        let owned = self.views.get(&pid).and_then(|view| view.owned.get(partition));
                        let unaccounted = owned.is_some_and(|owned| owned.unaccounted);
                        self.commit_accepted(partition, at.offset, late || unaccounted);
                    }
                    Some(ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId) => {
                        self.met.met(Situation::FencedCommit)
                    }
                    Some(ErrorCode::StaleMemberEpoch) => self.met.met(Situation::StaleCommit),
                    Some(ErrorCode::RebalanceInProgress) => self.met.met(Situation::CommitDuringRebalance),
                    _ => {}
                }
            }
        }
        if let (Call::Classic(call), Answer::Classic(classic::Answer::Sync { code: ErrorCode::None, assignment, .. })) =
            (call, answer)
        {
            self.synced(call, assignment);
        }
    }

    /// What was committed of a topic that is no more is gone with it.
    pub(crate) fn forget_committed(&mut self, topic: &Arc<str>) {
        let of = |partition: &TopicPartition| partition.topic == *topic;
        self.committed.retain(|partition, _| !of(partition));
        self.excused.retain(|partition| !of(partition));
        self.overwritten.retain(|partition| !of(partition));
        for (_, owned) in self.views.values_mut().flat_map(|view| &mut view.owned).filter(|(owned, _)| of(owned)) {
            owned.gone = true;
            self.met.met(Situation::OwnedOfGone);
        }
    }

    /// Whether it is owned of a topic that is no more.
    pub(crate) fn is_gone(&self, pid: Pid, partition: &TopicPartition) -> bool {
        self.views.get(&pid).and_then(|view| view.owned.get(partition)).is_some_and(|owned| owned.gone)
    }

    /// Whether the coordinator ever took this offset.
    pub(crate) fn was_committed(&self, partition: &TopicPartition, offset: i64) -> bool {
        self.accepted.contains(&(partition.clone(), offset))
    }

    fn commit_accepted(&mut self, partition: &TopicPartition, offset: i64, late: bool) {
        let uncovered = self.uncovered(partition);
        if offset > uncovered {
            let text = format!("{partition}: {offset} is committed, but {uncovered} was not finished");
            self.fail(Rule::CommittedUnfinished, text);
        }
        let before = self.committed.insert(partition.clone(), offset);
        self.accepted.insert((partition.clone(), offset));
        match late {
            true => {
                self.excused.insert(partition.clone());
                self.overwritten.insert(partition.clone());
            }
            false => {
                self.overwritten.remove(partition);
            }
        }
        if before.is_some_and(|before| offset < before) && !self.excused.contains(partition) {
            let text = format!("{partition}: {offset} is committed over {before:?}, and nobody went back");
            self.fail(Rule::CommitByOwner, text);
        }
    }

    // ----- A member's outputs ---------------------------------------------------------------------------------------------

    pub(crate) fn started(&mut self, pid: Pid, state: State, instance_id: Option<String>, session: Duration) {
        let view = View { state: Some(state), instance_id, session, generation: -1, ..View::default() };
        self.views.insert(pid, view);
    }

    pub(crate) fn died(&mut self, pid: Pid) {
        self.views.remove(&pid);
    }

    fn view(&mut self, pid: Pid) -> &mut View {
        self.views.entry(pid).or_default()
    }

    pub(crate) fn state(&mut self, pid: Pid, from: State, to: State) {
        let known = self.view(pid).state.replace(to);
        if matches!(to, State::Consumer(consumer::State::Stable | consumer::State::Fenced)) {
            self.view(pid).blind = false;
        }
        if known != Some(from) || !from.may_become(to) {
            self.fail(Rule::Transition, format!("p{pid}: from {from:?} (known as {known:?}) to {to:?}"));
        }
        let (gives_up, joins) = (classic::State::Revoking, classic::State::PreparingRebalance);
        if (from, to) == (State::Classic(gives_up), State::Classic(joins)) {
            self.met.met(Situation::JoinedWhileGivingUp);
        }
    }

    pub(crate) fn joined(&mut self, pid: Pid, generation: i32) {
        (self.view(pid).generation, self.view(pid).blind) = (generation, false);
    }

    /// The epoch that a member of the consumer protocol is in.
    pub(crate) fn epoch(&mut self, pid: Pid, epoch: i32) {
        if let Some(view) = self.views.get_mut(&pid) {
            view.generation = epoch;
        }
    }

    /// An answer proves that the member was in the group when it sent the request.
    pub(crate) fn proved(&mut self, pid: Pid, sent: Now) {
        let view = self.view(pid);
        view.proof = view.proof.max(Some(sent));
    }

    /// The coordinator took a process for the member of this static id.
    pub(crate) fn took(&mut self, pid: Pid, instance_id: &str) {
        self.holders.insert(instance_id.to_owned(), pid);
    }

    /// A late request told the coordinator what is not so any more. The protocol has nothing that tells it from a new one.
    pub(crate) fn misled(&mut self, pid: Pid) {
        self.blind(pid);
    }

    /// Kafka's coordinator takes the targets of members for what they own when it makes a classic group of them. That is put right as
    /// they join again; whoever upgrades the group before is given what they still have.
    pub(crate) fn downgraded(&mut self) {
        let classic = |view: &&mut View| matches!(view.state, Some(State::Classic(_)));
        self.views.values_mut().filter(classic).for_each(|view| view.blind = true);
    }

    /// Kafka's coordinator takes what it assigned last to each classic member for what that owns when it makes a consumer group of
    /// them, and gives the rest away at once. That forgets what a member still gives up by its last assignment, and all that
    /// members have once a rebalance was broken off before its assignments were there: those of before are thrown away then.
    pub(crate) fn upgraded(&mut self, pid: Pid, account: &BTreeSet<TopicPartition>) {
        let Some(view) = self.views.get_mut(&pid) else { return };
        for (partition, owned) in view.owned.iter_mut().filter(|(partition, _)| !account.contains(partition)) {
            owned.unaccounted = true;
            // Its member commits of it still, in an epoch that is good.
            self.excused.insert(partition.clone());
        }
    }

    /// A classic member keeps all that it has by its new assignment: the coordinator knows of it.
    pub(crate) fn accounted(&mut self, pid: Pid) {
        self.view(pid).owned.values_mut().for_each(|owned| owned.unaccounted = false);
    }

    /// A heartbeat was answered blindly.
    pub(crate) fn blind(&mut self, pid: Pid) {
        if let Some(view) = self.views.get_mut(&pid) {
            view.blind = true;
        }
    }

    pub(crate) fn lease(&mut self, pid: Pid, until: Option<Now>) {
        let view = self.view(pid);
        view.lease = until;
        let most = view.proof.map(|proof| proof + view.session);
        if until > most.max(Some(Now::ZERO)) {
            self.fail(Rule::LeaseTooLong, format!("p{pid}: until {until:?}, but the session may end at {most:?}"));
        }
    }

    /// `gone`: of a topic that is no more, so that whoever has the name now has another.
    pub(crate) fn gained(&mut self, pid: Pid, partition: &TopicPartition, gone: bool) {
        let generation = self.view(pid).generation;
        let classic = matches!(self.view(pid).state, Some(State::Classic(_)));
        let others = self.views.iter().filter(|(other, view)| {
            **other != pid
                && !gone
                // A classic member may hold what another gains in a generation that it has not heard of.
                && (view.generation == generation || !classic && matches!(view.state, Some(State::Consumer(_))))
                && view.owned.get(partition).is_some_and(|owned| !owned.gone && !owned.unaccounted)
        });
        if let Some((other, view)) = others
            .clone()
            .find(|(other, view)| !view.is_lost(self.now) && !view.blind && !self.is_fenced(**other, view))
        {
            let both = (view.instance_id.clone(), self.views[&pid].instance_id.clone());
            if both.0.is_none() || both.0 != both.1 {
                let rule = if classic { Rule::OneOwner } else { Rule::NoDoubleClientAssignment };
                let text = format!("{partition} in {generation}: p{pid}, and p{other} still");
                return self.fail(rule, text);
            }
        }
        if self.view(pid).owned.insert(partition.clone(), Owned { gone, ..Owned::default() }).is_some() {
            self.fail(Rule::Callbacks, format!("p{pid}: {partition} is gained, but was owned already"));
        }
    }

    /// Where a partition starts; `policy` where nothing is committed.
    pub(crate) fn start(&mut self, pid: Pid, partition: &TopicPartition, offset: i64) {
        if let Some(owned) = self.view(pid).owned.get_mut(partition) {
            owned.starts = Some(offset);
        }
    }

    pub(crate) fn settle(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        for partition in partitions {
            match self.view(pid).owned.get_mut(partition) {
                Some(owned) => owned.settling = true,
                None => self.fail(Rule::Callbacks, format!("p{pid}: {partition} settles, but is not owned")),
            }
        }
    }

    pub(crate) fn dropped(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        for partition in partitions {
            if self.view(pid).owned.remove(partition).is_none() {
                self.fail(Rule::Callbacks, format!("p{pid}: {partition} is dropped, but is not owned"));
            }
        }
    }

    pub(crate) fn callback(&mut self, pid: Pid, kind: CallbackKind, partitions: &BTreeSet<TopicPartition>) {
        for partition in partitions {
            let told = &mut self.view(pid).told;
            let fits = match kind {
                CallbackKind::Assigned => told.insert(partition.clone()),
                CallbackKind::Revoked | CallbackKind::Lost => told.remove(partition),
            };
            if !fits {
                self.fail(
                    Rule::Callbacks,
                    format!("p{pid}: {kind:?} of {partition} does not fit what was told before"),
                );
            }
        }
        if partitions.is_empty() {
            self.fail(Rule::Callbacks, format!("p{pid}: {kind:?} of nothing"));
        }
    }

    pub(crate) fn announced(&mut self, pid: Pid, partitions: &BTreeSet<TopicPartition>) {
        for partition in partitions {
            if let Some(owned) = self.view(pid).owned.get_mut(partition) {
                owned.announced = true;
            }
        }
    }

    /// A commit goes out.
    pub(crate) fn commits(&mut self, pid: Pid, generation: i32, offsets: &BTreeMap<TopicPartition, CommitOffset>) {
        let now = self.now;
        let view = self.view(pid);
        view.committing += 1;
        let stranger = offsets.keys().find(|partition| !view.owned.contains_key(*partition));
        let late = view.lease.is_some_and(|until| now >= until);
        let (known, several) = (view.generation, view.committing > 1);
        if let Some(stranger) = stranger {
            self.fail(Rule::CommitByOwner, format!("p{pid} commits {stranger}, which it does not own"));
        } else if known != generation {
            let text = format!("p{pid} commits in generation {generation}, but it is in {known}");
            self.fail(Rule::CommitByOwner, text);
        } else if late {
            self.fail(Rule::CommitByOwner, format!("p{pid} commits past its lease"));
        } else if several {
            self.fail(Rule::CommitByOwner, format!("p{pid} commits while another commit is under way"));
        }
    }

    pub(crate) fn commit_over(&mut self, pid: Pid) {
        self.view(pid).committing -= 1;
    }

    /// What became of a commit, as it is told.
    pub(crate) fn told(
        &mut self,
        pid: Pid,
        outcomes: &BTreeMap<TopicPartition, (CommitOffset, Result<(), CommitError>)>,
    ) {
        for (partition, (at, outcome)) in outcomes {
            match outcome {
                Ok(()) if !self.accepted.contains(&(partition.clone(), at.offset)) => {
                    let text = format!("p{pid}: {partition} at {} is told as committed, and is not", at.offset);
                    self.fail(Rule::ToldCommitted, text);
                }
                Err(CommitError::NotOwned) => self.met.met(Situation::CommitRefusedLocally),
                _ => {}
            }
        }
    }

    // ----- What users get -------------------------------------------------------------------------------------------------

    pub(crate) fn sought(&mut self, pid: Pid, partition: &TopicPartition, from: i64, to: i64) {
        self.cover(partition, from, to);
        self.excused.insert(partition.clone());
        if let Some(owned) = self.view(pid).owned.get_mut(partition) {
            owned.next = Some(to);
        }
    }

    pub(crate) fn delivered(&mut self, pid: Pid, partition: &TopicPartition, from: i64, to: i64) {
        let now = self.now;
        let Some(view) = self.views.get_mut(&pid) else { return };
        if view.lease.is_some_and(|until| now >= until) {
            let text = format!("p{pid}: {partition} from {from}, {:?} past the lease", now - view.lease.unwrap());
            return self.fail(Rule::LeasedDelivery, text);
        }
        let Some(owned) = view.owned.get_mut(partition) else {
            return self.fail(Rule::OwnedDelivery, format!("p{pid}: {partition} from {from}, not owned"));
        };
        if owned.settling || !owned.announced || owned.gone {
            let text = format!("p{pid}: {partition} from {from}, {owned:?}");
            return self.fail(Rule::OwnedDelivery, text);
        }
        let (next, starts, unaccounted) = (owned.next.replace(to), owned.starts, owned.unaccounted);
        if view.state.is_some_and(State::is_rebalancing) {
            self.met.met(Situation::FlowedDuringRebalance);
        }
        match next {
            Some(next) if next != from => {
                return self.fail(Rule::Gap, format!("p{pid}: {partition} from {from} to {to}, but {next} is next"));
            }
            Some(_) => {}
            None => self.first(pid, partition, from, starts),
        }
        let fenced = |of: &Pid, view: &View| self.is_fenced(*of, view);
        if fenced(&pid, &self.views[&pid]) || self.views[&pid].blind || unaccounted {
            return;
        }
        let others = self.views.iter().filter(|(other, view)| **other != pid && !fenced(other, view) && !view.blind);
        let overlap = others
            .filter(|(_, view)| {
                view.owned.get(partition).is_some_and(|owned| !owned.gone && !owned.unaccounted)
                    && view.lease.is_some_and(|until| now < until)
            })
            .map(|(other, view)| format!("p{pid} hands out {partition}; p{other} owns it until {:?}", view.lease))
            .next();
        if let Some(text) = overlap {
            self.fail(Rule::Overlap, text);
        }
    }

    /// Whether another process runs under its static id since.
    fn is_fenced(&self, pid: Pid, view: &View) -> bool {
        view.instance_id.as_ref().and_then(|id| self.holders.get(id)).is_some_and(|holder| *holder != pid)
    }

    fn first(&mut self, pid: Pid, partition: &TopicPartition, from: i64, starts: Option<i64>) {
        let committed = self.committed.get(partition).copied();
        let view = &self.views[&pid];
        let zombie = view.blind || self.is_fenced(pid, view);
        let expected = if zombie { starts } else { committed.or(starts) };
        if starts != Some(from) || (expected != Some(from) && !self.excused.contains(partition)) {
            let text = format!("p{pid}: {partition} starts at {from}; {committed:?} is committed, told was {starts:?}");
            self.fail(Rule::Start, text);
        }
    }

    /// Where a partition starts, as it was told.
    pub(crate) fn starts(&self, pid: Pid, partition: &TopicPartition) -> Option<i64> {
        self.views.get(&pid)?.owned.get(partition)?.starts
    }

    /// What a user who waits would have to get.
    pub(crate) fn available(&self, pid: Pid) -> Option<TopicPartition> {
        let view = self.views.get(&pid)?;
        if view.lease.is_some_and(|until| self.now >= until) {
            return None;
        }
        let there = view.owned.iter().find(|(partition, owned)| {
            let at = owned.next.or(owned.starts);
            owned.announced && !owned.settling && !owned.gone && at.is_some_and(|at| at < self.end(partition))
        });
        there.map(|(partition, _)| partition.clone())
    }

    // ----- The end --------------------------------------------------------------------------------------------------------

    pub(crate) fn closed(&mut self, pid: Pid) {
        if let Some(view) = self.views.remove(&pid)
            && (!view.told.is_empty() || !view.owned.is_empty())
        {
            self.fail(Rule::Callbacks, format!("p{pid} is closed, but was not told of the end of {:?}", view.told));
        }
    }

    /// What is missing before all is as it should be, `None` if nothing is.
    pub(crate) fn missing(&self, subscribed: &BTreeSet<Arc<str>>) -> Option<String> {
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
            let excused = self.overwritten.contains(partition) && committed.is_some();
            if committed != Some(log.end) && log.end > log.start && !excused {
                return Some(format!("{partition}: {committed:?} is committed, the end is {}", log.end));
            }
        }
        self.views
            .iter()
            .find(|(_, view)| view.told.iter().ne(view.owned.keys()))
            .map(|(pid, view)| format!("p{pid} was told of {:?}, but owns {:?}", view.told, view.owned.keys()))
    }
}

impl View {
    /// Whether it knows by itself that what it owns may be another's.
    fn is_lost(&self, now: Now) -> bool {
        self.lease.is_none_or(|until| now >= until)
    }
}
