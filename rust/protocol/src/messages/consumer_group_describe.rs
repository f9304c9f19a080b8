//! ConsumerGroupDescribe, API key 69, versions 0-1 (KIP-848).
//!
//! Version 1 adds the member's type, which shows the members that are still to be upgraded (KIP-1099). Both are
//! flexible.

use crate::types::Uuid;
use crate::wire::api;

api! {
    ConsumerGroupDescribe, versions 0..=1, flexible 0..;

    /// Describes groups of the consumer protocol.
    request ConsumerGroupDescribeRequest<'a> {
        group_ids: Vec<&'a str>, 0..;
        /// True to include the operations that the client is authorized to perform on each group.
        include_authorized_operations: bool, 0..;
    }

    /// The groups.
    response ConsumerGroupDescribeResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The groups of the request.
        groups: Vec<DescribedGroup<'a>>, 0..;
    }

    /// A group.
    struct DescribedGroup<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        group_id: &'a str, 0..;
        /// The group's state, such as `Stable`; empty with an error.
        group_state: &'a str, 0..;
        /// The group epoch, which grows with each change of members, subscriptions or topics.
        group_epoch: i32, 0..;
        /// The group epoch for which the target assignment was computed.
        assignment_epoch: i32, 0..;
        /// The assignor in use.
        assignor_name: &'a str, 0..;
        members: Vec<Member<'a>>, 0..;
        /// The operations that the client is authorized to perform, a bit for each; `i32::MIN` if not requested.
        authorized_operations: i32 = i32::MIN, 0..;
    }

    /// A member.
    struct Member<'a> {
        member_id: &'a str, 0..;
        /// The group instance id of a static member; `None` for a dynamic one.
        instance_id: Option<&'a str> = None, 0.., nullable 0..;
        /// The member's rack, if any.
        rack_id: Option<&'a str> = None, 0.., nullable 0..;
        member_epoch: i32, 0..;
        /// The client id that it joined with.
        client_id: &'a str, 0..;
        /// The address that it joined from.
        client_host: &'a str, 0..;
        /// The topics to which it subscribes by name.
        subscribed_topic_names: Vec<&'a str>, 0..;
        /// The regular expression to which it subscribes, if any.
        subscribed_topic_regex: Option<&'a str> = None, 0.., nullable 0..;
        /// The current assignment.
        assignment: Assignment<'a>, 0..;
        target_assignment: Assignment<'a>, 0..;
        /// 0 for a member with the classic protocol, 1 for one with the consumer protocol, -1 if not known.
        member_type: i8 = -1, 1.., ignorable;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        topic_id: Uuid, 0..;
        topic_name: &'a str, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// Partitions of a member.
    struct Assignment<'a> {
        topic_partitions: Vec<TopicPartitions<'a>>, 0..;
    }
}
