//! ShareFetch requests that are answered at once, that wait, and that have waited long enough.

use std::collections::BTreeMap;
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame::encode_response;
use monedula_protocol::messages::share_fetch::{
    AcquiredRecords, LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareFetchRequest, ShareFetchResponse,
    ShareFetchableTopicResponse,
};
use monedula_protocol::records::BatchHeader;
use monedula_protocol::types::Uuid;

use super::Core;
use crate::cluster::NodeId;
use crate::error::ApiError;
use crate::fetching::Isolation;
use crate::log::{Chunk, Log, Piece};
use crate::request::{Action, Answer};
use crate::share::{Acquisition, SessionKey, ShareFetch, ShareFetched, ShareKey, ShareSettings, ShareWanted};

impl Core {
    /// Answers a ShareFetch, or parks it.
    pub(crate) fn share_fetch(&mut self, mut fetch: ShareFetch) -> Answer {
        for wanted in &mut fetch.wanted {
            if wanted.fetches && wanted.refused.is_none() {
                wanted.refused = self.load_share_partition(fetch.node, &wanted.key).err();
            }
        }
        let readable: Vec<_> = (0..fetch.wanted.len()).map(|place| self.acquirable(&fetch, place)).collect();
        let ready = fetch.due_ms <= self.now_ms
            || fetch.acquisition.max_records <= 0
            || fetch.wanted.iter().all(|wanted| !wanted.fetches)
            || readable.iter().any(Result::is_err)
            || readable.iter().flatten().sum::<u64>() >= fetch.min_bytes;
        match ready {
            true => self.share_fetch_answer(fetch).unwrap_or(Answer::Later),
            false => self.park_share_fetch(fetch),
        }
    }

    /// The partitions of a share session of a node.
    pub(super) fn share_session_partitions(&self, node: NodeId, group: &str, member: &str) -> Vec<(Arc<str>, i32)> {
        let key = SessionKey { node, group: group.into(), member: member.into() };
        let partitions = self.share_sessions.partitions(&key);
        partitions.filter_map(|&(topic, index)| Some((self.topics.name_of(topic)?, index))).collect()
    }

    fn park_share_fetch(&mut self, fetch: ShareFetch) -> Answer {
        let mut parked = std::mem::take(&mut self.parked_share_fetches);
        parked.park(fetch, |fetch, place| self.acquirable(fetch, place));
        self.parked_share_fetches = parked;
        Answer::Later
    }

    /// Answers the waiting fetches that have enough bytes now, or an error to report.
    pub(super) fn wake_share_fetches(&mut self) {
        let mut parked = std::mem::take(&mut self.parked_share_fetches);
        let ready = parked.take_ready(|fetch, place| self.acquirable(fetch, place));
        self.parked_share_fetches = parked;
        ready.into_iter().for_each(|fetch| self.finish_share_fetch(fetch));
    }

    pub(super) fn finish_share_fetch(&mut self, fetch: ShareFetch) {
        let connection = fetch.ticket.connection;
        match self.share_fetch(fetch) {
            Answer::Now(frame) => self.reply(connection, Action::Send(frame)),
            Answer::Close(reason) => self.reply(connection, Action::Close(reason)),
            Answer::Later | Answer::Nothing | Answer::Refused(..) => {}
        }
    }

    /// The bytes that a fetch could acquire from its partition with this index.
    ///
    /// # Errors
    /// The error for the partition, with which the fetch must be answered at once.
    fn acquirable(&self, fetch: &ShareFetch, place: usize) -> Result<u64, ErrorCode> {
        let ShareWanted { key, fetches, refused, .. } = &fetch.wanted[place];
        if !fetches {
            return Ok(0);
        }
        if let Some(error) = refused {
            return Err(error.code);
        }
        let (_, partition) = self.share_leader(fetch.node, key)?;
        // A leader that has changed back reads it again.
        let Some(share) = self.share_partitions.partition(key) else { return Ok(u64::MAX) };
        let settings = self.share_settings(&key.group);
        let start = share.fetch_offset().max(partition.log.start_offset());
        Ok(match share.may_acquire(settings.limits) {
            true => partition.log.bytes_between(start, isolation(&settings).end_of(&partition.log)),
            false => 0,
        })
    }

    /// Acquires records for a fetch, and makes the response. `None` if there is nothing to say yet, because another
    /// fetch was faster: then the fetch is parked again.
    fn share_fetch_answer(&mut self, fetch: ShareFetch) -> Option<Answer> {
        let fetching = fetch.wanted.iter().filter(|wanted| wanted.fetches).count().max(1);
        let mut left = fetch.acquisition.max_records;
        // Only the first partition with records may exceed it, by one batch (KIP-74), as in Kafka.
        let mut bytes_left = fetch.max_bytes;
        let mut results = Vec::with_capacity(fetch.wanted.len());
        for wanted in &fetch.wanted {
            let acquisition = Acquisition { max_records: left, ..fetch.acquisition.clone() };
            let result = match (&wanted.refused, wanted.fetches) {
                (_, false) => ShareFetched::default(),
                (Some(error), _) => ShareFetched { error: Some(error.clone()), ..ShareFetched::default() },
                (None, true) => {
                    let max_bytes = (fetch.max_bytes / fetching).min(bytes_left);
                    let has_none = results.iter().all(|result: &ShareFetched| result.chunk.bytes == 0);
                    self.acquire_records(&fetch, &wanted.key, &acquisition, max_bytes, has_none)
                        .unwrap_or_else(|error| ShareFetched { error: Some(error), ..ShareFetched::default() })
                }
            };
            bytes_left = bytes_left.saturating_sub(result.chunk.bytes);
            left -= result.acquired.iter().map(|one| one.count()).sum::<i64>();
            results.push(result);
        }
        let is_empty = results.iter().all(|result| result.error.is_none() && result.acquired.is_empty());
        let fetches = fetch.wanted.iter().any(|wanted| wanted.fetches);
        if is_empty && fetches && fetch.min_bytes > 0 && left > 0 && fetch.due_ms > self.now_ms {
            self.park_share_fetch(fetch);
            return None;
        }
        Some(self.encode_share_fetch(&fetch, &results))
    }

    /// Acquires records of one partition, out of so many bytes. `at_least_one`: out of one batch, if that is larger.
    ///
    /// # Errors
    /// Those of [`Core::load_share_partition`], KAFKA_STORAGE_ERROR.
    fn acquire_records(
        &mut self,
        fetch: &ShareFetch,
        key: &ShareKey,
        acquisition: &Acquisition,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<ShareFetched, ApiError> {
        self.load_share_partition(fetch.node, key)?;
        let settings = self.share_settings(&key.group);
        let Some(mut share) = self.share_partitions.partition(key).cloned() else { return Ok(ShareFetched::default()) };
        let (_, partition) = self.share_leader(fetch.node, key)?;
        let log = &partition.log;
        share.log_starts_at(log.start_offset());
        let end_offset = isolation(&settings).end_of(log);
        let mut acquired = Vec::new();
        while acquired.is_empty() && acquisition.max_records > 0 && share.may_acquire(settings.limits) {
            let batches = batches(log, share.fetch_offset(), end_offset, max_bytes, at_least_one);
            let taken = share.acquire(acquisition, &offsets(&batches), settings.limits, self.now_ms);
            if taken.is_empty() {
                break;
            }
            // Where all that was acquired is of aborted transactions, the next records are.
            acquired = match settings.committed_only {
                true => share.leave_out(taken, &aborted(log, &batches)),
                false => taken,
            };
        }
        let chunk = match (acquired.first(), acquired.last()) {
            (Some(first), Some(last)) => read(log, first.first, last.last + 1)?,
            _ => Chunk::default(),
        };
        self.share_partitions.put(key, share);
        Ok(ShareFetched { error: None, acquired, chunk })
    }

    fn encode_share_fetch(&self, fetch: &ShareFetch, results: &[ShareFetched]) -> Answer {
        let records: Vec<Vec<u8>> = results
            .iter()
            .map(|result| result.chunk.pieces.iter().flat_map(Piece::as_slice).copied().collect())
            .collect();
        let mut topics: BTreeMap<Uuid, Vec<PartitionData<'_>>> = BTreeMap::new();
        let mut leaders = Vec::new();
        for ((wanted, result), records) in fetch.wanted.iter().zip(results).zip(&records) {
            let told = wanted.answered || wanted.acknowledged.is_some() || result.error.is_some();
            if !told && result.acquired.is_empty() {
                continue;
            }
            let hint = wanted
                .topic
                .as_deref()
                .filter(|_| result.error.as_ref().is_some_and(|error| error.code == ErrorCode::NotLeaderOrFollower));
            let leader = hint.and_then(|topic| self.topics.leader_hint(topic, wanted.key.partition));
            leaders.extend(leader);
            topics.entry(wanted.key.topic).or_default().push(partition_data(wanted, result, records, leader));
        }
        let endpoints = self.nodes.endpoints(leaders.into_iter(), self.peers.protocol(fetch.ticket.connection));
        let node_endpoints = endpoints.iter().map(|node| NodeEndpoint {
            node_id: node.id.0,
            host: &node.host,
            port: node.port.into(),
            rack: node.rack.as_deref(),
            ..Default::default()
        });
        let response = ShareFetchResponse {
            acquisition_lock_timeout_ms: self.share_settings(&fetch.group).limits.lock_ms as i32,
            responses: topics
                .into_iter()
                .map(|(topic_id, partitions)| ShareFetchableTopicResponse {
                    topic_id,
                    partitions,
                    ..Default::default()
                })
                .collect(),
            node_endpoints: node_endpoints.collect(),
            ..Default::default()
        };
        match encode_response::<ShareFetchRequest<'_>>(&response, fetch.ticket.version, fetch.ticket.correlation_id) {
            Ok(frame) => Answer::Now(vec![frame.into()]),
            Err(error) => Answer::Close(error.to_string()),
        }
    }
}

fn isolation(settings: &ShareSettings) -> Isolation {
    if settings.committed_only { Isolation::Committed } else { Isolation::Uncommitted }
}

/// The headers of whole batches from an offset on, of no more bytes than these unless it is one batch, and that is wanted.
fn batches(log: &Log, offset: i64, end_offset: i64, max_bytes: usize, at_least_one: bool) -> Vec<BatchHeader> {
    let mut bytes = 0;
    let mut batches = Vec::new();
    for header in log.headers_between(offset, end_offset) {
        bytes += header.total_bytes();
        if bytes > max_bytes && !(at_least_one && batches.is_empty()) {
            break;
        }
        batches.push(*header);
    }
    batches
}

fn offsets(batches: &[BatchHeader]) -> Vec<(i64, i64)> {
    batches.iter().map(|header| (header.base_offset, header.last_offset())).collect()
}

/// The first and last offsets of batches of aborted transactions.
fn aborted(log: &Log, batches: &[BatchHeader]) -> Vec<(i64, i64)> {
    let is_aborted = |header: &&BatchHeader| {
        header.is_transactional()
            && !header.is_control()
            && log.aborted_between(header.base_offset, header.next_offset()).any(|aborted| {
                aborted.producer_id == header.producer_id
                    && (aborted.first_offset..=aborted.last_offset).contains(&header.base_offset)
            })
    };
    batches.iter().filter(is_aborted).map(|header| (header.base_offset, header.last_offset())).collect()
}

/// Reads the whole batches with offsets of a range.
fn read(log: &Log, first: i64, end_offset: i64) -> Result<Chunk, ErrorCode> {
    let mut all = Chunk { next_offset: first, ..Chunk::default() };
    while all.next_offset < end_offset {
        let chunk = log.read(all.next_offset, end_offset, usize::MAX, true)?;
        if chunk.bytes == 0 {
            break;
        }
        all.pieces.extend(chunk.pieces);
        all.bytes += chunk.bytes;
        all.next_offset = chunk.next_offset;
    }
    Ok(all)
}

fn partition_data<'a>(
    wanted: &'a ShareWanted,
    result: &'a ShareFetched,
    records: &'a [u8],
    leader: Option<(i32, i32)>,
) -> PartitionData<'a> {
    let acknowledged = wanted.acknowledged.as_ref().and_then(|outcome| outcome.as_ref().err());
    let (leader_id, leader_epoch) = leader.unwrap_or_default();
    let acquired = result.acquired.iter().map(|one| AcquiredRecords {
        first_offset: one.first,
        last_offset: one.last,
        delivery_count: one.delivery_count,
        ..Default::default()
    });
    PartitionData {
        partition_index: wanted.key.partition,
        error_code: result.error.as_ref().map_or(0, |error| error.code.code()),
        error_message: result.error.as_ref().and_then(|error| error.message.as_deref()),
        acknowledge_error_code: acknowledged.map_or(0, |error| error.code.code()),
        acknowledge_error_message: acknowledged.and_then(|error| error.message.as_deref()),
        current_leader: LeaderIdAndEpoch { leader_id, leader_epoch, ..Default::default() },
        records,
        acquired_records: acquired.collect(),
        ..Default::default()
    }
}
