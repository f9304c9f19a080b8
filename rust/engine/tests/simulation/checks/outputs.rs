//! What a member's machine puts out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_engine::group::classic::{self};
use monedula_engine::{Now, TopicPartition};

use super::{Checks, Owned, Pid, Rule, View};
use crate::excuses::Excuse;
use crate::sometimes::Situation;
use monedula_engine::group::{CallId, CallbackKind, CommitError, CommitOffset, MemberState};

impl Checks {
    pub(crate) fn started(&mut self, pid: Pid, state: MemberState, instance_id: Option<String>, session: Duration) {
        let view = View { state: Some(state), instance_id, session, generation: -1, ..View::default() };
        self.views.insert(pid, view);
    }

    pub(crate) fn died(&mut self, pid: Pid) {
        self.views.remove(&pid);
    }

    pub(crate) fn state(&mut self, pid: Pid, from: MemberState, to: MemberState) {
        let known = self.view(pid).state.replace(to);
        if known != Some(from) || !may_become(from, to) {
            self.fail(Rule::Transition, format!("p{pid}: from {from:?} (known as {known:?}) to {to:?}"));
        }
        let (gives_up, joins) = (classic::ClassicState::Revoking, classic::ClassicState::PreparingRebalance);
        if (from, to) == (MemberState::Classic(gives_up), MemberState::Classic(joins)) {
            self.met.met(Situation::JoinedWhileGivingUp);
        }
    }

    pub(crate) fn joined(&mut self, pid: Pid, generation: i32) {
        (self.view(pid).generation, self.view(pid).blind) = (generation, None);
    }

    /// The epoch that a member of the consumer protocol is in.
    pub(crate) fn epoch(&mut self, pid: Pid, epoch: i32) {
        if let Some(view) = self.views.get_mut(&pid) {
            view.generation = epoch;
        }
    }

    /// An answer proves that the member was in the group when it sent the request, unless it was given blindly.
    pub(crate) fn proved(&mut self, pid: Pid, id: CallId, sent: Now) {
        let view = self.view(pid);
        view.proof = view.proof.max(Some(sent));
        if !view.blind_calls.contains(&id) {
            view.blind = view.blind.filter(|blind| sent <= *blind);
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

    /// Metadata has the topic of a partition, which was not known when it was assigned. `gone`: that topic is no more.
    pub(crate) fn identified(&mut self, pid: Pid, partition: &TopicPartition, gone: bool) {
        if let Some(owned) = self.view(pid).owned.get_mut(partition) {
            owned.gone = gone;
        }
    }

    /// `gone`: of a topic that is no more, so that whoever has the name now has another. In assignments of the classic protocol
    /// topics go by their names.
    pub(crate) fn assigned(&mut self, pid: Pid, partition: &TopicPartition, gone: bool) {
        let generation = self.view(pid).generation;
        let classic = matches!(self.view(pid).state, Some(MemberState::Classic(_)));
        let others = self.views.iter().filter(|(other, view)| {
            **other != pid
                && (classic || !gone)
                // A classic member may still own a partition that another is assigned in a newer generation.
                && (view.generation == generation || !classic && matches!(view.state, Some(MemberState::Consumer(_))))
                && view.owned.get(partition).is_some_and(|owned| !owned.gone)
                && !view.is_lost(self.now)
        });
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            let Some(excuse) = self.mistaken(other, partition).or_else(|| self.mistaken(pid, partition)) else {
                let rule = if classic { Rule::OneOwner } else { Rule::NoDoubleClientAssignment };
                let text = format!("{partition} in {generation}: p{pid}, and p{other} still");
                return self.fail(rule, text);
            };
            self.excuse(excuse);
        }
        let doubt = self.view(pid).misled.map(|_| Excuse::Misled);
        if self.view(pid).owned.insert(partition.clone(), Owned { gone, doubt, ..Owned::default() }).is_some() {
            self.fail(Rule::Callbacks, format!("p{pid}: {partition} is assigned, but was owned already"));
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
                Ok(()) if !self.was_committed(pid, partition, at.offset, at.metadata.parse().unwrap_or_default()) => {
                    let text = format!("p{pid}: {partition} at {} is told as committed, and is not", at.offset);
                    self.fail(Rule::ToldCommitted, text);
                }
                Err(CommitError::NotOwned) => self.met.met(Situation::CommitRefusedLocally),
                _ => {}
            }
        }
    }
}

fn may_become(from: MemberState, to: MemberState) -> bool {
    match (from, to) {
        (MemberState::Classic(from), MemberState::Classic(to)) => from.successors().contains(&to),
        (MemberState::Consumer(from), MemberState::Consumer(to)) => from.successors().contains(&to),
        _ => false,
    }
}
