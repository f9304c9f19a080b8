//! Fetch sessions (KIP-227): a node remembers the partitions that a client fetches, so that requests and responses
//! carry changes only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::types::Uuid;

use super::{Fetched, Wanted};
use crate::cluster::NodeId;
use crate::draw::Draw;

/// The time for which a session must have been idle, or in use with fewer partitions, before a new session may evict
/// it. Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
const EVICTION_MS: i64 = 120_000;
/// The epoch of a full fetch request, which opens a session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request without a session, which also ends the session that it names.
const FINAL_EPOCH: i32 = -1;

#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<NodeId, BTreeMap<i32, FetchSession>>);

/// The use that a fetch makes of sessions.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionUse {
    /// A fetch without a session.
    Sessionless,
    /// Opens a session, if there is room.
    Open { topic_ids: bool },
    /// Continues this session. `epoch` is the epoch of the session after this request.
    Incremental { id: i32, epoch: i32 },
}

#[derive(Debug)]
struct FetchSession {
    topic_ids: bool,
    epoch: i32,
    created_ms: i64,
    last_used_ms: i64,
    /// Partitions in the order in which they are read. A partition that returned records moves to the end, so that none
    /// starves.
    partitions: BTreeMap<u64, Remembered>,
    places: HashMap<(TopicName, i32), u64>,
    next_place: u64,
}

/// A topic as a session identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TopicName {
    Name(Arc<str>),
    Id(Uuid),
}

#[derive(Debug)]
struct Remembered {
    wanted: Wanted,
    /// The values that were sent last; -1 if the partition must be sent again.
    high_watermark: i64,
    log_start_offset: i64,
}

impl TopicName {
    fn of(topic: Option<&Arc<str>>, topic_id: Uuid) -> Self {
        match topic {
            Some(topic) if topic_id.is_zero() => Self::Name(Arc::clone(topic)),
            _ => Self::Id(topic_id),
        }
    }
}

fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MAX => 1,
        epoch => epoch + 1,
    }
}

impl Sessions {
    /// The partitions that a session fetches.
    pub(crate) fn remembered(&self, node: NodeId, id: i32) -> impl Iterator<Item = &Wanted> {
        let session = self.0.get(&node).and_then(|sessions| sessions.get(&id));
        session.into_iter().flat_map(|session| session.partitions.values().map(|one| &one.wanted))
    }

    /// The use that a request makes of sessions, and the partitions that it fetches.
    ///
    /// # Errors
    /// FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
    pub(crate) fn resume(
        &mut self,
        node: NodeId,
        (id, epoch): (i32, i32),
        topic_ids: bool,
        wanted: Vec<Wanted>,
        forgotten: &[(Option<Arc<str>>, Uuid, i32)],
        now_ms: i64,
    ) -> Result<(SessionUse, Vec<Wanted>), ErrorCode> {
        let sessions = self.0.entry(node).or_default();
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            // A full request ends the session that it names.
            sessions.remove(&id);
            let session = if epoch == FINAL_EPOCH { SessionUse::Sessionless } else { SessionUse::Open { topic_ids } };
            return Ok((session, wanted));
        }
        let session = sessions.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.topic_ids != topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        wanted.iter().for_each(|wanted| session.want(wanted.clone()));
        for (topic, topic_id, index) in forgotten {
            session.forget(TopicName::of(topic.as_ref(), *topic_id), *index);
        }
        if session.partitions.is_empty() {
            sessions.remove(&id);
            return Ok((SessionUse::Sessionless, wanted));
        }
        session.last_used_ms = now_ms;
        session.epoch = next_epoch(session.epoch);
        let all = session.partitions.values().map(|remembered| remembered.wanted.clone()).collect();
        Ok((SessionUse::Incremental { id, epoch: session.epoch }, all))
    }

    /// Sets the names of topics whose ids named no topic before, where they name one now.
    pub(crate) fn resolve(wanted: &mut [Wanted], name_of: impl Fn(Uuid) -> Option<Arc<str>>) {
        for wanted in wanted.iter_mut().filter(|wanted| wanted.topic.is_none()) {
            wanted.topic = name_of(wanted.topic_id);
        }
    }

    /// The error and the id of the session in a response that has no partitions, because the client is throttled.
    pub(crate) fn throttled(&self, node: NodeId, session: &SessionUse) -> (ErrorCode, i32) {
        let SessionUse::Incremental { id, epoch } = *session else { return (ErrorCode::None, 0) };
        match self.0.get(&node).and_then(|sessions| sessions.get(&id)) {
            Some(session) if session.epoch != epoch => (ErrorCode::InvalidFetchSessionEpoch, id),
            _ => (ErrorCode::None, id),
        }
    }

    /// Updates the session with a response. Returns the error, the id of the session, and the partitions that the
    /// response must contain.
    #[expect(clippy::too_many_arguments, reason = "the session's own and what the core lends it")]
    pub(crate) fn answered(
        &mut self,
        node: NodeId,
        session: &SessionUse,
        wanted: &[Wanted],
        fetched: Vec<Fetched>,
        slots: usize,
        now_ms: i64,
        draw: &mut Draw,
    ) -> (ErrorCode, i32, Vec<Fetched>) {
        let sessions = self.0.entry(node).or_default();
        match *session {
            SessionUse::Sessionless => (ErrorCode::None, 0, fetched),
            SessionUse::Open { topic_ids } => {
                let id = match make_room(sessions, slots, fetched.len(), now_ms) {
                    true => open(sessions, topic_ids, wanted, &fetched, now_ms, draw),
                    false => 0,
                };
                (ErrorCode::None, id, fetched)
            }
            SessionUse::Incremental { id, epoch } => match sessions.get_mut(&id) {
                Some(session) if session.epoch == epoch => (ErrorCode::None, id, session.news(fetched)),
                // Another request of the session came while this one waited.
                Some(_) => (ErrorCode::InvalidFetchSessionEpoch, id, Vec::new()),
                // The session was evicted in the meantime: the next request gets FETCH_SESSION_ID_NOT_FOUND.
                None => (ErrorCode::None, id, fetched),
            },
        }
    }
}

/// Finds room for a session of this many partitions, or makes it. Returns whether there is any. Evicts the least
/// recently used session that was idle for longer than [`EVICTION_MS`], or else the smallest of those in use for longer
/// than that, if it has fewer partitions.
fn make_room(sessions: &mut BTreeMap<i32, FetchSession>, slots: usize, partitions: usize, now_ms: i64) -> bool {
    if sessions.len() < slots {
        return true;
    }
    let oldest = sessions.iter().min_by_key(|&(&id, session)| (session.last_used_ms, id));
    let stale = oldest.filter(|(_, session)| now_ms - session.last_used_ms > EVICTION_MS).map(|(&id, _)| id);
    let lesser = || {
        let old = sessions.iter().filter(|(_, session)| session.last_used_ms - session.created_ms > EVICTION_MS);
        let smallest = old.min_by_key(|&(&id, session)| (session.partitions.len(), id));
        smallest.filter(|(_, session)| session.partitions.len() < partitions).map(|(&id, _)| id)
    };
    match stale.or_else(lesser) {
        Some(id) => sessions.remove(&id).is_some(),
        None => false,
    }
}

fn open(
    sessions: &mut BTreeMap<i32, FetchSession>,
    topic_ids: bool,
    wanted: &[Wanted],
    fetched: &[Fetched],
    now_ms: i64,
    draw: &mut Draw,
) -> i32 {
    let mut session = FetchSession {
        topic_ids,
        epoch: next_epoch(INITIAL_EPOCH),
        created_ms: now_ms,
        last_used_ms: now_ms,
        partitions: BTreeMap::new(),
        places: HashMap::new(),
        next_place: 0,
    };
    for (wanted, fetched) in wanted.iter().zip(fetched) {
        session.want(wanted.clone());
        session.told(fetched);
    }
    let id = loop {
        let id = (draw.next() & i32::MAX as u64) as i32;
        if id != 0 && !sessions.contains_key(&id) {
            break id;
        }
    };
    sessions.insert(id, session);
    id
}

impl FetchSession {
    fn want(&mut self, wanted: Wanted) {
        let key = (TopicName::of(wanted.topic.as_ref(), wanted.topic_id), wanted.index);
        if let Some(remembered) = self.places.get(&key).and_then(|place| self.partitions.get_mut(place)) {
            remembered.wanted = wanted;
            return;
        }
        self.places.insert(key, self.next_place);
        self.partitions.insert(self.next_place, Remembered { wanted, high_watermark: -1, log_start_offset: -1 });
        self.next_place += 1;
    }

    fn forget(&mut self, topic: TopicName, index: i32) {
        if let Some(place) = self.places.remove(&(topic, index)) {
            self.partitions.remove(&place);
        }
    }

    fn told(&mut self, fetched: &Fetched) {
        let key = (TopicName::of(fetched.topic.as_ref(), fetched.topic_id), fetched.index);
        if let Some(remembered) = self.places.get(&key).and_then(|place| self.partitions.get_mut(place)) {
            remembered.high_watermark = fetched.high_watermark;
            remembered.log_start_offset = fetched.log_start_offset;
        }
    }

    /// The partitions that the response must contain. The session remembers their values as sent.
    fn news(&mut self, fetched: Vec<Fetched>) -> Vec<Fetched> {
        fetched.into_iter().filter(|fetched| self.is_news(fetched)).collect()
    }

    fn is_news(&mut self, fetched: &Fetched) -> bool {
        let key = (TopicName::of(fetched.topic.as_ref(), fetched.topic_id), fetched.index);
        let Some(&place) = self.places.get(&key) else { return true };
        let Some(mut remembered) = self.partitions.remove(&place) else { return true };
        let failed = fetched.error != ErrorCode::None;
        let has_records = fetched.chunk.bytes > 0;
        let news = has_records
            || failed
            || remembered.high_watermark != fetched.high_watermark
            || remembered.log_start_offset != fetched.log_start_offset
            || fetched.preferred.is_some()
            || fetched.diverging.is_some();
        // The partition is sent again when the error has gone.
        remembered.high_watermark = if failed { -1 } else { fetched.high_watermark };
        remembered.log_start_offset = fetched.log_start_offset;
        let place = match has_records {
            true => {
                self.next_place += 1;
                self.places.insert(key, self.next_place - 1);
                self.next_place - 1
            }
            false => place,
        };
        self.partitions.insert(place, remembered);
        news
    }
}
