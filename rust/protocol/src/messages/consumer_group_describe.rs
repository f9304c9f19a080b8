//! ConsumerGroupDescribe, API key 69, versions 0-1 (KIP-848).
//!
//! 1 adds the member's type, which shows who still is to be upgraded (KIP-1099). Both are flexible.

use crate::types::Uuid;
use crate::wire::api;

api! {
    ConsumerGroupDescribe, versions 0..=1, flexible 0..;

    /// Asks what groups of the new protocol are made of.
    request ConsumerGroupDescribeRequest<'a> {
        /// The groups.
        group_ids: Vec<&'a str>, 0..;
        /// Whether to tell what the client may do with each group.
        include_authorized_operations: bool, 0..;
    }

    /// The groups.
    response ConsumerGroupDescribeResponse<'a> {
        /// How long the client was throttled.
        throttle_time_ms: i32, 0..;
        /// One for each that was asked about.
        groups: Vec<DescribedGroup<'a>>, 0..;
    }

    /// A group.
    struct DescribedGroup<'a> {
        /// The error, or 0.
        error_code: i16, 0..;
        /// What it means.
        error_message: Option<&'a str> = None, 0.., nullable 0..;
        /// Its id.
        group_id: &'a str, 0..;
        /// Its state, such as `Stable`; empty with an error.
        group_state: &'a str, 0..;
        /// Its epoch, which grows with each change of members, subscriptions or topics.
        group_epoch: i32, 0..;
        /// The group epoch that the target assignment was made for.
        assignment_epoch: i32, 0..;
        /// The assignor in use.
        assignor_name: &'a str, 0..;
        /// Its members.
        members: Vec<Member<'a>>, 0..;
        /// A bit for each operation that the client may do; `i32::MIN` where it did not ask.
        authorized_operations: i32 = i32::MIN, 0..;
    }

    /// A member.
    struct Member<'a> {
        /// Its id.
        member_id: &'a str, 0..;
        /// The static member, if it is one.
        instance_id: Option<&'a str> = None, 0.., nullable 0..;
        /// Its rack, if it told one.
        rack_id: Option<&'a str> = None, 0.., nullable 0..;
        /// Its epoch.
        member_epoch: i32, 0..;
        /// The client id that it joined with.
        client_id: &'a str, 0..;
        /// The address that it joined from.
        client_host: &'a str, 0..;
        /// The topics it subscribes to by name.
        subscribed_topic_names: Vec<&'a str>, 0..;
        /// The pattern it subscribes to, if there is one.
        subscribed_topic_regex: Option<&'a str> = None, 0.., nullable 0..;
        /// What it was last told to own.
        assignment: Assignment<'a>, 0..;
        /// What it is to own in the end.
        target_assignment: Assignment<'a>, 0..;
        /// 0 for a member of the classic protocol, 1 for one of the new; -1 where it is not known.
        member_type: i8 = -1, 1.., ignorable;
    }

    /// Partitions of a topic.
    struct TopicPartitions<'a> {
        /// Its id.
        topic_id: Uuid, 0..;
        /// Its name.
        topic_name: &'a str, 0..;
        /// The partitions.
        partitions: Vec<i32>, 0..;
    }

    /// Partitions of a member.
    struct Assignment<'a> {
        /// The partitions.
        topic_partitions: Vec<TopicPartitions<'a>>, 0..;
    }
}
