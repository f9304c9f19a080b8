//! Processes: how they start, what they subscribe to, what they learn of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::assign::{Topics, builtin_with, perform, subscribed_topics};
use monedula_engine::group::consumer::{self};

use crate::checks::{Pid, Rule};
use crate::deferred::{leave_out, spoil};
use crate::large::measured;
use crate::machine::Naming;
use crate::planted::Bug;
use crate::process::{Ending, Process};
use crate::sometimes::Situation;
use crate::trace::say;
use crate::world::{Event, World};
use monedula_engine::group::{GroupProtocol, Input, Member, MemberState, Subscription, Ticket, TopicInfo};

impl World {
    pub(crate) fn start(&mut self, slot: usize, beside: bool) {
        let runs = self.processes.values().any(|process| process.slot == slot && process.ending == Ending::None);
        if (runs && !beside) || self.ending || self.retired.contains(&slot) {
            return;
        }
        self.last_pid += 1;
        let pid = self.last_pid;
        let plan = self.plan.slots[slot].clone();
        let starts = self.starts.entry(slot).or_default();
        let protocol = plan.protocols[(*starts).min(plan.protocols.len() - 1)];
        *starts += 1;
        say!(self, "--- p{pid} starts in slot {slot}: {protocol:?} {:?} {:?}", plan.instance_id, plan.topics);
        let member = self.machine(slot, pid, protocol);
        self.checks.started(pid, MemberState::first(protocol), plan.instance_id, self.plan.session);
        let mut habits = plan.habits;
        if self.calm {
            habits.hurry();
        }
        self.processes.insert(pid, Process::new(slot, member, habits, self.now));
        self.subscribe_process(pid, plan.topics);
        self.refresh(pid, true);
        if self.calm {
            self.push(self.now, Event::CommitAll(pid));
        }
        if self.mixed {
            self.checks.met.met(Situation::Mixed);
        }
    }

    fn machine(&mut self, slot: usize, pid: Pid, protocol: GroupProtocol) -> Member {
        let seed = self.plan.seed.wrapping_mul(31).wrapping_add(pid.into());
        match protocol {
            GroupProtocol::Classic => Member::classic(self.plan.config(slot), seed),
            GroupProtocol::Consumer => {
                let mut random = [0; 16];
                random[..8].copy_from_slice(&self.chance.next().to_le_bytes());
                random[8..].copy_from_slice(&u64::from(pid).to_be_bytes());
                let id = consumer::member_id(random);
                Member::consumer(self.plan.membership(slot), id, seed)
            }
        }
    }

    fn subscribe_process(&mut self, pid: Pid, topics: BTreeSet<Arc<str>>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.subscription = topics.clone();
        process.unsubscribed = false;
        let naming = self.plan.slots[process.slot].naming;
        process.matched = topics.iter().filter(|topic| self.topics.contains_key(*topic)).cloned().collect();
        let topics = if naming == Naming::Matched { process.matched.clone() } else { topics };
        let subscription = naming.subscription(topics, process.member.protocol());
        process.inbox.push_back(Input::Subscribe(subscription));
        self.run_process(pid);
    }

    pub(crate) fn subscribe(&mut self, slot: usize, topics: BTreeSet<Arc<str>>) {
        let now = self.now;
        let ready = |process: &Process| {
            process.slot == slot
                && process.ending == Ending::None
                && !process.unsubscribed
                && process.stopped_until <= now
        };
        let Some(pid) = self.processes.iter().find(|(_, process)| ready(process)).map(|(pid, _)| *pid) else { return };
        if self.processes[&pid].lanes.values().any(|lane| lane.open) {
            self.checks.met.met(Situation::SubscriptionChanged);
        }
        // If a static member's next process subscribed to more topics, no leader would learn of them before the next rebalance.
        self.plan.slots[slot].topics = topics.clone();
        self.subscribe_process(pid, topics);
        self.refresh(pid, false);
    }

    pub(crate) fn unsubscribe(&mut self, pid: Pid) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.ending == Ending::None && process.stopped_until <= now && !process.unsubscribed {
            process.unsubscribed = true;
            process.inbox.push_back(Input::Unsubscribe);
            self.run_process(pid);
        }
    }

    pub(crate) fn resubscribe(&mut self, pid: Pid) {
        let Some(process) = self.processes.get(&pid) else { return };
        if process.ending == Ending::None && process.unsubscribed {
            self.checks.met.met(Situation::Resubscribed);
            let topics = process.subscription.clone();
            self.subscribe_process(pid, topics);
            self.refresh(pid, false);
        }
    }

    /// The process is to be closed, as soon as its user gets to it.
    pub(crate) fn close(&mut self, pid: Pid) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.ending == Ending::None {
            process.ending = Ending::Wanted;
        }
        if process.stopped_until <= now {
            self.run_process(pid);
        }
    }

    /// Asks for metadata; `again`: and in a while once more.
    pub(crate) fn refresh(&mut self, pid: Pid, again: bool) {
        let at = self.now + self.chance.ms(1, 30);
        self.push(at, Event::Metadata(pid, self.topics.clone()));
        if again {
            let at = self.now + self.chance.ms(3000, 8000);
            self.push(at, Event::Refresh(pid));
        }
    }

    pub(crate) fn metadata(&mut self, pid: Pid, topics: BTreeMap<Arc<str>, TopicInfo>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.ending != Ending::None {
            return;
        }
        let wanted = |topic: &Arc<str>| process.subscription.contains(topic) || process.group_topics.contains(topic);
        let topics: BTreeMap<_, _> = topics.into_iter().filter(|(topic, _)| wanted(topic)).collect();
        let matched: BTreeSet<_> =
            process.subscription.iter().filter(|topic| topics.contains_key(*topic)).cloned().collect();
        let naming = self.plan.slots[process.slot].naming;
        if naming == Naming::Matched && !process.unsubscribed && matched != process.matched {
            process.matched.clone_from(&matched);
            process.inbox.push_back(Input::Subscribe(Subscription::Matched(matched)));
        }
        self.learn_topics(pid, topics);
        self.run_process(pid);
    }

    pub(crate) fn begin_assign(
        &mut self,
        pid: Pid,
        ticket: Ticket,
        assignor: String,
        members: Vec<(String, Option<String>, Vec<u8>)>,
    ) {
        let at = self.now + self.chance.ms(1, 100);
        self.push(at, Event::Assign(pid, ticket, assignor, members, self.topics.clone()));
    }

    pub(crate) fn assign(
        &mut self,
        pid: Pid,
        ticket: Ticket,
        assignor: &str,
        members: &[(String, Option<String>, Vec<u8>)],
        mut infos: BTreeMap<Arc<str>, TopicInfo>,
    ) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Ok(topics) = subscribed_topics(members) else {
            return self.checks.fail(Rule::Outcomes, format!("p{pid}: a subscription that cannot be read"));
        };
        process.group_topics = topics;
        infos.retain(|topic, _| process.group_topics.contains(topic));
        let counts: BTreeMap<_, _> = infos.iter().map(|(topic, info)| (topic.clone(), info.partitions)).collect();
        let racks: Topics = counts.iter().map(|(topic, count)| (topic.clone(), vec![Vec::new(); *count])).collect();
        let mut pace = self.plan.pace;
        if self.bug == Some(Bug::MoveAtOnce) {
            pace.max_moves = Some(1000);
        }
        let assignor = builtin_with(assignor, pace).unwrap();
        let given = measured(&mut self.assigning, || perform(&*assignor, &racks, members));
        let given = given.map(|given| spoil(self.bug.filter(|_| assignor.defers()), given));
        let leaves_out = self.bug == Some(Bug::LeaveOut) && self.calm && self.plan.has_statics() && !assignor.defers();
        let given = match leaves_out && !std::mem::replace(&mut self.left_out, true) {
            true => given.map(leave_out),
            false => given,
        };
        let judged = given.clone().ok().filter(|_| assignor.defers());
        let outcome = given.map(|given| (given, counts));
        if let Err(error) = &outcome {
            self.checks.fail(Rule::Fatal, format!("p{pid} cannot assign: {error}"));
        }
        self.learn_topics(pid, infos);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.inbox.push_back(Input::AssignmentComputed { ticket, outcome });
        }
        if let Some(given) = judged {
            self.judge_deferral(members, &given, assignor.name() == "incremental");
        }
        self.run_process(pid);
    }
}
