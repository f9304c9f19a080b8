//! Thousands of random answers, losses, delays and calls of the user. The same seed does the same; every change of
//! state is legal; the member never loops without time passing; Assigned and Revoked or Lost balance; every commit is
//! answered once; closing ends the member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monedula_engine::assign::Protocol;
use monedula_engine::backoff::Jitter;
use monedula_engine::group::MemberState as In;
use monedula_engine::group::classic::ClassicState;
use monedula_engine::group::{Call, CallError, CallId, GroupEvent, GroupResponse, Input};
use monedula_protocol::error_code::ErrorCode;

use crate::pending::failed;
use crate::world::{
    DEFERS, Named, World, commit_codes, config, coordinator, join_error, ms, offsets, secs, sync_error, synced,
};

const SEEDS: u64 = 1500;
const STEPS: u32 = 250;
/// Error codes that the membership survives, and sometimes one that ends it.
const CODES: [i16; 12] = [14, 15, 16, 27, 22, 25, 7, 3, 14, 16, 27, 27];

struct Storm {
    world: World,
    dice: Jitter,
    waiting: Vec<(CallId, Call)>,
    generation: i32,
    next_ticket: u64,
    tickets: BTreeSet<u64>,
    log: Vec<String>,
    /// Of each partition: Assigned callbacks less Revoked and Lost ones.
    callbacks: BTreeMap<String, i32>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let protocol = if seed.is_multiple_of(2) { Protocol::Eager } else { Protocol::Cooperative };
        let mut setup = config(protocol);
        if seed % 4 == 1 {
            setup.assignors = vec![Arc::new(Named(DEFERS, protocol))];
        }
        if seed.is_multiple_of(3) {
            setup.member.auto_commit_interval = None;
        }
        if seed.is_multiple_of(5) {
            setup.member.instance_id = Some("i".into());
        }
        Self {
            world: World::seeded(setup, seed),
            dice: Jitter::new(seed),
            waiting: Vec::new(),
            generation: 0,
            next_ticket: 1_000_000,
            tickets: BTreeSet::new(),
            log: Vec::new(),
            callbacks: BTreeMap::new(),
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.next() % sides
    }

    fn step(&mut self) {
        match self.roll(16) {
            0..=6 => self.answer_one(),
            7..=9 => {
                let time = [ms(50), ms(700), secs(3), secs(6), secs(50), secs(310)];
                let pick = self.roll(24).min(10) as usize;
                self.world.pass(time[if pick > 5 { pick % 3 } else { pick }]);
            }
            10 => {
                let names: &[&[&str]] = &[&["t"], &["t", "u"], &["u"]];
                let pick = self.roll(3) as usize;
                self.world.subscribe(names[pick]);
            }
            11 => {
                self.next_ticket += 1;
                self.tickets.insert(self.next_ticket);
                let (partition, offset) = (self.roll(4) as i32, self.roll(1000) as i64);
                self.world.commit(self.next_ticket, offsets(&[(partition, offset)]));
            }
            12 => {
                self.world.busy = self.roll(2) == 0;
                self.world.polling = self.roll(8) != 0;
                if !self.world.busy {
                    self.world.user_returns();
                }
            }
            13 => {
                let (partition, offset) = (self.roll(4) as i32, self.roll(1000) as i64);
                let owned = self.world.owned().contains(&partition);
                if owned {
                    self.world.finished.extend(offsets(&[(partition, offset)]));
                }
            }
            14 => {
                let at = self.world.now + secs(self.roll(60));
                self.world.put(Input::Rejoin { at, reason: "dice".into() });
            }
            _ if self.roll(6) == 0 => self.world.put(Input::Unsubscribe),
            _ => {
                let time = ms(self.roll(2000));
                self.world.sleep(time);
            }
        }
        self.settle();
    }

    /// Takes the calls that were sent, and counts the callbacks.
    fn settle(&mut self) {
        while let Some(&api) = self.world.apis().first() {
            self.waiting.push(self.world.call(api));
        }
        for line in self.world.trace() {
            let change = match line.split(' ').next() {
                Some("Assigned") => 1,
                Some("Revoked" | "Lost") => -1,
                _ => 0,
            };
            for partition in line.split(' ').skip(1).filter(|_| change != 0) {
                let count = self.callbacks.entry(partition.to_owned()).or_default();
                *count += change;
                assert!((0..=1).contains(count), "{partition} has two such callbacks: {line}");
            }
            self.log.push(line);
        }
    }

    fn answer_one(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let pick = self.roll(self.waiting.len() as u64) as usize;
        let (id, call) = self.waiting.swap_remove(pick);
        let input = match self.roll(10) {
            0 if self.roll(2) == 0 => Input::Answer { id, outcome: Err(CallError::Unsent("dice".into())) },
            0 => Input::Answer { id, outcome: Err(CallError::Lost("dice".into())) },
            1 => {
                let code = CODES[self.roll(CODES.len() as u64) as usize];
                Input::Answer { id, outcome: Ok(failed(call.api(), ErrorCode::from_code(code))) }
            }
            2 if self.roll(40) == 0 => {
                Input::Answer { id, outcome: Ok(failed(call.api(), ErrorCode::GroupAuthorizationFailed)) }
            }
            2 if self.roll(80) == 0 => Input::Answer { id, outcome: Err(CallError::Never("dice".into())) },
            2 => Input::Answer { id, outcome: Ok(GroupResponse::Heartbeat { code: ErrorCode::None }) },
            _ => Input::Answer { id, outcome: Ok(self.good(&call)) },
        };
        self.world.put(input.clone());
        // TCP does not duplicate answers, but a faulty driver might.
        if self.roll(20) == 0 {
            self.world.put(input);
        }
        if let Some(ticket) = self.world.assigning.take() {
            self.world.put(Input::AssignmentComputed { ticket, outcome: Ok((Vec::new(), [("t".into(), 4)].into())) });
        }
    }

    fn good(&mut self, call: &Call) -> GroupResponse {
        match call {
            Call::FindCoordinator { .. } => coordinator(ErrorCode::None, self.roll(3) as i32),
            Call::JoinGroup { member_id, .. } if member_id.is_empty() && self.roll(2) == 0 => {
                join_error(ErrorCode::MemberIdRequired, "m")
            }
            Call::JoinGroup { .. } => {
                self.generation += 1;
                let leader = if self.roll(2) == 0 { "m" } else { "other" };
                self.world.joined(self.generation, leader, Vec::new())
            }
            Call::SyncGroup { generation, .. } if *generation != self.generation => {
                sync_error(ErrorCode::RebalanceInProgress)
            }
            Call::SyncGroup { .. } => {
                let mask = self.roll(16);
                let gets: Vec<i32> = (0..4).filter(|partition| mask & (1 << partition) != 0).collect();
                synced(&gets)
            }
            Call::Heartbeat { .. } => GroupResponse::Heartbeat { code: ErrorCode::None },
            Call::LeaveGroup { .. } => GroupResponse::LeaveGroup { code: ErrorCode::None },
            Call::OffsetCommit { offsets, generation_or_epoch: generation, .. } => {
                let code = if *generation == self.generation { ErrorCode::None } else { ErrorCode::IllegalGeneration };
                commit_codes(offsets, code)
            }
            Call::OffsetFetch { partitions, .. } => {
                let offsets = partitions.iter().map(|partition| (partition.clone(), Ok(None))).collect();
                GroupResponse::OffsetFetch { code: ErrorCode::None, offsets }
            }
            call => panic!("of the other machine: {call:?}"),
        }
    }

    fn run(mut self) -> Self {
        self.world.subscribe(&["t"]);
        for _ in 0..STEPS {
            self.step();
        }
        self.world.close();
        self.world.pass(secs(31));
        self.settle();
        assert_eq!(self.log.last().map(String::as_str), Some("closed"));
        assert_eq!((self.world.state(), self.world.owned().len()), (ClassicState::Unsubscribed, 0));
        assert!(self.callbacks.values().all(|count| *count == 0), "{:?}", self.callbacks);
        for ticket in &self.tickets {
            assert!(self.world.outcome(*ticket).is_some(), "commit {ticket} is not answered");
        }
        self
    }
}

#[test]
fn no_order_of_events_breaks_it_and_every_legal_step_is_taken() {
    let mut taken: BTreeSet<(ClassicState, ClassicState)> = BTreeSet::new();
    for seed in 0..SEEDS {
        let storm = std::panic::catch_unwind(|| Storm::new(seed).run());
        let Ok(storm) = storm else { panic!("seed {seed}") };
        taken.extend(storm.world.events.iter().filter_map(|event| match event {
            GroupEvent::StateChanged { from: In::Classic(from), to: In::Classic(to) } => Some((*from, *to)),
            _ => None,
        }));
    }
    let legal = ClassicState::ALL.iter().flat_map(|from| from.successors().iter().map(|to| (*from, *to)));
    let never: Vec<(ClassicState, ClassicState)> = legal.filter(|step| !taken.contains(step)).collect();
    assert_eq!(never, [], "legal on paper only");
}

#[test]
fn the_seed_decides() {
    for seed in 0..20 {
        let (first, second) = (Storm::new(seed).run(), Storm::new(seed).run());
        assert_eq!(first.log, second.log);
        assert_eq!(first.world.events, second.world.events);
    }
    // Another seed leads to other backoffs.
    let wakes = |seed| {
        let mut world = World::seeded(config(Protocol::Eager), seed);
        world.subscribe(&["t"]);
        let (id, _) = world.call("FindCoordinator");
        world.lose(id);
        world.member.wake_at()
    };
    assert_eq!(wakes(1), wakes(1));
    assert_ne!(wakes(1), wakes(2));
}
