//! Loops that end: `until` the end of the log, or a time, as it is when a partition is first assigned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;

use super::Consumer;
use crate::base::ClientBase;
use crate::error::ClientError;
use crate::fetch::buffer::{BufferState, FetchBuffer};
use crate::group::MemberState;
use crate::lock::lock;
use crate::log::kinds;
use crate::offsets::{LATEST, Question};

/// Number of heartbeat intervals for which a member without a partition waits for one: partitions that others give up
/// for it come with the next rebalance. Under KIP-848, a member that has released partitions waits for as long: their
/// next owner hears of them with its next heartbeat, and if it leaves before that, they come back.
const PATIENT_INTERVALS: u32 = 2;

/// Target of a loop that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The end of the log; under read_committed the last stable offset.
    Latest,
    /// The first record whose timestamp, in ms, is not earlier; the end of the log if there is none.
    Timestamp(i64),
}

struct Bounds {
    until: Until,
    base: ClientBase,
    buffer: Arc<FetchBuffer>,
}

impl Consumer {
    /// Begins a loop that ends, in place of the one before. Of each partition, now assigned or later, only what lies
    /// before its bound is handed out. Returns the loop's number, for [`Self::end_until`].
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn begin_until(&self, until: Until) -> Result<u64, ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        *lock(&self.until) = until;
        let number = self.buffer.assignment().begin_until();
        self.look_up_bounds();
        Ok(number)
    }

    /// True if all is handed out that the loop wants, of all partitions that are assigned now. A member of a group has
    /// to be stable, and to know of each topic that it subscribed to whether it exists; if none does, it is at its end
    /// as soon as that is known. To be called now and then: it has the bounds of new partitions looked up.
    pub fn is_until_reached(&self) -> bool {
        self.look_up_bounds();
        let is_settled = match self.group.get().filter(|_| self.is_subscribed()) {
            None => self.unresolved().is_empty(),
            Some(group) => {
                let health = group.health();
                let status = &health.status;
                let patience = status.heartbeat_interval * PATIENT_INTERVALS;
                if health.has_doubtful_topics {
                    return false;
                }
                // Whatever the others do, this member will never have a partition.
                let topics = status.topics();
                if !topics.is_empty() && status.owned.is_empty() && topics == health.unknown_topics {
                    return true;
                }
                if health.unmatched.is_some() {
                    return status.owned.is_empty() && health.unmatched > Some(patience);
                }
                let is_quiet = status.last_rebalance.is_some_and(|at| health.since(at) > patience);
                // The member owns partitions a moment before the buffer has them.
                let is_there =
                    status.owned.iter().all(|partition| self.buffer.look(|state| state.partitions().owns(partition)));
                let is_content = is_there && (!status.owned.is_empty() || is_quiet);
                let is_classic = matches!(status.state, MemberState::Classic(_));
                let are_taken = is_classic
                    || self.buffer.group().membership(|gate| gate.since_release()).is_none_or(|ago| ago > patience);
                is_stable(status.state) && health.wanted.is_empty() && is_content && are_taken
            }
        };
        is_settled && self.buffer.look(BufferState::is_until_reached)
    }

    /// The loop with this number is over; does nothing if another one began since.
    pub fn end_until(&self, number: u64) {
        self.buffer.assignment().end_until(number);
    }

    fn look_up_bounds(&self) {
        let Some((number, partitions)) = self.buffer.assignment().take_unbounded() else { return };
        let bounds = Bounds { until: *lock(&self.until), base: self.base.clone(), buffer: self.buffer.clone() };
        let mut closed = self.closed.subscribe();
        self.runtime.spawn(async move {
            tokio::select! {
                // An error means that the consumer is gone.
                _ = closed.wait_for(|&closed| closed) => {}
                () = bounds.look_up(number, partitions) => {}
            }
        });
    }
}

impl Bounds {
    /// Asks once; what has no answer is asked for again by the next call of the user.
    async fn look_up(self, number: u64, partitions: Vec<TopicPartition>) {
        let found = match self.find(&partitions).await {
            Ok(found) => found,
            Err(error) => {
                self.base
                    .log
                    .record(&kinds::END_UNKNOWN, || format!("where to stop reading is not known yet: {error}"));
                let mut jitter = Jitter::new(Instant::now().elapsed().as_nanos() as u64);
                tokio::time::sleep(self.base.config.retry_backoff.delay(0, &mut jitter)).await;
                BTreeMap::new()
            }
        };
        self.buffer.assignment().set_bounds(number, &partitions, found);
    }

    async fn find(&self, partitions: &[TopicPartition]) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        let mut ends = BTreeMap::new();
        if let Until::Timestamp(timestamp_ms) = self.until {
            ends = self.list(partitions.to_vec(), timestamp_ms).await?;
        }
        let open = partitions.iter().filter(|partition| !ends.contains_key(*partition)).cloned().collect();
        ends.extend(self.list(open, LATEST).await?);
        Ok(ends)
    }

    async fn list(
        &self,
        partitions: Vec<TopicPartition>,
        what: i64,
    ) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let questions = partitions.into_iter().map(|partition| Question { partition, what }).collect();
        let found = self.base.offsets.list(questions, self.base.config.default_api_timeout).await?.into_iter();
        Ok(found.filter_map(|(partition, found)| Some((partition, found?.offset))).collect())
    }
}

fn is_stable(state: MemberState) -> bool {
    match state {
        MemberState::Classic(state) => state == monedula_engine::group::classic::ClassicState::Stable,
        MemberState::Consumer(state) => state == monedula_engine::group::consumer::ConsumerState::Stable,
    }
}
