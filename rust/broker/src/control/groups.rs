//! The commands that describe groups. They send the requests of a client, so that the answer is what a client would
//! see.

use bytes::Bytes;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
};
use monedula_protocol::messages::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use monedula_protocol::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsResponse,
};
use monedula_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse};
use monedula_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};
use monedula_protocol::messages::share_group_describe::{ShareGroupDescribeRequest, ShareGroupDescribeResponse};
use serde_json::{Map, Value, json};

use crate::BrokerError;
use crate::api;
use crate::cluster::{Coordinated, NodeId};
use crate::core::Core;
use crate::faults::Faults;
use crate::request::{Answer, ConnectionId, Origin};

const LENGTH_BYTES: usize = 4;

impl Core {
    /// All groups whose coordinator is alive.
    pub(super) fn describe_groups(&mut self) -> Result<Value, BrokerError> {
        let nodes: Vec<NodeId> = self.nodes.alive().map(|node| node.id).collect();
        let mut groups = Vec::new();
        for node in nodes {
            let answer = self.ask(node, &ListGroupsRequest::default(), 5)?;
            let ListGroupsResponse { groups: listed, .. } = decoded::<ListGroupsRequest<'_>>(&answer, 5)?;
            groups.extend(listed.into_iter().map(|group| {
                json!({
                    "group": group.group_id,
                    "state": group.group_state,
                    "type": group.group_type,
                    "protocol_type": group.protocol_type,
                    "coordinator": node,
                })
            }));
        }
        Ok(groups.into())
    }

    /// One group with its members, their assignments, and its offsets.
    pub(super) fn describe_group(&mut self, group: &str) -> Result<Value, BrokerError> {
        self.ensure_internal_topic(Coordinated::Groups);
        let unled = || BrokerError::Command(format!("group {group:?}: no node coordinates it"));
        let node = self.coordinator(Coordinated::Groups, group).ok_or_else(unled)?;
        if let Some(mut found) = self.share_group_on_command(node, group)? {
            found.insert("coordinator".to_owned(), json!(node));
            return Ok(found.into());
        }
        let mut found = match self.new_group(node, group)? {
            Some(found) => found,
            None => self.classic_group(node, group)?,
        };
        found.insert("coordinator".to_owned(), json!(node));
        found.insert("offsets".to_owned(), self.group_offsets(node, group)?);
        Ok(found.into())
    }

    /// Describes a consumer group (KIP-848); `None` if the group is not one.
    fn new_group(&mut self, node: NodeId, group: &str) -> Result<Option<Map<String, Value>>, BrokerError> {
        if self.offered(ConsumerGroupDescribeRequest::API_KEY).is_none() {
            return Ok(None);
        }
        let request = ConsumerGroupDescribeRequest { group_ids: vec![group], ..Default::default() };
        let answer = self.ask(node, &request, 1)?;
        let ConsumerGroupDescribeResponse { groups, .. } = decoded::<ConsumerGroupDescribeRequest<'_>>(&answer, 1)?;
        let Some(group) = groups.into_iter().find(|group| group.error_code == 0) else { return Ok(None) };
        let member = |member: &monedula_protocol::messages::consumer_group_describe::Member<'_>| {
            json!({
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rack": member.rack_id,
                "member_epoch": member.member_epoch,
                "subscribed": member.subscribed_topic_names,
                "subscribed_regex": member.subscribed_topic_regex,
                "assignment": assignment(&member.assignment),
                "target_assignment": assignment(&member.target_assignment),
            })
        };
        let found = json!({
            "group": group.group_id,
            "type": "consumer",
            "state": group.group_state,
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": group.members.iter().map(member).collect::<Vec<_>>(),
        });
        Ok(found.as_object().cloned())
    }

    /// Describes a share group, with its start offsets and lags; `None` if the group is not one.
    fn share_group_on_command(
        &mut self,
        node: NodeId,
        group_id: &str,
    ) -> Result<Option<Map<String, Value>>, BrokerError> {
        if self.offered(ShareGroupDescribeRequest::API_KEY).is_none() {
            return Ok(None);
        }
        let request = ShareGroupDescribeRequest { group_ids: vec![group_id], ..Default::default() };
        let answer = self.ask(node, &request, 1)?;
        let ShareGroupDescribeResponse { groups, .. } = decoded::<ShareGroupDescribeRequest<'_>>(&answer, 1)?;
        let Some(group) = groups.into_iter().find(|group| group.error_code == 0) else { return Ok(None) };
        let member = |member: &monedula_protocol::messages::share_group_describe::Member<'_>| {
            let topics = member.assignment.topic_partitions.iter();
            let assignment = topics.map(|topic| (topic.topic_name.to_owned(), json!(topic.partitions)));
            json!({
                "member_id": member.member_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rack": member.rack_id,
                "member_epoch": member.member_epoch,
                "subscribed": member.subscribed_topic_names,
                "assignment": assignment.collect::<Map<_, _>>(),
            })
        };
        let found = json!({
            "group": group.group_id,
            "type": "share",
            "state": group.group_state,
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": group.members.iter().map(member).collect::<Vec<_>>(),
            "offsets": self.share_offsets(node, group_id)?,
        });
        Ok(found.as_object().cloned())
    }

    fn share_offsets(&mut self, node: NodeId, group_id: &str) -> Result<Value, BrokerError> {
        let groups = vec![DescribeShareGroupOffsetsRequestGroup { group_id, topics: None, ..Default::default() }];
        let answer = self.ask(node, &DescribeShareGroupOffsetsRequest { groups, ..Default::default() }, 1)?;
        let DescribeShareGroupOffsetsResponse { groups, .. } =
            decoded::<DescribeShareGroupOffsetsRequest<'_>>(&answer, 1)?;
        let topics = groups.iter().flat_map(|group| &group.topics).map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let offset = json!({ "offset": partition.start_offset, "lag": partition.lag });
                (partition.partition_index.to_string(), offset)
            });
            (topic.topic_name.to_owned(), partitions.collect::<Map<_, _>>().into())
        });
        Ok(topics.collect::<Map<_, _>>().into())
    }

    fn classic_group(&mut self, node: NodeId, group: &str) -> Result<Map<String, Value>, BrokerError> {
        let request = DescribeGroupsRequest { groups: vec![group], ..Default::default() };
        let answer = self.ask(node, &request, 5)?;
        let DescribeGroupsResponse { groups, .. } = decoded::<DescribeGroupsRequest<'_>>(&answer, 5)?;
        let Some(group) = groups.into_iter().next() else { return Ok(Map::new()) };
        if group.error_code != 0 {
            let error = ErrorCode::from_code(group.error_code);
            return Err(BrokerError::Command(format!("group {:?}: {error}", group.group_id)));
        }
        let member = |member: &monedula_protocol::messages::describe_groups::DescribedGroupMember<'_>| {
            json!({
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "assignment": classic_assignment(member.member_assignment),
            })
        };
        let found = json!({
            "group": group.group_id,
            "type": "classic",
            "state": group.group_state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol_data,
            "members": group.members.iter().map(member).collect::<Vec<_>>(),
        });
        Ok(found.as_object().cloned().unwrap_or_default())
    }

    fn group_offsets(&mut self, node: NodeId, group_id: &str) -> Result<Value, BrokerError> {
        let groups = vec![OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() }];
        let answer = self.ask(node, &OffsetFetchRequest { groups, ..Default::default() }, 8)?;
        let OffsetFetchResponse { groups, .. } = decoded::<OffsetFetchRequest<'_>>(&answer, 8)?;
        let mut topics = Map::new();
        for topic in groups.iter().flat_map(|group| &group.topics) {
            let partition =
                |partition: &monedula_protocol::messages::offset_fetch::OffsetFetchResponsePartitions<'_>| {
                    let offset = json!({ "offset": partition.committed_offset, "metadata": partition.metadata });
                    (partition.partition_index.to_string(), offset)
                };
            topics.insert(topic.name.to_owned(), topic.partitions.iter().map(partition).collect::<Map<_, _>>().into());
        }
        Ok(topics.into())
    }

    /// Sends a node the request of a client, without any faults. Returns the answer without its length field.
    fn ask<'q, R: Request<'q>>(&mut self, node: NodeId, request: &R, version: i16) -> Result<Bytes, BrokerError> {
        let failed = |problem: String| BrokerError::Command(format!("{}: {problem}", R::API_KEY));
        let frame = encode_request(request, version, 0, Some("control")).map_err(|error| failed(error.to_string()))?;
        let frame = Bytes::from(frame).slice(LENGTH_BYTES..);
        let faults = std::mem::replace(&mut self.faults, Faults::new(0));
        let origin = Origin::anonymous(node, "control");
        let answer = api::serve(self, ConnectionId::NONE, &origin, &frame);
        self.faults = faults;
        match answer {
            Answer::Now(pieces) => Ok(Bytes::from(pieces.concat()).slice(LENGTH_BYTES..)),
            other => Err(failed(format!("{other:?}"))),
        }
    }
}

fn decoded<'q, R: Request<'q>>(frame: &[u8], version: i16) -> Result<R::Response<'_>, BrokerError> {
    decode_response::<R>(frame, version).map_err(|error| BrokerError::Command(error.to_string()))
}

fn assignment(assignment: &Assignment<'_>) -> Value {
    let topic = |topic: &monedula_protocol::messages::consumer_group_describe::TopicPartitions<'_>| {
        (topic.topic_name.to_owned(), json!(topic.partitions))
    };
    assignment.topic_partitions.iter().map(topic).collect::<Map<_, _>>().into()
}

/// Decodes a consumer's assignment; null if it is empty, or from another kind of client.
fn classic_assignment(mut bytes: &[u8]) -> Value {
    assigned_topics(&mut bytes).map_or(Value::Null, Value::Object)
}

/// Reads an assignment of the consumer protocol: a version, then topics with their partitions.
fn assigned_topics(bytes: &mut &[u8]) -> Option<Map<String, Value>> {
    let _version: i16 = i16::from_be_bytes(take(bytes)?);
    let mut topics = Map::new();
    for _ in 0..i32::from_be_bytes(take(bytes)?) {
        let length = usize::try_from(i16::from_be_bytes(take(bytes)?)).ok()?;
        let (name, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        let mut partitions = Vec::new();
        for _ in 0..i32::from_be_bytes(take(bytes)?) {
            partitions.push(i32::from_be_bytes(take(bytes)?));
        }
        topics.insert(String::from_utf8_lossy(name).into_owned(), partitions.into());
    }
    Some(topics)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (&taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_as_far_as_it_is_one() {
        let bytes = [&[0, 1, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3][..], &[0, 0, 0, 0]].concat();
        assert_eq!(classic_assignment(&bytes), json!({"t": [0, 3]}));
        assert_eq!(classic_assignment(&bytes[..20]), Value::Null);
        assert_eq!(classic_assignment(&[0, 0, 127, 255, 255, 255]), Value::Null);
    }
}
