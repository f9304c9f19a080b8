//! The batches of a request.

use super::io::{Output, RequestBatch};
use super::machine::{PartitionIndex, ProduceMachine, ProduceNode, Request};
use super::partition_queue::{NextStep, Phase};

impl ProduceMachine {
    /// Makes requests for a broker, as many as it has room for and as its waiting partitions have batches. Closes open
    /// batches that could go along if they were packed: not earlier, so that they grow while the broker is busy.
    pub(super) fn make_requests(&mut self, broker: i32) {
        while self.has_room(broker) {
            let batches = self.fill_request(broker);
            if batches.is_empty() {
                return;
            }
            let request = self.next_request;
            self.next_request += 1;
            let in_flight = batches.iter().map(|(partition, batch)| (*partition, batch.batch)).collect();
            self.requests.insert(request, Request { broker, batches: in_flight });
            if let Some(node) = self.nodes.get_mut(&broker) {
                node.in_flight += 1;
            }
            // A partition with more to send waits again, behind all others.
            let partitions: Vec<PartitionIndex> = batches.iter().map(|(partition, _)| *partition).collect();
            let batches = batches.into_iter().map(|(_, batch)| batch).collect();
            self.emit(Output::Send { request, broker, batches });
            partitions.into_iter().for_each(|partition| self.update_partition(partition));
        }
    }

    fn has_room(&self, broker: i32) -> bool {
        let room = |node: &ProduceNode| node.in_flight < self.config.max_in_flight && node.retry_at <= self.now;
        self.nodes.get(&broker).is_some_and(room)
    }

    fn fill_request(&mut self, broker: i32) -> Vec<(PartitionIndex, RequestBatch)> {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        let length = self.nodes.get(&broker).map_or(0, |node| node.partitions.len());
        for _ in 0..length {
            let Some(partition) = self.nodes.get_mut(&broker).and_then(|node| node.partitions.pop_front()) else {
                break;
            };
            let queue = &mut self.queues[partition];
            // The partition waits at another broker by now.
            if queue.waits_at != Some(broker) {
                continue;
            }
            queue.waits_at = None;
            if queue.leader != Some(broker) {
                self.update_partition(partition);
                continue;
            }
            match queue.next_step(&self.config, self.identity, self.now) {
                NextStep::Wait => {}
                NextStep::Close(index) => {
                    queue.batches[index].phase = Phase::Closing;
                    let batch = queue.batches[index].batch.id;
                    self.emit(Output::Close { batch });
                }
                NextStep::Send(index) => {
                    let size = queue.batches[index].batch.bytes;
                    if !batches.is_empty() && bytes + size > self.config.max_request_bytes {
                        queue.waits_at = Some(broker);
                        if let Some(node) = self.nodes.get_mut(&broker) {
                            node.partitions.push_front(partition);
                        }
                        break;
                    }
                    bytes += size;
                    batches.extend(self.mark_sent(partition, index, broker).map(|batch| (partition, batch)));
                }
            }
        }
        batches
    }

    fn mark_sent(&mut self, partition: PartitionIndex, index: usize, broker: i32) -> Option<RequestBatch> {
        let identity = self.identity.filter(|_| self.config.idempotent);
        let queue = &mut self.queues[partition];
        let sequence = identity.and_then(|identity| queue.assign_sequence(index, identity));
        let batch = queue.batches.get_mut(index)?;
        batch.phase = Phase::InFlight;
        batch.attempts += 1;
        queue.in_flight += 1;
        queue.in_flight_at = Some(broker);
        Some(RequestBatch { batch: batch.batch.id, partition: queue.topic_partition.clone(), sequence })
    }
}
