//! ShareGroupDescribe, API key 77, version 1, flexible (KIP-932).

use crate::types::Uuid;
use crate::wire::api;

api! {
    ShareGroupDescribe, versions 1..=1, flexible 1..;

    /// Describes share groups.
    request ShareGroupDescribeRequest<'a> {
        group_ids: Vec<&'a str>, 1..;
        /// True to include the operations that the client is authorized to perform on each group.
        include_authorized_operations: bool, 1..;
    }

    /// The groups.
    response ShareGroupDescribeResponse<'a> {
        throttle_time_ms: i32, 1..;
        /// The groups of the request.
        groups: Vec<DescribedGroup<'a>>, 1..;
    }

    /// A group.
    struct DescribedGroup<'a> {
        error_code: i16, 1..;
        error_message: Option<&'a str> = None, 1.., nullable 1..;
        group_id: &'a str, 1..;
        /// The group's state: `Empty`, `Stable` or `Dead`; empty with an error.
        group_state: &'a str, 1..;
        /// The group epoch, which grows with each change of members, subscriptions or topics.
        group_epoch: i32, 1..;
        /// The group epoch for which the target assignment was computed.
        assignment_epoch: i32, 1..;
        /// The assignor in use.
        assignor_name: &'a str, 1..;
        members: Vec<Member<'a>>, 1..;
        /// The operations that the client is authorized to perform, a bit for each; `i32::MIN` if not requested.
        authorized_operations: i32 = i32::MIN, 1..;
    }

    /// A member.
    struct Member<'a> {
        member_id: &'a str, 1..;
        /// The member's rack, if any.
        rack_id: Option<&'a str> = None, 1.., nullable 1..;
        member_epoch: i32, 1..;
        /// The client id that it joined with.
        client_id: &'a str, 1..;
        /// The address that it joined from.
        client_host: &'a str, 1..;
        /// The topics to which it subscribes.
        subscribed_topic_names: Vec<&'a str>, 1..;
        assignment: Assignment<'a>, 1..;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        topic_id: Uuid, 1..;
        topic_name: &'a str, 1..;
        partitions: Vec<i32>, 1..;
    }

    /// Partitions of a member.
    struct Assignment<'a> {
        topic_partitions: Vec<TopicPartitions<'a>>, 1..;
    }
}
