//! Groups, of the classic protocol and of the new one (KIP-848): listed, described, deleted.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_group_describe::{self, ConsumerGroupDescribeRequest};
use monedula_protocol::messages::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use monedula_protocol::messages::delete_groups::DeleteGroupsRequest;
use monedula_protocol::messages::describe_groups::{self, DescribeGroupsRequest};
use monedula_protocol::messages::list_groups::{ListGroupsRequest, ListedGroup};

use super::call::{Answers, ItemCall, Items, Place, Refusal, Subject, read, refuse_all};
use super::cluster::Node;
use super::{Admin, Shared};
use crate::coordinator::Failure;
use crate::error::ClientError;
use crate::net::network::NodeId;

/// What kind of group has consumers under the classic protocol.
const CONSUMER: &str = "consumer";

/// Which groups to list; empty for all.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    /// Those in one of these states.
    pub states: Vec<String>,
    /// Those of one of these types.
    pub types: Vec<String>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// Its state; empty where the broker does not tell.
    pub state: String,
    /// Its type; empty where the broker does not tell.
    pub kind: String,
    /// What kind of clients it has.
    pub protocol_type: String,
    /// The broker that told of it.
    pub coordinator: i32,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its state, such as `Stable`.
    pub state: String,
    /// `classic` or `consumer`.
    pub kind: &'static str,
    /// What kind of clients it has.
    pub protocol_type: String,
    /// The assignor in use, or empty.
    pub assignor: String,
    /// Its coordinator.
    pub coordinator: Option<Node>,
    /// Its epoch, under the new protocol.
    pub epoch: Option<i32>,
    /// Its members.
    pub members: Vec<MemberDescription>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id.
    pub member_id: String,
    /// The static member, if it is one.
    pub instance_id: Option<String>,
    /// The client id that it joined with.
    pub client_id: String,
    /// The address that it joined from.
    pub host: String,
    /// Its rack, if it told one.
    pub rack: Option<String>,
    /// Its epoch, under the new protocol.
    pub epoch: Option<i32>,
    /// The topics that it subscribes to by name.
    pub topics: Vec<String>,
    /// What it owns.
    pub assignment: Vec<TopicPartition>,
    /// What it is to own in the end, under the new protocol.
    pub target_assignment: Option<Vec<TopicPartition>>,
}

impl Admin {
    /// The groups of the whole cluster: each broker tells of those that it coordinates.
    pub fn list_groups(
        &self,
        filter: GroupFilter,
        timeout: Duration,
    ) -> impl Future<Output = Result<BTreeMap<String, GroupListing>, ClientError>> + Send + use<> {
        self.until_closed(move |shared| async move { shared.list_groups(filter, timeout).await })
    }

    /// These groups with their members.
    pub fn describe_groups(
        &self,
        groups: Vec<String>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Items<String, GroupDescription>, ClientError>> + Send + use<> {
        self.until_closed(move |shared| async move { shared.describe_groups(groups, timeout).await })
    }

    /// Deletes groups without members.
    pub fn delete_groups(
        &self,
        groups: Vec<String>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Items<String, ()>, ClientError>> + Send + use<> {
        self.until_closed(move |shared| async move { shared.run(DeleteGroups, groups, timeout).await })
    }
}

impl Shared {
    /// Asks all brokers, and all of them again after a round in which groups may have gone from one that was still to be
    /// asked to one that had answered.
    async fn list_groups(
        &self,
        filter: GroupFilter,
        timeout: Duration,
    ) -> Result<BTreeMap<String, GroupListing>, ClientError> {
        let until = Instant::now() + timeout;
        let left = || until.saturating_duration_since(Instant::now());
        let mut jitter = Jitter::new(self.turns.load(Ordering::Relaxed) as u64);
        for round in 0.. {
            let unrest = Arc::new(AtomicBool::new(false));
            let nodes: Vec<i32> = self.brokers(left()).await?.brokers.into_keys().collect();
            let call = ListGroups { filter: filter.clone(), unrest: unrest.clone() };
            let mut groups = BTreeMap::new();
            for (_, told) in self.run(call, nodes, left()).await? {
                groups.extend(told?);
            }
            if !unrest.load(Ordering::Relaxed) {
                return Ok(groups);
            }
            let delay = self.config.retry_backoff.delay(round, &mut jitter);
            if delay >= left() {
                break;
            }
            tokio::time::sleep(delay).await;
        }
        let last_error = Some("groups went from broker to broker meanwhile".into());
        Err(ClientError::TimedOut { what: "listing the groups".into(), after: timeout, last_error })
    }

    /// Asks for groups of the new protocol first; those that are none of it are asked for as classic ones.
    pub(super) async fn describe_groups(
        &self,
        groups: Vec<String>,
        timeout: Duration,
    ) -> Result<Items<String, GroupDescription>, ClientError> {
        let started = Instant::now();
        let mut done = Items::new();
        let mut classic = Vec::new();
        match self.run(DescribeConsumerGroups, groups.iter().cloned(), timeout).await {
            Ok(described) => {
                for (group, outcome) in described {
                    match outcome {
                        Ok(None) => classic.push(group),
                        Ok(Some(described)) => done.push((group, Ok(described))),
                        Err(error) => done.push((group, Err(error))),
                    }
                }
            }
            // From before Kafka 3.7: all of its groups are classic.
            Err(ClientError::UnsupportedVersion { .. }) => classic = groups,
            Err(error) => return Err(error),
        }
        let left = timeout.saturating_sub(started.elapsed());
        done.extend(self.run(DescribeClassicGroups, classic, left).await?);
        done.sort_by(|(one, _), (other, _)| one.cmp(other));
        let nodes = self.metadata.cluster();
        for (group, outcome) in &mut done {
            if let (Ok(described), Some(node)) = (outcome, self.coordinators.known_node(group)) {
                described.coordinator = nodes.brokers.get(&node).map(|broker| Node::new(node, broker));
            }
        }
        Ok(done)
    }
}

struct ListGroups {
    filter: GroupFilter,
    /// Whether a broker could not tell at first: its groups may be someone else's by now.
    unrest: Arc<AtomicBool>,
}

impl ListGroups {
    fn disturbed(&self) {
        self.unrest.store(true, Ordering::Relaxed);
    }
}

impl ItemCall for ListGroups {
    type Key = i32;
    type Value = Vec<(String, GroupListing)>;

    fn what(&self, node: &i32) -> String {
        format!("listing the groups of broker {node}")
    }

    fn subject(&self, _: &i32) -> Subject {
        Subject::default()
    }

    fn place(&self, node: &i32) -> Place {
        Place::Broker(*node)
    }

    async fn ask(&self, shared: &Shared, node: NodeId, keys: &[i32]) -> Result<Answers<i32, Self::Value>, Failure> {
        let build = |_| ListGroupsRequest {
            states_filter: self.filter.states.iter().map(String::as_str).collect(),
            types_filter: self.filter.types.iter().map(String::as_str).collect(),
            ..Default::default()
        };
        // A broker that cannot filter must not be taken for one without such groups.
        let lowest = match (self.filter.types.is_empty(), self.filter.states.is_empty()) {
            (false, _) => 5,
            (true, false) => 4,
            (true, true) => *ListGroupsRequest::VERSIONS.start(),
        };
        let called = shared.call(node, lowest..=*ListGroupsRequest::VERSIONS.end(), build).await;
        let (frame, version) = called.inspect_err(|_| self.disturbed())?;
        let response = read::<ListGroupsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(keys, &refusal));
        }
        let coordinator = keys.first().copied().unwrap_or(-1);
        let groups = response.groups.iter().map(|group| listed(group, coordinator));
        Ok(vec![(coordinator, Ok(groups.collect()))])
    }

    fn passes(&self, code: ErrorCode, _: u32) -> bool {
        if code.is_retriable() {
            self.disturbed();
        }
        code.is_retriable()
    }

    /// A broker that went away coordinates nothing any more.
    fn settle(&self, refusal: Refusal, _: bool) -> Result<Self::Value, Refusal> {
        match refusal.code {
            ErrorCode::BrokerNotAvailable => {
                self.disturbed();
                Ok(Vec::new())
            }
            _ => Err(refusal),
        }
    }
}

fn listed(group: &ListedGroup<'_>, coordinator: i32) -> (String, GroupListing) {
    let listing = GroupListing {
        state: group.group_state.to_owned(),
        kind: group.group_type.to_owned(),
        protocol_type: group.protocol_type.to_owned(),
        coordinator,
    };
    (group.group_id.to_owned(), listing)
}

struct DescribeConsumerGroups;

impl ItemCall for DescribeConsumerGroups {
    type Key = String;
    /// `None` for a group that is none of the new protocol, if there is one.
    type Value = Option<GroupDescription>;

    fn what(&self, group: &String) -> String {
        format!("describing group {group}")
    }

    fn subject(&self, group: &String) -> Subject {
        Subject::group(group)
    }

    fn place(&self, group: &String) -> Place {
        Place::Coordinator(group.clone())
    }

    async fn ask(
        &self,
        shared: &Shared,
        node: NodeId,
        groups: &[String],
    ) -> Result<Answers<String, Self::Value>, Failure> {
        let build = |_| ConsumerGroupDescribeRequest {
            group_ids: groups.iter().map(String::as_str).collect(),
            ..Default::default()
        };
        let (frame, version) = shared.call(node, ConsumerGroupDescribeRequest::VERSIONS, build).await?;
        let response = read::<ConsumerGroupDescribeRequest<'_>>(&frame, version)?;
        let answers = response.groups.iter().map(|group| {
            let outcome = Refusal::check(group.error_code, group.error_message);
            (group.group_id.to_owned(), outcome.map(|()| Some(of_new_protocol(group))))
        });
        Ok(answers.collect())
    }

    fn settle(&self, refusal: Refusal, _: bool) -> Result<Self::Value, Refusal> {
        match refusal.code {
            ErrorCode::GroupIdNotFound | ErrorCode::UnsupportedVersion => Ok(None),
            _ => Err(refusal),
        }
    }
}

fn of_new_protocol(group: &consumer_group_describe::DescribedGroup<'_>) -> GroupDescription {
    let member = |member: &consumer_group_describe::Member<'_>| MemberDescription {
        member_id: member.member_id.to_owned(),
        instance_id: member.instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        host: member.client_host.to_owned(),
        rack: member.rack_id.map(str::to_owned),
        epoch: Some(member.member_epoch),
        topics: member.subscribed_topic_names.iter().map(|&topic| topic.to_owned()).collect(),
        assignment: partitions_of(&member.assignment),
        target_assignment: Some(partitions_of(&member.target_assignment)),
    };
    GroupDescription {
        state: group.group_state.to_owned(),
        kind: "consumer",
        protocol_type: CONSUMER.to_owned(),
        assignor: group.assignor_name.to_owned(),
        coordinator: None,
        epoch: Some(group.group_epoch),
        members: group.members.iter().map(member).collect(),
    }
}

fn partitions_of(assignment: &consumer_group_describe::Assignment<'_>) -> Vec<TopicPartition> {
    let topics = assignment.topic_partitions.iter();
    let each =
        topics.flat_map(|topic| topic.partitions.iter().map(|&index| TopicPartition::new(topic.topic_name, index)));
    let mut partitions: Vec<TopicPartition> = each.collect();
    partitions.sort();
    partitions
}

struct DescribeClassicGroups;

impl ItemCall for DescribeClassicGroups {
    type Key = String;
    type Value = GroupDescription;

    fn what(&self, group: &String) -> String {
        format!("describing group {group}")
    }

    fn subject(&self, group: &String) -> Subject {
        Subject::group(group)
    }

    fn place(&self, group: &String) -> Place {
        Place::Coordinator(group.clone())
    }

    async fn ask(
        &self,
        shared: &Shared,
        node: NodeId,
        groups: &[String],
    ) -> Result<Answers<String, GroupDescription>, Failure> {
        let build =
            |_| DescribeGroupsRequest { groups: groups.iter().map(String::as_str).collect(), ..Default::default() };
        let (frame, version) = shared.call(node, DescribeGroupsRequest::VERSIONS, build).await?;
        let response = read::<DescribeGroupsRequest<'_>>(&frame, version)?;
        let answers = response.groups.iter().map(|group| {
            let outcome = Refusal::check(group.error_code, group.error_message).and_then(|()| classic(group));
            (group.group_id.to_owned(), outcome)
        });
        Ok(answers.collect())
    }
}

/// Brokers that do not say GROUP_ID_NOT_FOUND yet tell of a dead group (KIP-1043).
fn classic(group: &describe_groups::DescribedGroup<'_>) -> Result<GroupDescription, Refusal> {
    if group.group_state == "Dead" {
        return Err(Refusal { code: ErrorCode::GroupIdNotFound, detail: None });
    }
    let consumers = group.protocol_type == CONSUMER;
    Ok(GroupDescription {
        state: group.group_state.to_owned(),
        kind: "classic",
        protocol_type: group.protocol_type.to_owned(),
        assignor: group.protocol_data.to_owned(),
        coordinator: None,
        epoch: None,
        members: group.members.iter().map(|member| classic_member(member, consumers)).collect(),
    })
}

fn classic_member(member: &describe_groups::DescribedGroupMember<'_>, consumer: bool) -> MemberDescription {
    let mut described = MemberDescription {
        member_id: member.member_id.to_owned(),
        instance_id: member.group_instance_id.map(str::to_owned),
        client_id: member.client_id.to_owned(),
        host: member.client_host.to_owned(),
        ..Default::default()
    };
    // Others than consumers put what they like into these bytes, and so may an assignor of someone's own.
    if consumer && let Ok(told) = ConsumerProtocolSubscription::read(member.member_metadata) {
        described.topics = told.topics.iter().map(|&topic| topic.to_owned()).collect();
        described.rack = told.rack_id.map(str::to_owned);
    }
    if consumer && let Ok(told) = ConsumerProtocolAssignment::read(member.member_assignment) {
        let topics = told.assigned_partitions.iter();
        let each =
            topics.flat_map(|topic| topic.partitions.iter().map(|&index| TopicPartition::new(topic.topic, index)));
        described.assignment = each.collect();
        described.assignment.sort();
    }
    described
}

struct DeleteGroups;

impl ItemCall for DeleteGroups {
    type Key = String;
    type Value = ();

    fn what(&self, group: &String) -> String {
        format!("deleting group {group}")
    }

    fn subject(&self, group: &String) -> Subject {
        Subject::group(group)
    }

    fn place(&self, group: &String) -> Place {
        Place::Coordinator(group.clone())
    }

    async fn ask(&self, shared: &Shared, node: NodeId, groups: &[String]) -> Result<Answers<String, ()>, Failure> {
        let build =
            |_| DeleteGroupsRequest { groups_names: groups.iter().map(String::as_str).collect(), ..Default::default() };
        let (frame, version) = shared.call(node, DeleteGroupsRequest::VERSIONS, build).await?;
        let response = read::<DeleteGroupsRequest<'_>>(&frame, version)?;
        let answers = response.results.iter();
        let checked =
            answers.map(|result| (result.group_id.to_owned(), Refusal::check(result.error_code, result.error_message)));
        Ok(checked.collect())
    }

    fn settle(&self, refusal: Refusal, lost: bool) -> Result<(), Refusal> {
        match lost && refusal.code == ErrorCode::GroupIdNotFound {
            true => Ok(()),
            false => Err(refusal),
        }
    }
}
