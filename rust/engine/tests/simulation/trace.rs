//! What happens in one seed, in lines.

use std::collections::BTreeSet;

use monedula_engine::group::classic;
use monedula_engine::group::consumer::{self as consumer, HeartbeatCall, Partitions};
use monedula_protocol::error_code::ErrorCode;

use crate::messages::{Answer, Call, Found};

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
        Call::Classic(call) => brief_classic_call(call),
        Call::Consumer(call) => brief_consumer_call(call),
    }
}

fn brief_classic_call(call: &classic::Call) -> String {
    use classic::Call;
    match call {
        Call::FindCoordinator { .. } => "FindCoordinator".into(),
        Call::Join { member_id, reason, .. } => format!("JoinGroup {} ({reason})", short(member_id)),
        Call::Sync { member_id, generation, assignments, .. } => {
            format!("SyncGroup {} generation {generation}, {} assignments", short(member_id), assignments.len())
        }
        Call::Heartbeat { member_id, generation, .. } => {
            format!("Heartbeat {} generation {generation}", short(member_id))
        }
        Call::Leave { member_id, .. } => format!("LeaveGroup {}", short(member_id)),
        Call::Commit { member_id, generation, offsets, .. } => {
            let offsets: Vec<_> = offsets.iter().map(|(partition, at)| format!("{partition}@{}", at.offset)).collect();
            format!("OffsetCommit {} generation {generation} {}", short(member_id), offsets.join(" "))
        }
        Call::FetchOffsets { partitions, .. } => {
            let partitions: Vec<_> = partitions.iter().map(ToString::to_string).collect();
            format!("OffsetFetch {}", partitions.join(" "))
        }
    }
}

pub(crate) fn brief_answer(answer: &Answer) -> String {
    if let Some(codes) = answer.commit_codes() {
        let codes: BTreeSet<_> = codes.values().collect();
        return format!("Commit {codes:?}");
    }
    if let Some(found) = answer.found() {
        return brief_found(answer.code(), found);
    }
    match answer {
        Answer::Classic(answer) => brief_classic(answer),
        Answer::Consumer(answer) => brief_heartbeat(answer),
    }
}

fn brief_classic(answer: &classic::Answer) -> String {
    use classic::Answer;
    match answer {
        Answer::FindCoordinator { code, node_id, .. } => format!("{code:?}, coordinator n{node_id}"),
        Answer::Join { code, generation, member_id, leader, members, .. } => {
            let leads = leader == member_id && !leader.is_empty();
            let role = if leads { format!(", leads {}", members.len()) } else { String::new() };
            format!("Join {code:?}, {} generation {generation}{role}", short(member_id))
        }
        Answer::Sync { code, assignment, .. } => match monedula_engine::assign::read_assignment(assignment) {
            Ok(assigned) => {
                let partitions: Vec<_> = assigned.partitions.iter().map(ToString::to_string).collect();
                format!("Sync {code:?} {}", partitions.join(" "))
            }
            Err(_) => format!("Sync {code:?}"),
        },
        Answer::Heartbeat { code } => format!("Heartbeat {code:?}"),
        Answer::Leave { code } => format!("Leave {code:?}"),
        other => format!("{other:?}"),
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

fn brief_consumer_call(call: &consumer::Call) -> String {
    match call {
        consumer::Call::Heartbeat(heartbeat) => {
            let HeartbeatCall { member_id, epoch, topics, regex, owned, .. } = heartbeat;
            let owned = owned.as_ref().map(brief_partitions);
            format!("Heartbeat {} epoch {epoch} {topics:?} {regex:?} owns {owned:?}", short(member_id))
        }
        consumer::Call::Commit { member_id, epoch, offsets, .. } => {
            let offsets: Vec<_> = offsets.iter().map(|(partition, at)| format!("{partition}@{}", at.offset)).collect();
            format!("OffsetCommit {} epoch {epoch} {}", short(member_id), offsets.join(" "))
        }
        consumer::Call::FetchOffsets { epoch, partitions, .. } => {
            let partitions: Vec<_> = partitions.iter().map(ToString::to_string).collect();
            format!("OffsetFetch epoch {epoch} {}", partitions.join(" "))
        }
        consumer::Call::FindCoordinator { .. } => "FindCoordinator".into(),
    }
}

fn brief_heartbeat(answer: &consumer::Answer) -> String {
    match answer {
        consumer::Answer::Heartbeat { code, epoch, assignment, .. } => {
            let assignment = assignment.as_ref().map(brief_partitions);
            format!("Heartbeat {code:?}, epoch {epoch}, to own {assignment:?}")
        }
        consumer::Answer::FindCoordinator { code, node_id, .. } => format!("{code:?}, coordinator n{node_id}"),
        other => format!("{other:?}"),
    }
}

fn brief_partitions(partitions: &Partitions) -> String {
    let each = partitions.iter().map(|(topic, partition)| format!("{}-{partition}", &topic.to_string()[..4]));
    each.collect::<Vec<_>>().join(" ")
}

fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}
