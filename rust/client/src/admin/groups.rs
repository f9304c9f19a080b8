//! Groups of the classic protocol, of KIP-848 and share groups: listing, describing and deleting them.

use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::consumer_group_describe::{self, ConsumerGroupDescribeRequest};
use monedula_protocol::messages::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use monedula_protocol::messages::delete_groups::DeleteGroupsRequest;
use monedula_protocol::messages::describe_groups::{self, DescribeGroupsRequest};
use monedula_protocol::messages::find_coordinator::FindCoordinatorRequest;
use monedula_protocol::messages::list_groups::{ListGroupsRequest, ListedGroup};

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, read, refuse_all};
use super::cluster::Node;
use super::listed::{Listed, Unrest};
use super::share_groups::{describe_share_groups, is_of_another_type};
use super::{Admin, AdminContext};
use crate::coordinator::Failure;
use crate::error::ClientError;
use crate::net::network::NodeId;

/// The protocol type of consumer groups.
const CONSUMER: &str = "consumer";

/// Groups to list; an empty list does not filter.
#[derive(Clone, Debug, Default)]
pub struct GroupFilter {
    /// States of groups.
    pub states: Vec<String>,
    /// Types of groups.
    pub types: Vec<String>,
}

/// An entry of a list of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupListing {
    /// The group's state; empty if the broker does not report it.
    pub state: String,
    /// The group's type; empty if the broker does not report it.
    pub kind: String,
    /// The protocol type, such as `consumer` or `connect`.
    pub protocol_type: String,
    /// The node id of the broker that listed it.
    pub coordinator: i32,
}

/// The description of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// The state, such as `Stable`.
    pub state: String,
    /// `classic`, `consumer` or `share`.
    pub kind: &'static str,
    /// The protocol type, such as `consumer` or `connect`.
    pub protocol_type: String,
    /// The group's assignor; empty if it has none.
    pub assignor: String,
    /// The coordinator.
    pub coordinator: Option<Node>,
    /// The group epoch, under KIP-848 and of share groups.
    pub epoch: Option<i32>,
    /// The members.
    pub members: Vec<MemberDescription>,
}

/// The description of a member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberDescription {
    /// The member id.
    pub member_id: String,
    /// The static id (`group.instance.id`) of a static member.
    pub instance_id: Option<String>,
    /// The client id of the member.
    pub client_id: String,
    /// The address of the member's client.
    pub host: String,
    /// The member's rack, if it sends one.
    pub rack: Option<String>,
    /// The member epoch, under KIP-848 and of share groups.
    pub epoch: Option<i32>,
    /// The topics that it subscribes to by name.
    pub topics: Vec<String>,
    /// The partitions that it owns.
    pub assignment: Vec<TopicPartition>,
    /// The target assignment, under KIP-848.
    pub target_assignment: Option<Vec<TopicPartition>>,
}

impl Admin {
    /// Lists the groups of the whole cluster: each broker lists those that it coordinates. One that does not answer for
    /// half of the time is left out, and named.
    pub fn list_groups(&self, filter: GroupFilter, timeout: Duration) -> AdminCall<Listed<GroupListing>> {
        let call = move |unrest| ListGroups { filter: filter.clone(), unrest };
        self.until_closed(move |context| async move { context.list_from_all(call, "groups", timeout).await })
    }

    /// Describes these groups with their members.
    pub fn describe_groups(
        &self,
        groups: Vec<String>,
        timeout: Duration,
    ) -> AdminCall<Items<String, GroupDescription>> {
        self.until_closed(move |context| async move { context.describe_groups(groups, timeout).await })
    }

    /// Deletes groups that have no members.
    pub fn delete_groups(&self, groups: Vec<String>, timeout: Duration) -> AdminCall<Items<String, ()>> {
        self.run(DeleteGroups, groups, timeout)
    }
}

impl AdminContext {
    pub(super) async fn describe_groups(
        &self,
        groups: Vec<String>,
        timeout: Duration,
    ) -> Result<Items<String, GroupDescription>, ClientError> {
        let mut done = self.run(DescribeGroups, groups, timeout).await?;
        for (group, outcome) in &mut done {
            if let Ok(described) = outcome {
                described.coordinator = self.known_coordinator(FindCoordinatorRequest::GROUP, group);
            }
        }
        Ok(done)
    }
}

struct ListGroups {
    filter: GroupFilter,
    unrest: Unrest,
}

impl ItemCall for ListGroups {
    type Key = i32;
    type Value = Vec<(String, GroupListing)>;

    fn what(&self, node: &i32) -> String {
        format!("listing the groups of broker {node}")
    }

    fn recipient(&self, node: &i32) -> Recipient {
        Recipient::Broker(*node)
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, keys: &[i32]) -> CallResult<Self> {
        let build = |_| ListGroupsRequest {
            states_filter: self.filter.states.iter().map(String::as_str).collect(),
            types_filter: self.filter.types.iter().map(String::as_str).collect(),
            ..Default::default()
        };
        // A broker that cannot filter must not look like one without such groups.
        let lowest = match (self.filter.types.is_empty(), self.filter.states.is_empty()) {
            (false, _) => 5,
            (true, false) => 4,
            (true, true) => *ListGroupsRequest::VERSIONS.start(),
        };
        let called = context.call(node, lowest..=*ListGroupsRequest::VERSIONS.end(), build).await;
        let (frame, version) = called.inspect_err(|_| self.unrest.note())?;
        let response = read::<ListGroupsRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(keys, &refusal));
        }
        let coordinator = keys.first().copied().unwrap_or(-1);
        let groups = response.groups.iter().map(|group| listed(group, coordinator));
        Ok(vec![(coordinator, Ok(groups.collect()))])
    }

    fn passes(&self, code: ErrorCode, _: Duration) -> bool {
        if code.is_retriable() {
            self.unrest.note();
        }
        code.is_retriable()
    }

    /// A broker that is gone coordinates no groups any more.
    fn settle(&self, refusal: Refusal, _: bool) -> Result<Self::Value, Refusal> {
        match refusal.code {
            ErrorCode::BrokerNotAvailable => {
                self.unrest.note();
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

struct DescribeGroups;

impl ItemCall for DescribeGroups {
    type Key = String;
    type Value = GroupDescription;

    fn what(&self, group: &String) -> String {
        format!("describing group {group}")
    }

    fn subject(&self, group: &String) -> Subject {
        Subject::group(group)
    }

    fn recipient(&self, group: &String) -> Recipient {
        Recipient::Coordinator(group.clone())
    }

    /// Asks for the groups as ones of KIP-848 first, then for the others as classic groups, then as share groups.
    async fn ask(&self, context: &AdminContext, node: NodeId, groups: &[String]) -> CallResult<Self> {
        let (mut answers, mut others) = (Vec::new(), groups.to_vec());
        if let Some(described) = supported(describe_consumer_groups(context, node, groups).await)? {
            others.clear();
            for (group, outcome) in described {
                match outcome {
                    Err(refusal) if is_of_another_type(refusal.code) => others.push(group),
                    outcome => answers.push((group, outcome)),
                }
            }
        }
        if others.is_empty() {
            return Ok(answers);
        }
        let described = describe_classic_groups(context, node, &others).await?;
        let is_other = |(_, outcome): &(_, Result<_, Refusal>)| {
            outcome.as_ref().is_err_and(|refusal: &Refusal| is_of_another_type(refusal.code))
        };
        let (mut unknown, of_type): (Vec<_>, Vec<_>) = described.into_iter().partition(is_other);
        answers.extend(of_type);
        let names: Vec<String> = unknown.iter().map(|(group, _)| group.clone()).collect();
        if !names.is_empty()
            && let Some(described) = supported(describe_share_groups(context, node, &names).await)?
        {
            let described = described.into_iter().filter(|each| !is_other(each)).collect::<Vec<_>>();
            unknown.retain(|(group, _)| described.iter().all(|(other, _)| other != group));
            answers.extend(described);
        }
        answers.extend(unknown);
        Ok(answers)
    }
}

/// The answer of a broker; `None` if it lacks the API, and so has no groups of its type: those of KIP-848 before Kafka
/// 3.7, share groups before 4.1.
fn supported<T>(answered: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match answered {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::Final(ClientError::UnsupportedVersion { .. })) => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn describe_consumer_groups(
    context: &AdminContext,
    node: NodeId,
    groups: &[String],
) -> CallResult<DescribeGroups> {
    let build = |_| ConsumerGroupDescribeRequest {
        group_ids: groups.iter().map(String::as_str).collect(),
        ..Default::default()
    };
    let (frame, version) = context.call(node, ConsumerGroupDescribeRequest::VERSIONS, build).await?;
    let response = read::<ConsumerGroupDescribeRequest<'_>>(&frame, version)?;
    let answers = response.groups.iter().map(|group| {
        let outcome = Refusal::check(group.error_code, group.error_message);
        (group.group_id.to_owned(), outcome.map(|()| of_new_protocol(group)))
    });
    Ok(answers.collect())
}

async fn describe_classic_groups(
    context: &AdminContext,
    node: NodeId,
    groups: &[String],
) -> CallResult<DescribeGroups> {
    let build = |_| DescribeGroupsRequest { groups: groups.iter().map(String::as_str).collect(), ..Default::default() };
    let (frame, version) = context.call(node, DescribeGroupsRequest::VERSIONS, build).await?;
    let response = read::<DescribeGroupsRequest<'_>>(&frame, version)?;
    let answers = response.groups.iter().map(|group| {
        let outcome = Refusal::check(group.error_code, group.error_message).and_then(|()| classic(group));
        (group.group_id.to_owned(), outcome)
    });
    Ok(answers.collect())
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

/// Describes a classic group. Before KIP-1043, brokers answer with a dead group instead of GROUP_ID_NOT_FOUND.
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
    // Clients other than consumers put arbitrary bytes there, and so may a user-defined assignor.
    if consumer && let Ok(subscription) = ConsumerProtocolSubscription::read(member.member_metadata) {
        described.topics = subscription.topics.iter().map(|&topic| topic.to_owned()).collect();
        described.rack = subscription.rack_id.map(str::to_owned);
    }
    if consumer && let Ok(assignment) = ConsumerProtocolAssignment::read(member.member_assignment) {
        let topics = assignment.assigned_partitions.iter();
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

    fn recipient(&self, group: &String) -> Recipient {
        Recipient::Coordinator(group.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, groups: &[String]) -> CallResult<Self> {
        let build =
            |_| DeleteGroupsRequest { groups_names: groups.iter().map(String::as_str).collect(), ..Default::default() };
        let (frame, version) = context.call(node, DeleteGroupsRequest::VERSIONS, build).await?;
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
