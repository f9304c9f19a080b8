//! Thousands of random answers, losses, delays and calls of the user. The same seed does the same; every change of
//! state is legal; the session never loops without time passing; every call is answered once; and a transaction that is
//! reported as aborted was not committed.

use std::collections::BTreeSet;

use monedula_engine::backoff::Jitter;
use monedula_engine::produce::{ProducerIdentity, SendFault};
use monedula_engine::transaction::{
    Call, CallFailure, Ending, Input, SessionState, Ticket, TransactionError, TransactionResponse,
};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{COORDINATOR, GROUPS, World, coordinator, ms, refusal, secs, t};

const SEEDS: u64 = 1500;
const STEPS: u32 = 200;
/// Error codes that a session survives, and sometimes one that spoils the transaction.
const CODES: [i16; 10] = [14, 15, 16, 51, 7, 51, 16, 59, 120, 49];
/// How many of them are only retried.
const RETRIED: u64 = 7;

/// A coordinator's state.
#[derive(Default)]
struct Broker {
    producer: Option<ProducerIdentity>,
    open: bool,
    /// Ends that were carried out.
    commits: u32,
}

struct Storm {
    world: World,
    dice: Jitter,
    broker: Broker,
    tickets: BTreeSet<Ticket>,
    /// Ends without an answer yet.
    ends: Vec<(Ticket, Ending)>,
    /// The number of the broker's commits when the transaction began.
    commits_before: u32,
    log: Vec<String>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut world = World::seeded(Some("id"), seed);
        world.put(Input::TransactionVersion2(seed.is_multiple_of(2)));
        Self {
            world,
            dice: Jitter::new(seed),
            broker: Broker::default(),
            tickets: BTreeSet::new(),
            ends: Vec::new(),
            commits_before: 0,
            log: Vec::new(),
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next() % sides
    }

    fn step(&mut self) {
        match self.roll(16) {
            0..=8 => self.answer_one(),
            9 => {
                let time = [ms(20), ms(500), secs(2), secs(61)][self.roll(4) as usize];
                self.world.pass(time);
            }
            10 => {
                let partition = self.roll(4) as i32;
                self.world.put(Input::AddPartition(t(partition)));
            }
            11 if self.roll(4) == 0 => self.spoil(),
            12 => {
                let ticket = self.world.send_offsets(&[(0, 5)]);
                self.tickets.insert(ticket);
            }
            _ => {
                let ticket = match (self.world.session.state(), self.roll(8)) {
                    (SessionState::Uninitialized, _) | (_, 0) => self.world.init(),
                    (SessionState::Ready, _) | (_, 1) => self.begin(),
                    (SessionState::AbortableError | SessionState::Aborting, _) | (_, 2..=3) => self.end(Ending::Abort),
                    _ => self.end(Ending::Commit),
                };
                self.tickets.insert(ticket);
            }
        }
        assert!(self.world.calls.len() <= 1, "one call at a time");
        self.hear();
        self.log.push(format!("{:?} {:?}", self.world.now, self.world.session.state()));
    }

    fn begin(&mut self) -> Ticket {
        let ticket = self.world.begin();
        if self.world.outcome(ticket) == Some(&Ok(())) {
            self.commits_before = self.broker.commits;
        }
        ticket
    }

    fn end(&mut self, ending: Ending) -> Ticket {
        let ticket = self.world.end(ending);
        self.ends.push((ticket, ending));
        ticket
    }

    /// Checks the outcomes of ends: one that is reported as an abort, or as aborted, was no commit.
    fn hear(&mut self) {
        let (heard, ends) = self.ends.drain(..).partition(|(ticket, _)| self.world.outcome(*ticket).is_some());
        self.ends = ends;
        let heard: Vec<(Ticket, Ending)> = heard;
        for (ticket, ending) in heard {
            let called_off = match self.world.outcome(ticket) {
                Some(Ok(())) => ending == Ending::Abort,
                Some(Err(error)) => matches!(error, TransactionError::MustAbort { .. }),
                None => false,
            };
            assert!(!called_off || self.broker.commits == self.commits_before, "it is committed");
        }
    }

    fn spoil(&mut self) {
        let old = self.world.session.identity();
        let input = match self.roll(8) {
            0 => Input::DeliveryFailed(SendFault::Fenced { reason: "dice".into() }),
            1..=3 => Input::DeliveryFailed(SendFault::UnknownTopicOrPartition { partition: t(0) }),
            _ => Input::NeedIdentity { old },
        };
        self.world.put(input);
    }

    fn answer_one(&mut self) {
        let Some((id, _, call)) = self.world.calls.pop() else { return };
        let outcome = match self.roll(12) {
            // The request was not sent, or its answer was lost.
            0 => Err(CallFailure::Lost("dice".into())),
            1 => {
                drop(self.carry_out(&call));
                Err(CallFailure::Lost("dice".into()))
            }
            2..=3 => {
                // The answer of a coordinator that has carried out a commit.
                let through = matches!(call, Call::EndTxn { .. }) && self.broker.commits > self.commits_before;
                let code = CODES[self.roll(if through { RETRIED } else { CODES.len() as u64 }) as usize];
                refusal(&call, ErrorCode::from_code(code))
            }
            4 if self.roll(60) == 0 => refusal(&call, ErrorCode::TransactionalIdAuthorizationFailed),
            4 if self.roll(60) == 0 => Err(CallFailure::Fatal("dice".into())),
            _ => self.carry_out(&call),
        };
        self.world.put(Input::Answer { id, outcome: outcome.clone() });
        // TCP does not duplicate answers, but a faulty driver might.
        if self.roll(20) == 0 {
            self.world.put(Input::Answer { id, outcome });
        }
    }

    fn carry_out(&mut self, call: &Call) -> Result<TransactionResponse, CallFailure> {
        Ok(match call {
            Call::FindCoordinator { group: None } => coordinator(COORDINATOR),
            Call::FindCoordinator { .. } => coordinator(GROUPS),
            Call::InitProducerId { .. } => {
                let epoch = self.broker.producer.map_or(0, |producer| producer.epoch + 1);
                self.broker.open = false;
                let identity = ProducerIdentity { producer_id: 9, epoch };
                self.broker.producer = Some(identity);
                TransactionResponse::Identity(identity)
            }
            Call::AddPartitionsToTxn { identity, partitions } => {
                self.broker.open |= self.broker.producer == Some(*identity);
                TransactionResponse::Partitions(
                    partitions.iter().map(|partition| (partition.clone(), ErrorCode::None)).collect(),
                )
            }
            Call::AddOffsetsToTxn { .. } => {
                self.broker.open = true;
                TransactionResponse::Ok
            }
            Call::TxnOffsetCommit { offsets, version2, .. } => {
                self.broker.open |= version2;
                TransactionResponse::Partitions(
                    offsets.keys().map(|partition| (partition.clone(), ErrorCode::None)).collect(),
                )
            }
            Call::EndTxn { identity, ending, version2 } => {
                let current = self.broker.producer == Some(*identity);
                self.broker.commits += u32::from(current && *ending == Ending::Commit);
                self.broker.open = false;
                if *version2 {
                    let next = ProducerIdentity { epoch: identity.epoch + 1, ..*identity };
                    self.broker.producer = Some(next);
                    return Ok(TransactionResponse::Identity(next));
                }
                TransactionResponse::Ok
            }
        })
    }

    fn run(mut self) -> Self {
        for _ in 0..STEPS {
            self.step();
        }
        // From now on there are no faults: everything that waits ends.
        for _ in 0..100 {
            self.world.pass(secs(2));
            if let Some((id, _, call)) = self.world.calls.pop() {
                let outcome = self.carry_out(&call);
                self.world.put(Input::Answer { id, outcome });
            }
        }
        for ticket in &self.tickets {
            assert!(self.world.outcome(*ticket).is_some(), "verb {ticket} is not answered");
        }
        let resting = [
            SessionState::Uninitialized,
            SessionState::Ready,
            SessionState::InTransaction,
            SessionState::AbortableError,
            SessionState::Fatal,
        ];
        assert!(resting.contains(&self.world.session.state()), "{:?}", self.world.session.state());
        if self.world.session.state() == SessionState::Ready {
            assert!(!self.broker.open, "a transaction was left open");
        }
        self
    }
}

#[test]
fn no_order_of_events_breaks_it_and_every_legal_step_is_taken() {
    let mut taken: BTreeSet<(SessionState, SessionState)> = BTreeSet::new();
    let mut commits = 0;
    for seed in 0..SEEDS {
        let storm = std::panic::catch_unwind(|| Storm::new(seed).run());
        let Ok(storm) = storm else { panic!("seed {seed}") };
        commits += storm.broker.commits;
        taken.extend(storm.world.steps);
    }
    let legal: BTreeSet<(SessionState, SessionState)> =
        SessionState::ALL.iter().flat_map(|from| from.successors().iter().map(|to| (*from, *to))).collect();
    assert_eq!(taken.difference(&legal).collect::<Vec<_>>(), Vec::<&(SessionState, SessionState)>::new(), "illegal");
    assert_eq!(
        legal.difference(&taken).collect::<Vec<_>>(),
        Vec::<&(SessionState, SessionState)>::new(),
        "legal on paper only"
    );
    assert!(commits > 1000, "{commits} commits");
}

#[test]
fn the_seed_decides() {
    for seed in 0..20 {
        assert_eq!(Storm::new(seed).run().log, Storm::new(seed).run().log);
    }
}
