//! Which batches go into a request.

use super::io::{Output, Sending};
use super::machine::{ProduceMachine, Request, Slot};
use super::queue::{Next, Phase};

impl ProduceMachine {
    /// Makes requests for a broker as long as it has one to spare and someone in its line has a batch. Open batches that could go
    /// along if they were packed are closed: not before, so that they grow while the broker is busy.
    pub(super) fn serve(&mut self, broker: i32) {
        while self.has_room(broker) {
            let batches = self.fill(broker);
            if batches.is_empty() {
                return;
            }
            let request = self.next_request;
            self.next_request += 1;
            let slots = batches.iter().map(|(slot, sending)| (*slot, sending.batch)).collect();
            self.requests.insert(request, Request { broker, batches: slots });
            if let Some(node) = self.nodes.get_mut(&broker) {
                node.in_flight += 1;
            }
            // Who has more to send stands in line again, behind all others.
            let slots: Vec<Slot> = batches.iter().map(|(slot, _)| *slot).collect();
            let batches = batches.into_iter().map(|(_, sending)| sending).collect();
            self.emit(Output::Send { request, broker, batches });
            slots.into_iter().for_each(|slot| self.touch(slot));
        }
    }

    fn has_room(&self, broker: i32) -> bool {
        let room =
            |node: &super::machine::Node| node.in_flight < self.config.max_in_flight && node.retry_at <= self.now;
        self.nodes.get(&broker).is_some_and(room)
    }

    fn fill(&mut self, broker: i32) -> Vec<(Slot, Sending)> {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        let length = self.nodes.get(&broker).map_or(0, |node| node.line.len());
        for _ in 0..length {
            let Some(slot) = self.nodes.get_mut(&broker).and_then(|node| node.line.pop_front()) else { break };
            let queue = &mut self.queues[slot];
            // It stands in another line by now.
            if queue.lined_up_at != Some(broker) {
                continue;
            }
            queue.lined_up_at = None;
            if queue.leader != Some(broker) {
                self.touch(slot);
                continue;
            }
            match queue.next(&self.config, self.identity, self.now) {
                Next::Wait => {}
                Next::Close(index) => {
                    queue.entries[index].phase = Phase::Closing;
                    let batch = queue.entries[index].batch.id;
                    self.emit(Output::Close { batch });
                }
                Next::Send(index) => {
                    let size = queue.entries[index].batch.bytes;
                    if !batches.is_empty() && bytes + size > self.config.max_request_bytes {
                        queue.lined_up_at = Some(broker);
                        if let Some(node) = self.nodes.get_mut(&broker) {
                            node.line.push_front(slot);
                        }
                        break;
                    }
                    bytes += size;
                    batches.extend(self.take(slot, index, broker).map(|sending| (slot, sending)));
                }
            }
        }
        batches
    }

    /// The batch counts as sent.
    fn take(&mut self, slot: Slot, index: usize, broker: i32) -> Option<Sending> {
        let identity = self.identity.filter(|_| self.config.idempotent);
        let queue = &mut self.queues[slot];
        let sequence = identity.and_then(|identity| queue.number(index, identity));
        let entry = queue.entries.get_mut(index)?;
        entry.phase = Phase::InFlight;
        entry.attempts += 1;
        queue.in_flight += 1;
        queue.in_flight_at = Some(broker);
        Some(Sending { batch: entry.batch.id, partition: queue.partition.clone(), sequence })
    }
}
