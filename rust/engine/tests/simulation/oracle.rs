//! What has to be true of a group by the coordinator's own account. The names are those of the TLA+ specification of KIP-848.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_broker::control::Command;
use monedula_engine::TopicPartition;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;
use serde_json::Value;

use crate::checks::{Checks, Pid, Rule};
use crate::messages::Asked;
use crate::plan::GROUP;
use crate::sometimes::Situation;
use crate::trace::say;
use crate::world::World;
use monedula_engine::group::{Call, CallId, GroupResponse, HeartbeatCall, Partitions};

/// What is known of the group.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// Names of topics that there were.
    names: BTreeMap<Uuid, Arc<str>>,
    /// Who was given what, by epoch or generation.
    assigned: BTreeMap<(i32, TopicPartition), String>,
    /// The last epoch of each member.
    members: BTreeMap<String, i32>,
    group_epoch: i64,
    assignment_epoch: i64,
    /// The kind that the group was when it was last looked at.
    kind: Option<String>,
    /// What each classic member had by the coordinator's account before a heartbeat that joins.
    accounts: Option<BTreeMap<String, BTreeSet<TopicPartition>>>,
    /// Members that a coordinator has read back from the log since they joined.
    read_back: BTreeSet<String>,
    /// The group was upgraded by who took a classic member's place, so that nothing was assigned anew.
    upgraded_as_it_was: bool,
    /// A static member came back in this generation of a classic group, and had the assignment of the one before it.
    returned_in: Option<i32>,
}

impl Oracle {
    fn is_consumer(&self) -> bool {
        self.kind.as_deref() == Some("consumer")
    }

    pub(crate) fn returned(&mut self, generation: i32) {
        self.returned_in = Some(generation);
    }

    /// Whether a static member may be the reason why something is missing in this generation.
    pub(crate) fn has_returned(&self, generation: i32) -> bool {
        self.returned_in == Some(generation)
    }

    /// Whether what nobody had at an upgrade may be nobody's still.
    pub(crate) fn is_as_upgraded(&self) -> bool {
        self.upgraded_as_it_was && self.is_consumer()
    }
}

impl World {
    /// A heartbeat that joins may upgrade the group: what its members have by the coordinator's account is what it starts with.
    pub(crate) fn note_accounts(&mut self) {
        let group = self.group().filter(|group| group["type"] == "classic");
        // The session of its last member under KIP-848 may have ended unseen. Without members it is replaced, not converted.
        if let Some(group) = group.as_ref().filter(|group| group["members"].as_array().is_some_and(Vec::is_empty)) {
            self.checks.group(group, true);
        }
        self.checks.oracle.accounts = group.map(|group| accounts(&group));
    }

    fn judge_upgrade(&mut self) {
        let Some(accounts) = self.checks.oracle.accounts.take() else { return };
        if !self.checks.oracle.is_consumer() {
            return;
        }
        for (pid, process) in &self.processes {
            let account = accounts.get(&process.member.status().member_id);
            account.into_iter().for_each(|account| self.checks.upgraded(*pid, account));
        }
    }

    /// Looks at the group where an answer may have changed it.
    pub(crate) fn judge_group(&mut self, call: &Call, answer: &GroupResponse) {
        let (Some(heartbeat), GroupResponse::ConsumerGroupHeartbeat { code, epoch, assignment, .. }) =
            (call.heartbeat(), answer)
        else {
            if let GroupResponse::JoinGroup { code: ErrorCode::None, member_id, .. } = answer {
                self.checks.oracle.read_back.remove(member_id);
                if self.plan.mixes_protocols() {
                    self.look_at_group();
                }
            }
            return;
        };
        if *code != ErrorCode::None {
            self.checks.oracle.accounts = None;
            // The group may have become a classic one since the last look, and may be replaced by a new group before the next look.
            if *code == ErrorCode::GroupIdNotFound {
                self.look_at_group();
            }
            return;
        }
        // Looks first: if the group was replaced, its epochs are other ones.
        if assignment.is_some() || heartbeat.epoch < 0 {
            self.look_at_group();
        }
        if heartbeat.epoch == 0 {
            self.judge_upgrade();
        }
        self.checks.heartbeat(heartbeat, *epoch, assignment.as_ref());
    }

    /// The group by its coordinator's account; without one, or while it loads, there is none.
    fn group(&mut self) -> Option<Value> {
        self.core.control(self.ms(), Command::Group { group: GROUP.into() }).ok()
    }

    /// Whether there is a reason for an error with which the coordinator just answered, and that ends a membership.
    pub(crate) fn justify(&mut self, pid: Pid, id: CallId, call: &Call, code: ErrorCode) {
        use ErrorCode as E;
        let reasons =
            [E::UnknownServerError, E::InconsistentGroupProtocol, E::UnreleasedInstanceId, E::FencedInstanceId];
        if !reasons.contains(&code) {
            return;
        }
        let Some(group) = self.group() else { return };
        let Some((member_id, instance_id)) = call.identity() else { return };
        let mut members = group["members"].as_array().into_iter().flatten();
        let justified = match code {
            E::UnknownServerError => {
                call.heartbeat().is_some_and(|call| call.epoch == 0)
                    && group["type"] == "classic"
                    && group["state"] == "PreparingRebalance"
            }
            E::InconsistentGroupProtocol => members
                .any(|member| self.checks.oracle.read_back.contains(member["member_id"].as_str().unwrap_or_default())),
            // Another member has this instance id.
            _ => members.any(|member| {
                instance_id.is_some()
                    && member["instance_id"].as_str() == instance_id
                    && member["member_id"] != member_id
            }),
        };
        if justified {
            self.checks.justified.insert((pid, id));
        }
    }

    /// The coordinator is another's, or loads again: of the members that it has it knows what the log says.
    pub(crate) fn read_back(&mut self) {
        let Some(group) = self.group() else { return };
        let members = group["members"].as_array().into_iter().flatten();
        let ids = members.filter_map(|member| member["member_id"].as_str()).map(ToOwned::to_owned);
        self.checks.oracle.read_back.extend(ids);
    }

    fn look_at_group(&mut self) {
        let Some(group) = self.group() else { return };
        say!(self, "the group: {group}");
        let was_consumer = self.checks.oracle.is_consumer();
        self.checks.group(&group, self.plan.mixes_protocols());
        if was_consumer && !self.checks.oracle.is_consumer() {
            let accounts = accounts(&group);
            for (pid, process) in &self.processes {
                let account = accounts.get(&process.member.status().member_id);
                account.into_iter().for_each(|account| self.checks.downgraded(*pid, account));
            }
        }
    }
}

impl Checks {
    /// The topic has this id.
    pub(crate) fn named(&mut self, id: Uuid, topic: &Arc<str>) {
        self.oracle.names.insert(id, topic.clone());
    }

    /// The topic is no more: one of the same name is another.
    pub(crate) fn remove_logs(&mut self, topic: &Arc<str>) {
        self.logs.retain(|partition, _| partition.topic != *topic);
        self.forget_committed(topic);
        self.oracle.assigned.retain(|(_, partition), _| partition.topic != *topic);
    }

    /// A classic member was given its assignment.
    pub(crate) fn given_by_sync(&mut self, call: &Call, assigned: BTreeSet<TopicPartition>) {
        let Call::SyncGroup { generation, member_id, instance_id, .. } = call else { return };
        // A static member that comes back has the assignment of the one before it, in the same generation.
        self.given(*generation, instance_id.as_ref().unwrap_or(member_id), assigned);
    }

    fn heartbeat(&mut self, call: &HeartbeatCall, epoch: i32, assignment: Option<&Partitions>) {
        if epoch < 0 {
            // It may come back, as a member that the group does not know.
            self.oracle.members.remove(&call.member_id);
            return;
        }
        let last = self.oracle.members.entry(call.member_id.clone()).or_default();
        if epoch < *last {
            let text = format!("{}: from epoch {last} to {epoch}", call.member_id);
            return self.fail(Rule::MonotonicEpochs, text);
        }
        *last = epoch;
        let member = call.instance_id.as_ref().unwrap_or(&call.member_id).clone();
        let partitions = self.names_of(assignment.into_iter().flatten());
        self.given(epoch, &member, partitions);
    }

    /// What is left of a topic that is gone does not count.
    pub(crate) fn names_of<'p>(&self, ids: impl Iterator<Item = &'p (Uuid, i32)>) -> BTreeSet<TopicPartition> {
        let named = ids.filter_map(|(id, partition)| {
            let partition = TopicPartition::new(self.oracle.names.get(id)?.clone(), *partition);
            self.logs.contains_key(&partition).then_some(partition)
        });
        named.collect()
    }

    fn given(&mut self, epoch: i32, member: &str, partitions: impl IntoIterator<Item = TopicPartition>) {
        for partition in partitions {
            let key = (epoch, partition);
            let owner = self.oracle.assigned.entry(key.clone()).or_insert_with(|| member.to_owned());
            if owner != member {
                let text = format!("{} in {epoch}: {owner} and {member}", key.1);
                self.fail(Rule::OneOwner, text);
            }
        }
    }

    fn group(&mut self, group: &Value, mixed: bool) {
        let kind = group["type"].as_str().unwrap_or_default().to_owned();
        let before = self.oracle.kind.replace(kind.clone());
        match (before.as_deref(), &*kind) {
            (Some("classic"), "consumer") => self.met.met(Situation::Upgraded),
            (Some("consumer"), "classic") => self.met.met(Situation::Downgraded),
            _ => {}
        }
        if before.is_some_and(|before| before != kind) {
            // A group without members is replaced, not converted.
            self.oracle.assigned.clear();
            self.oracle.members.clear();
            (self.oracle.group_epoch, self.oracle.assignment_epoch) = (0, 0);
        }
        if kind != "consumer" {
            return;
        }
        if self.oracle.accounts.is_some() {
            let mut epochs = group["members"].as_array().into_iter().flatten().map(|member| &member["member_epoch"]);
            self.oracle.upgraded_as_it_was |= epochs.all(|epoch| *epoch == group["group_epoch"]);
        }
        let number = |of: &Value, what: &str| of[what].as_i64().unwrap_or_default();
        let (epoch, assignment_epoch) = (number(group, "group_epoch"), number(group, "assignment_epoch"));
        let (known, known_assignment) = (self.oracle.group_epoch, self.oracle.assignment_epoch);
        if epoch < known || assignment_epoch < known_assignment || assignment_epoch > epoch {
            let text = format!(
                "the group goes from epoch {known}, assigned {known_assignment}, to {epoch}, assigned {assignment_epoch}"
            );
            self.fail(Rule::MonotonicEpochs, text);
        }
        (self.oracle.group_epoch, self.oracle.assignment_epoch) = (epoch, assignment_epoch);
        let members = group["members"].as_array().cloned().unwrap_or_default();
        for member in &members {
            if number(member, "member_epoch") > assignment_epoch {
                let text = format!("{member} is ahead of the assignment of {assignment_epoch}");
                self.fail(Rule::ValidMemberEpoch, text);
            }
        }
        self.disjoint(&members, "target_assignment", Rule::LegalTargetAssignment);
        self.disjoint(&members, "assignment", Rule::NoDoubleClientAssignment);
        if members.len() > 1 && mixed {
            self.met.met(Situation::BothProtocols);
        }
    }

    fn disjoint(&mut self, members: &[Value], what: &str, rule: Rule) {
        let mut all = BTreeSet::new();
        for member in members {
            for (topic, partitions) in member[what].as_object().into_iter().flatten() {
                for partition in partitions.as_array().into_iter().flatten() {
                    if !all.insert((topic.clone(), partition.as_i64())) {
                        self.fail(rule, format!("{topic}-{partition} is in two {what}s: {members:?}"));
                    }
                }
            }
        }
    }
}

/// What each member has by the account of the coordinator.
fn accounts(group: &Value) -> BTreeMap<String, BTreeSet<TopicPartition>> {
    let members = group["members"].as_array().into_iter().flatten();
    members.map(|member| (member["member_id"].as_str().unwrap_or_default().to_owned(), assigned(member))).collect()
}

/// What a member has by the account of the coordinator.
fn assigned(member: &Value) -> BTreeSet<TopicPartition> {
    let topics = member["assignment"].as_object().into_iter().flatten();
    let of_topic = |(topic, partitions): (&String, &Value)| -> Vec<TopicPartition> {
        let partitions = partitions.as_array().into_iter().flatten().filter_map(Value::as_i64);
        partitions.map(|partition| TopicPartition::new(topic.as_str(), partition as i32)).collect()
    };
    topics.flat_map(of_topic).collect()
}
