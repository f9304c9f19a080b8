//! The producer session beside the delivery machine: sends its calls, passes its outputs on to that machine, and
//! replies to the user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use monedula_engine::produce::{self, ProducerIdentity, SendFault};
use monedula_engine::transaction::{Input, Output, ProducerSession, SessionConfig, SessionEvent, SessionState, Ticket};
use monedula_engine::{Now, TopicPartition};
use tokio::sync::mpsc;

use super::admission::TransactionAdmission;
use super::calls::{CallOutcome, Calls};
use super::command::{Verb, VerbReply};
use crate::base::ClientBase;
use crate::error::ClientError;
use crate::log::{Log, kinds};
use crate::net::network::joined;

/// The level of `transaction.version` from which transaction version 2 (KIP-890) is used.
const VERSION_2: i16 = 2;

/// The session machine with what it needs; see the [module](self).
pub(super) struct Session {
    machine: ProducerSession,
    calls: Calls,
    log: Log,
    admission: Arc<TransactionAdmission>,
    waiting: BTreeMap<Ticket, VerbReply>,
    next_ticket: Ticket,
    version2: bool,
}

impl Session {
    /// A session whose calls send their outcomes to `outcomes`.
    pub(super) fn new(
        config: SessionConfig,
        admission: Arc<TransactionAdmission>,
        base: &ClientBase,
        outcomes: mpsc::UnboundedSender<CallOutcome>,
        seed: u64,
    ) -> Self {
        let machine = ProducerSession::new(config.clone(), seed);
        admission.set_refusal(machine.refusal());
        let (network, coordinators) = (base.network.clone(), base.coordinators.clone());
        Self {
            machine,
            calls: Calls { network, coordinators, config: Arc::new(config), outcomes },
            log: base.log.clone(),
            admission,
            waiting: BTreeMap::new(),
            next_ticket: 0,
            version2: false,
        }
    }

    /// True if the transaction uses transaction version 2 (KIP-890): transactional batches are then sent with Produce
    /// version 12 or later, else with 11 at most.
    pub(super) fn version2(&self) -> bool {
        self.machine.version2()
    }

    pub(super) fn refuse_client(&self, error: ClientError) {
        self.admission.refuse_client(error);
    }

    /// Time of the next [`Self::tick`].
    pub(super) fn wake_at(&self) -> Option<Now> {
        self.machine.wake_at()
    }

    /// Time has passed. Like all inputs, returns the inputs that follow for the delivery machine.
    pub(super) fn tick(&mut self, now: Now) -> Vec<produce::Input> {
        self.handle(now, Input::Tick)
    }

    pub(super) fn answered(&mut self, now: Now, (id, outcome): CallOutcome) -> Vec<produce::Input> {
        self.handle(now, Input::Answer { id, outcome })
    }

    pub(super) fn need_identity(&mut self, now: Now, old: Option<ProducerIdentity>) -> Vec<produce::Input> {
        self.handle(now, Input::NeedIdentity { old })
    }

    pub(super) fn add_partition(&mut self, now: Now, partition: TopicPartition) -> Vec<produce::Input> {
        self.handle(now, Input::AddPartition(partition))
    }

    pub(super) fn delivery_failed(&mut self, now: Now, fault: SendFault) -> Vec<produce::Input> {
        self.handle(now, Input::DeliveryFailed(fault))
    }

    /// Starts a verb. Its outcome is sent to `reply`.
    pub(super) fn verb(&mut self, now: Now, verb: Verb, reply: VerbReply) -> Vec<produce::Input> {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let deadline = |until: Instant| now + until.saturating_duration_since(Instant::now());
        let input = match verb {
            Verb::Init { until } => Input::Init { ticket, deadline: deadline(until) },
            Verb::Begin => Input::Begin { ticket },
            Verb::SendOffsets { group, offsets, until } => {
                Input::SendOffsets { ticket, group, offsets, deadline: deadline(until) }
            }
            Verb::Fail { reason } => {
                let inputs = self.handle(now, Input::DeliveryFailed(SendFault::TransactionFailed { reason }));
                let _ = reply.send(Ok(()));
                return inputs;
            }
            Verb::End { ending, until } => Input::End { ticket, ending, deadline: deadline(until) },
        };
        self.waiting.insert(ticket, reply);
        self.handle(now, input)
    }

    /// Reason that holds records back, with the failure of the session's own call, which they may wait for.
    pub(super) fn explain(&self, obstacle: Option<String>) -> Option<String> {
        joined(obstacle.into_iter().chain(self.machine.last_error().map(str::to_owned)))
    }

    fn handle(&mut self, now: Now, input: Input) -> Vec<produce::Input> {
        let version2 = self.calls.network.transaction_version() >= VERSION_2;
        if version2 != self.version2 {
            self.version2 = version2;
            self.machine.handle(now, Input::TransactionVersion2(version2));
        }
        self.machine.handle(now, input);
        let (mut inputs, mut done) = (Vec::new(), Vec::new());
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Call { id, target, call } => self.calls.send(id, target, call),
                Output::Identity(identity) => inputs.push(produce::Input::Identity(identity)),
                Output::PartitionAdded(partition) => inputs.push(produce::Input::AddedToTransaction(partition)),
                Output::Ended => inputs.push(produce::Input::TransactionEnded),
                Output::Done { ticket, outcome } => done.push((ticket, outcome)),
                Output::FailUnsent(fault) => inputs.push(produce::Input::TransactionFailed(fault)),
                Output::Fatal(fault) => inputs.push(produce::Input::FailAll(fault)),
                Output::Event(event) => self.record_event(&event),
            }
        }
        // Only now, after the inputs for the delivery machine: a user who learns that a transaction is open sends at
        // once.
        for (ticket, outcome) in done {
            if let Some(reply) = self.waiting.remove(&ticket) {
                // Fails if the caller no longer waits.
                let _ = reply.send(outcome);
            }
        }
        inputs
    }

    fn record_event(&self, event: &SessionEvent) {
        match event {
            SessionEvent::StateChanged { to, .. } => {
                self.admission.set_refusal(self.machine.refusal());
                self.log.record(&kinds::TRANSACTION_STATE, || format!("the producer is {}", to.name()));
                if *to == SessionState::Fatal
                    && let Some(error) = self.machine.refusal()
                {
                    self.log.record(&kinds::TRANSACTION_FAILED, || error.to_string());
                }
            }
            SessionEvent::Retried { api, reason } => {
                self.log.record(&kinds::TRANSACTION_RETRIED, || format!("{api} is tried again: {reason}"));
            }
        }
    }
}
