//! What happens in one seed, in lines.

use std::collections::BTreeSet;

use crate::messages::Found;
use monedula_engine::group::{Call, GroupResponse, HeartbeatCall, Partitions};
use monedula_protocol::error_code::ErrorCode;

/// Prints a line of the trace, if there is one.
macro_rules! say {
    ($world:expr, $($what:tt)*) => {
        if $world.tracing {
            println!("{:>9.3}  {}", $world.now.as_secs_f64(), format_args!($($what)*));
        }
    };
}
pub(crate) use say;

/// A call in a line of the trace.
pub(crate) fn brief(call: &Call) -> String {
    match call {
        Call::FindCoordinator { .. } => "FindCoordinator".into(),
        Call::JoinGroup { member_id, reason, .. } => format!("JoinGroup {} ({reason})", short(member_id)),
        Call::SyncGroup { member_id, generation, assignments, .. } => {
            format!("SyncGroup {} generation {generation}, {} assignments", short(member_id), assignments.len())
        }
        Call::Heartbeat { member_id, generation, .. } => {
            format!("Heartbeat {} generation {generation}", short(member_id))
        }
        Call::LeaveGroup { member_id, .. } => format!("LeaveGroup {}", short(member_id)),
        Call::ConsumerGroupHeartbeat(heartbeat) | Call::ShareGroupHeartbeat(heartbeat) => {
            let HeartbeatCall { member_id, epoch, topics, regex, owned, .. } = heartbeat;
            let owned = owned.as_ref().map(brief_partitions);
            format!("Heartbeat {} epoch {epoch} {topics:?} {regex:?} owns {owned:?}", short(member_id))
        }
        Call::OffsetCommit { member_id, generation_or_epoch, offsets, .. } => {
            let offsets: Vec<_> = offsets.iter().map(|(partition, at)| format!("{partition}@{}", at.offset)).collect();
            format!("OffsetCommit {} generation or epoch {generation_or_epoch} {}", short(member_id), offsets.join(" "))
        }
        Call::OffsetFetch { member, partitions, .. } => {
            let partitions: Vec<_> = partitions.iter().map(ToString::to_string).collect();
            let epoch = member.as_ref().map(|(_, epoch)| format!("epoch {epoch} ")).unwrap_or_default();
            format!("OffsetFetch {epoch}{}", partitions.join(" "))
        }
    }
}

pub(crate) fn brief_answer(answer: &GroupResponse) -> String {
    match answer {
        GroupResponse::FindCoordinator { code, node_id, .. } => format!("{code:?}, coordinator n{node_id}"),
        GroupResponse::JoinGroup { code, generation, member_id, leader, members, .. } => {
            let leads = leader == member_id && !leader.is_empty();
            let role = if leads { format!(", leads {}", members.len()) } else { String::new() };
            format!("Join {code:?}, {} generation {generation}{role}", short(member_id))
        }
        GroupResponse::SyncGroup { code, assignment, .. } => match monedula_engine::assign::read_assignment(assignment)
        {
            Ok(assigned) => {
                let partitions: Vec<_> = assigned.partitions.iter().map(ToString::to_string).collect();
                format!("Sync {code:?} {}", partitions.join(" "))
            }
            Err(_) => format!("Sync {code:?}"),
        },
        GroupResponse::Heartbeat { code } => format!("Heartbeat {code:?}"),
        GroupResponse::LeaveGroup { code } => format!("Leave {code:?}"),
        GroupResponse::ConsumerGroupHeartbeat { code, epoch, assignment, .. } => {
            let assignment = assignment.as_ref().map(brief_partitions);
            format!("Heartbeat {code:?}, epoch {epoch}, to own {assignment:?}")
        }
        GroupResponse::OffsetCommit { codes } => {
            let codes: BTreeSet<_> = codes.values().collect();
            format!("Commit {codes:?}")
        }
        GroupResponse::OffsetFetch { code, offsets } => brief_found(*code, offsets),
    }
}

fn brief_found(code: ErrorCode, found: &Found) -> String {
    let found = found.iter().map(|(partition, found)| match found {
        Ok(Some(at)) => format!("{partition}@{}", at.offset),
        Ok(None) => format!("{partition}@none"),
        Err(code) => format!("{partition}@{code:?}"),
    });
    format!("Offsets {code:?} {}", found.collect::<Vec<_>>().join(" "))
}

fn brief_partitions(partitions: &Partitions) -> String {
    let each = partitions.iter().map(|(topic, partition)| format!("{}-{partition}", &topic.to_string()[..4]));
    each.collect::<Vec<_>>().join(" ")
}

fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}
