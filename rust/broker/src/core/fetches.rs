//! Fetches that are answered at once, that wait, and that have waited long enough.

use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;

use super::Core;
use crate::cluster::NodeId;
use crate::fetching::{Fetch, FetchReader, Fetched, Wanted, encode};
use crate::request::{Action, Answer};
use crate::security::ByteQuota;

impl Core {
    /// Answers a fetch, or parks it.
    pub(crate) fn fetch(&mut self, mut fetch: Fetch) -> Answer {
        let reader = FetchReader::new(&self.topics, &self.nodes, &self.settings.kafka);
        let fetched = reader.read_all(&fetch);
        let ready = fetch.due_ms <= self.now_ms
            || fetch.wanted.is_empty()
            || fetched.iter().map(|one| one.chunk.bytes as u64).sum::<u64>() >= fetch.min_bytes
            || fetched
                .iter()
                .any(|one| one.error != ErrorCode::None || one.diverging.is_some() || one.preferred.is_some());
        if !ready {
            // Frees the spare capacity: the fetch may wait for long.
            fetch.wanted.shrink_to_fit();
            self.parked.park(fetch, |fetch, place| reader.readable(fetch, place));
            return Answer::Later;
        }
        self.fetch_answer(fetch, fetched)
    }

    /// The partitions of a fetch session of a node.
    pub(crate) fn session_partitions(&self, node: NodeId, session: i32) -> Vec<(Arc<str>, i32)> {
        let name = |wanted: &Wanted| match &wanted.topic {
            Some(topic) => Some((Arc::clone(topic), wanted.index)),
            None => Some((self.topics.name_of(wanted.topic_id)?, wanted.index)),
        };
        self.fetch_sessions.remembered(node, session).filter_map(name).collect()
    }

    /// Makes the response, and updates the session with the values that it sends.
    fn fetch_answer(&mut self, fetch: Fetch, fetched: Vec<Fetched>) -> Answer {
        if fetch.replica.is_none() {
            // Partitions without records are small, and mostly left out.
            let bytes = fetched.iter().map(|one| one.chunk.bytes).filter(|&bytes| bytes > 0).sum();
            let throttle_time_ms = self.throttle(fetch.ticket.connection, ByteQuota::Fetched, bytes);
            if throttle_time_ms > 0 {
                let session = self.fetch_sessions.throttled(fetch.node, &fetch.session);
                return Answer::Now(encode(fetch.ticket, throttle_time_ms, session, &[], &[]));
            }
        }
        let (error, session_id, fetched) = self.fetch_sessions.answered(
            fetch.node,
            &fetch.session,
            &fetch.wanted,
            fetched,
            self.settings.kafka.max_incremental_fetch_session_cache_slots.max(0) as usize,
            self.now_ms,
            &mut self.draw,
        );
        let endpoints = match fetch.ticket.version {
            16.. => {
                let protocol = self.peers.protocol(fetch.ticket.connection);
                self.nodes.endpoints(fetched.iter().filter_map(|one| one.current_leader), protocol)
            }
            _ => Vec::new(),
        };
        Answer::Now(encode(fetch.ticket, 0, (error, session_id), &fetched, &endpoints))
    }

    /// Must be called when a partition has new records, a new leader or leader epoch, other in-sync replicas, or a new
    /// log start or end offset.
    pub(crate) fn partition_changed(&mut self, topic: &str, index: i32) {
        self.parked.changed(topic, index);
        self.parked_share_fetches.changed(topic, index);
    }

    /// Answers the waiting fetches that have enough bytes now, or an error to report.
    pub(crate) fn wake_fetches(&mut self) {
        let reader = FetchReader::new(&self.topics, &self.nodes, &self.settings.kafka);
        for fetch in self.parked.take_ready(|fetch, place| reader.readable(fetch, place)) {
            self.finish_fetch(fetch);
        }
        self.wake_share_fetches();
    }

    /// Answers the waiting fetches whose wait time is over.
    pub(super) fn finish_due_fetches(&mut self) {
        while let Some(fetch) = self.parked.take_due(self.now_ms) {
            self.finish_fetch(fetch);
        }
        while let Some(fetch) = self.parked_share_fetches.take_due(self.now_ms) {
            self.finish_share_fetch(fetch);
        }
    }

    fn finish_fetch(&mut self, fetch: Fetch) {
        let connection = fetch.ticket.connection;
        let fetched = FetchReader::new(&self.topics, &self.nodes, &self.settings.kafka).read_all(&fetch);
        match self.fetch_answer(fetch, fetched) {
            Answer::Now(frame) => self.reply(connection, Action::Send(frame)),
            Answer::Close(reason) => self.reply(connection, Action::Close(reason)),
            Answer::Later | Answer::Nothing | Answer::Refused(..) => {}
        }
    }
}
