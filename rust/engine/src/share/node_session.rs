//! The session with one broker: its epoch, its partitions, and the acknowledgements that wait for the next request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use monedula_protocol::types::Uuid;

use super::acknowledgement::{AcknowledgedRange, Acknowledgement, batches};
use super::io::{Acquired, PlannedPartition, SessionId};
use crate::{Now, TopicPartition};

/// The epoch of a request that opens a session.
pub(super) const OPEN: i32 = 0;
/// The epoch of a request that closes a session.
pub(super) const CLOSE: i32 = -1;

/// Partitions with the ids of their topics.
pub(super) type Partitions = BTreeSet<(TopicPartition, Uuid)>;

/// What the request in flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Fetch,
    Acknowledge,
    Renew,
    Close,
}

/// The request in flight. There is never a second one: each raises the epoch of the session.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) kind: RequestKind,
    pub(super) sent: Now,
    /// How long a fetch waits for records.
    pub(super) max_wait: Duration,
    pub(super) acknowledgements: Vec<Acknowledgement>,
    /// The partitions of the session once the request has succeeded.
    partitions: Partitions,
    /// Those of them that have had another leader since the request was sent: the locks of what it gets of them are gone.
    moved: Partitions,
}

/// The session with one broker.
#[derive(Debug, Default)]
pub(super) struct NodeSession {
    generation: u64,
    /// The epoch of the next request.
    epoch: i32,
    /// The partitions that the broker sends records of.
    partitions: Partitions,
    pub(super) pending: Vec<Acknowledgement>,
    pub(super) renewals: Vec<Acknowledgement>,
    pub(super) in_flight: Option<InFlight>,
    /// How long a lock lasts, as the broker said last.
    pub(super) lock_timeout: Option<Duration>,
    pub(super) retry_at: Option<Now>,
    pub(super) attempts: u32,
    /// True if the last answer with records had as many as the settings allow: there are likely to be more.
    pub(super) has_more: bool,
    /// When a fetch brought no records, if the last one did not.
    pub(super) empty_at: Option<Now>,
    /// True if the connection has ended, and the session with it.
    pub(super) is_disconnected: bool,
}

impl NodeSession {
    pub(super) fn id(&self, node: i32) -> SessionId {
        SessionId { node, generation: self.generation }
    }

    /// True if the broker has the session, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.epoch != OPEN
    }

    pub(super) fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// The partition of the session with this id and index.
    pub(super) fn partition(&self, topic_id: Uuid, index: i32) -> Option<TopicPartition> {
        let of = |(partition, id): &&(TopicPartition, Uuid)| *id == topic_id && partition.partition == index;
        self.partitions.iter().find(of).map(|(partition, _)| partition.clone())
    }

    /// True if a request may be sent now.
    pub(super) fn is_free(&self, now: Now) -> bool {
        self.in_flight.is_none() && self.retry_at.is_none_or(|at| at <= now)
    }

    /// False if the broker is not asked for a while, or has not answered for as long as this.
    pub(super) fn is_answering(&self, patience: Duration, now: Now) -> bool {
        match &self.in_flight {
            Some(request) => now <= request.sent + patience,
            None => self.retry_at.is_none_or(|at| at <= now),
        }
    }

    /// Begins a fetch of these partitions. Returns the epoch, the partitions of the request and those to forget.
    pub(super) fn fetch(
        &mut self,
        wanted: Partitions,
        max_wait: Duration,
        now: Now,
    ) -> (i32, Vec<PlannedPartition>, Vec<(Uuid, i32)>) {
        let acknowledgements = std::mem::take(&mut self.pending);
        let mut named = by_partition(&acknowledgements);
        // A partition that is named for its acknowledgements alone joins the session, and would be delivered for ever.
        let known: Partitions = self.partitions.iter().chain(named.keys()).cloned().collect();
        let forgotten = known.difference(&wanted).map(|(partition, id)| (*id, partition.partition)).collect();
        for added in wanted.difference(&self.partitions) {
            named.entry(added.clone()).or_default();
        }
        let planned = named.into_iter().map(planned).collect();
        let kind = RequestKind::Fetch;
        let (partitions, moved) = (wanted, Partitions::new());
        self.in_flight = Some(InFlight { kind, sent: now, max_wait, acknowledgements, partitions, moved });
        (self.epoch, planned, forgotten)
    }

    /// Begins a ShareAcknowledge; one that closes the session has the pending acknowledgements too.
    pub(super) fn acknowledge(&mut self, kind: RequestKind, now: Now) -> (i32, Vec<PlannedPartition>) {
        let acknowledgements = match kind {
            RequestKind::Renew => std::mem::take(&mut self.renewals),
            _ => std::mem::take(&mut self.pending),
        };
        let planned = by_partition(&acknowledgements).into_iter().map(planned).collect();
        let epoch = if kind == RequestKind::Close { CLOSE } else { self.epoch };
        let partitions = self.partitions.clone();
        let (max_wait, moved) = (Duration::ZERO, Partitions::new());
        self.in_flight = Some(InFlight { kind, sent: now, max_wait, acknowledgements, partitions, moved });
        (epoch, planned)
    }

    /// The request succeeded, whatever became of single partitions: the epoch is raised once for it.
    pub(super) fn succeeded(&mut self, partitions: Partitions) {
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        self.partitions = partitions;
        self.attempts = 0;
    }

    /// Records of this partition were acquired again, so that the locks before have ended. Returns the acknowledgements that
    /// were to be sent of those: they would take effect on the new locks, and stand twice in a request with the next.
    pub(super) fn take_outdated(&mut self, partition: &TopicPartition, acquired: &[Acquired]) -> Vec<Acknowledgement> {
        let is_again = |range: &AcknowledgedRange| acquired.iter().any(|it| it.overlaps(range.first, range.last));
        let is_outdated = |it: &mut Acknowledgement| it.partition == *partition && it.ranges.iter().any(is_again);
        let mut outdated: Vec<Acknowledgement> = self.pending.extract_if(.., is_outdated).collect();
        outdated.extend(self.renewals.extract_if(.., is_outdated));
        outdated
    }

    /// The session is over. Returns the acknowledgements that were not sent: they died with it.
    pub(super) fn end(&mut self) -> Vec<Acknowledgement> {
        self.generation += 1;
        self.epoch = OPEN;
        (self.has_more, self.empty_at, self.is_disconnected) = (false, None, false);
        self.partitions.clear();
        let mut unsent = std::mem::take(&mut self.pending);
        unsent.append(&mut self.renewals);
        unsent
    }
}

impl InFlight {
    pub(super) fn take_partitions(&mut self) -> Partitions {
        std::mem::take(&mut self.partitions)
    }

    pub(super) fn take_moved(&mut self) -> Partitions {
        std::mem::take(&mut self.moved)
    }

    /// Notes the partitions that have another leader, as of now.
    pub(super) fn note_moved(&mut self, has_moved: impl Fn(&TopicPartition, Uuid) -> bool) {
        self.moved.extend(self.partitions.iter().filter(|(partition, id)| has_moved(partition, *id)).cloned());
    }
}

type ByPartition<'a> = BTreeMap<(TopicPartition, Uuid), Vec<&'a Acknowledgement>>;

fn by_partition(acknowledgements: &[Acknowledgement]) -> ByPartition<'_> {
    let mut named = ByPartition::new();
    for each in acknowledgements {
        named.entry((each.partition.clone(), each.topic_id)).or_default().push(each);
    }
    named
}

fn planned(
    ((partition, topic_id), acknowledgements): ((TopicPartition, Uuid), Vec<&Acknowledgement>),
) -> PlannedPartition {
    let batches = batches(acknowledgements.into_iter());
    PlannedPartition { topic_id, partition: partition.partition, batches }
}
