//! ShareFetch, versions 1-2 (KIP-932): acquires records for a member of a share group, at once or as soon as there are
//! enough bytes, and acknowledges records that it acquired before.
//!
//! Not implemented: fetches from followers, and quotas, which throttle no ShareFetch here.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::share_fetch::ShareFetchRequest;

use super::Handled;
use super::acknowledging::{self, Acknowledged, acknowledge, refusal};
use crate::core::Core;
use crate::request::{Call, Mentions, TopicKey};
use crate::share::{Acquisition, SessionKey, SessionTopics, ShareFetch, ShareKey, ShareWanted};
use crate::share::{FINAL_EPOCH, INITIAL_EPOCH};

/// Kafka's number of the mode in which `max_records` is a strict limit.
const RECORD_LIMIT: i8 = 1;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ShareFetchRequest<'_>) -> Handled {
    let session = acknowledging::session(core, call, request.group_id, request.member_id)?;
    let epoch = request.share_session_epoch;
    check(request)?;
    let partitions = || request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |one| (topic, one)));
    let acknowledges = partitions().any(|(_, partition)| !partition.acknowledgement_batches.is_empty());
    let most = core.settings.kafka.group_share_max_share_sessions;
    core.share_sessions.check(&session, epoch, acknowledges, most)?;
    if epoch == INITIAL_EPOCH {
        // As in Kafka, what the session before had acquired stays locked.
        core.share_sessions.close(&session);
    }
    let mut acknowledged = Acknowledged::new();
    for (topic, partition) in partitions().filter(|(_, partition)| !partition.acknowledgement_batches.is_empty()) {
        let key = (topic.topic_id, partition.partition_index);
        let batches = partition.acknowledgement_batches.iter();
        let batches = batches.map(|batch| (batch.first_offset, batch.last_offset, &batch.acknowledge_types[..]));
        let outcome = acknowledge(core, call, &session, key, batches, request.is_renew_ack);
        acknowledged.insert(key, outcome);
    }
    let wanted = if epoch == FINAL_EPOCH {
        core.share_sessions.close(&session);
        core.release_session(&session);
        acknowledged.into_iter().map(|(key, outcome)| acknowledged_only(&session, key, Some(outcome))).collect()
    } else {
        wanted(core, call, &session, request, acknowledged)
    };
    // Kafka looks at the mode last, when the session has gone on.
    if !(0..=RECORD_LIMIT).contains(&request.share_acquire_mode) {
        return Err(ErrorCode::UnknownServerError);
    }
    let max_bytes = request.max_bytes.min(core.settings.kafka.fetch_max_bytes).max(0);
    let due_ms = core.now_ms + i64::from(request.max_wait_ms);
    Ok(core.share_fetch(ShareFetch {
        ticket: call.ticket,
        node: call.node,
        group: session.group,
        due_ms,
        min_bytes: request.min_bytes.min(max_bytes).max(0) as u64,
        max_bytes: max_bytes as usize,
        acquisition: Acquisition {
            member: session.member,
            max_records: request.max_records.into(),
            batch_size: request.batch_size.into(),
            record_limit: request.share_acquire_mode == RECORD_LIMIT,
        },
        wanted,
    }))
}

/// Kafka's checks of the request alone.
fn check(request: &ShareFetchRequest<'_>) -> Result<(), ErrorCode> {
    let limits = [request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records];
    let fetches_while_renewing = request.is_renew_ack && limits.iter().any(|&limit| limit != 0);
    if fetches_while_renewing { Err(ErrorCode::InvalidRequest) } else { Ok(()) }
}

/// The partitions of the session after the request, and others of which it has acknowledgements.
fn wanted(
    core: &mut Core,
    call: &Call<'_>,
    session: &SessionKey,
    request: &ShareFetchRequest<'_>,
    mut acknowledged: Acknowledged,
) -> Vec<ShareWanted> {
    let added = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic.topic_id, partition.partition_index)));
    let forgotten = request
        .forgotten_topics_data
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |&partition| (topic.topic_id, partition)));
    let topics = SessionTopics { added: added.collect(), forgotten: forgotten.collect() };
    let epoch = request.share_session_epoch;
    let partitions = core.share_sessions.advance(session, epoch, call.ticket.connection, &topics);
    let mut all = Vec::with_capacity(partitions.len());
    for (key, answered) in partitions {
        let outcome = acknowledged.remove(&key);
        let refused = if request.is_renew_ack { None } else { refusal(core, call, key.0, key.1) };
        all.push(ShareWanted {
            topic: core.topics.name_of(key.0),
            fetches: !request.is_renew_ack,
            answered,
            refused,
            ..acknowledged_only(session, key, outcome)
        });
    }
    all.extend(acknowledged.into_iter().map(|(key, outcome)| acknowledged_only(session, key, Some(outcome))));
    all
}

/// A partition from which nothing is fetched.
fn acknowledged_only(
    session: &SessionKey,
    (topic, partition): (monedula_protocol::types::Uuid, i32),
    acknowledged: Option<Result<(), super::ApiError>>,
) -> ShareWanted {
    ShareWanted {
        key: ShareKey { group: session.group.clone(), topic, partition },
        topic: None,
        fetches: false,
        answered: false,
        refused: None,
        acknowledged,
    }
}

pub(super) fn mentions<'a>(request: &ShareFetchRequest<'a>) -> Mentions<'a> {
    let partitions = request.topics.iter().flat_map(|topic| {
        let key = TopicKey::Id(topic.topic_id);
        topic.partitions.iter().map(move |partition| (key, partition.partition_index))
    });
    Mentions {
        groups: request.group_id.into_iter().collect(),
        member: request.member_id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}
