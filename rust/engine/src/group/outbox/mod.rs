//! The outbox of a member: outputs, calls in flight, timers, and jittered backoff.

mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use monedula_protocol::error_code::ErrorCode;

use crate::backoff::{Backoff, Jitter};
use crate::group::messages::{Call, CallId, CallKind, CallbackKind, GroupEvent, Output, Target, Ticket};
use crate::{Now, TopicPartition};

pub(crate) use timers::Timer;
use timers::Timers;

#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) kind: CallKind,
    /// The coordinator that was asked; `None` for FindCoordinator.
    pub(crate) node_id: Option<i32>,
    pub(crate) sent: Now,
    /// The generation, or the member epoch, when the request was sent.
    pub(crate) generation_or_epoch: i32,
}

/// The outputs of a member in their order, its calls in flight, its timers, and the jittered backoff between attempts.
pub(crate) struct Outbox {
    pub(crate) timers: Timers,
    outputs: VecDeque<Output>,
    in_flight: BTreeMap<CallId, InFlight>,
    last_id: u64,
    backoff: Backoff,
    jitter: Jitter,
}

impl Outbox {
    /// `seed` decides the jitter.
    pub(crate) fn new(backoff: Backoff, seed: u64) -> Self {
        Self {
            timers: Timers::default(),
            outputs: VecDeque::new(),
            in_flight: BTreeMap::new(),
            last_id: 0,
            backoff,
            jitter: Jitter::new(seed),
        }
    }

    /// The last id that was given to a call or a ticket.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Gives no id up to this one to any call or ticket.
    pub(crate) fn skip_ids(&mut self, last_id: u64) {
        self.last_id = self.last_id.max(last_id);
    }

    /// The next output.
    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) fn event(&mut self, event: GroupEvent) {
        self.push(Output::Event(event));
    }

    /// Logs that a call failed with an error that is retried and that the user does not see.
    pub(crate) fn retried(&mut self, api: &'static str, code: ErrorCode) {
        self.event(GroupEvent::Retried { api, reason: code.name().into() });
    }

    /// An id for a call or a ticket; none is used twice.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Pushes the output that runs the user's callback.
    pub(crate) fn call_back(&mut self, kind: CallbackKind, partitions: BTreeSet<TopicPartition>) -> Ticket {
        let ticket = self.new_id();
        self.push(Output::Callback { ticket, kind, partitions });
        ticket
    }

    /// Releases partitions that are lost. Their Lost callback leaves out those for which the Revoked callback was
    /// already requested (`notified`). Returns its ticket, if it runs.
    pub(crate) fn lose(
        &mut self,
        lost: BTreeSet<TopicPartition>,
        notified: &BTreeSet<TopicPartition>,
        reason: &str,
    ) -> Option<Ticket> {
        if lost.is_empty() {
            return None;
        }
        let not_notified: BTreeSet<TopicPartition> = lost.difference(notified).cloned().collect();
        self.push(Output::Released { partitions: lost.clone(), are_lost: true });
        self.event(GroupEvent::Lost { partitions: lost, reason: reason.into() });
        (!not_notified.is_empty()).then(|| self.call_back(CallbackKind::Lost, not_notified))
    }

    pub(crate) fn send(
        &mut self,
        kind: CallKind,
        target: Target,
        call: Call,
        generation_or_epoch: i32,
        now: Now,
    ) -> CallId {
        let id = self.new_id();
        let node_id = match target {
            Target::Coordinator { node_id } => Some(node_id),
            Target::Any { .. } => None,
        };
        self.in_flight.insert(id, InFlight { kind, node_id, sent: now, generation_or_epoch });
        self.push(Output::Call { id, target, call });
        id
    }

    pub(crate) fn in_flight(&self, id: CallId) -> Option<&InFlight> {
        self.in_flight.get(&id)
    }

    /// Removes a call that was answered or that will have no answer.
    pub(crate) fn take_in_flight(&mut self, id: CallId) -> Option<InFlight> {
        self.in_flight.remove(&id)
    }

    /// Sets `timer` to the time of the next attempt, and counts it.
    pub(crate) fn back_off(&mut self, timer: Timer, attempts: &mut u32, now: Now) {
        self.back_off_after(*attempts, timer, now);
        *attempts = attempts.saturating_add(1);
    }

    /// Sets `timer` to the time of the next attempt. `attempts`: the number of retries so far, 0 before the first.
    pub(crate) fn back_off_after(&mut self, attempts: u32, timer: Timer, now: Now) {
        let delay = self.delay(attempts);
        self.timers.set(timer, now + delay);
    }

    /// The backoff before the next attempt.
    pub(crate) fn delay(&mut self, attempts: u32) -> std::time::Duration {
        self.backoff.delay(attempts, &mut self.jitter)
    }
}
