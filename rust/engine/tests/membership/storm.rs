//! Thousands of random answers, losses, delays and calls of the user. The same seed does the same; every change of
//! state is legal; the member never loops without time passing; Assigned and Revoked or Lost balance; every commit is
//! answered once; closing ends the member.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::backoff::Jitter;
use monedula_engine::group::consumer::{ConsumerProtocolConfig, ConsumerState};
use monedula_engine::group::{Call, CallError, CallId, GroupResponse, HeartbeatCall, Input, Partitions};
use monedula_protocol::error_code::ErrorCode;

use crate::world::{World, beat, commit_codes, config, coordinator, ids, ms, of, offsets, refused, secs};

const SEEDS: u64 = 1500;
const STEPS: u32 = 250;
/// Error codes that the membership survives, and sometimes one that ends it.
const CODES: [i16; 14] = [14, 15, 16, 25, 110, 29, 14, 16, 113, 110, 111, 69, 35, 82];

struct Storm {
    world: World,
    dice: Jitter,
    waiting: Vec<(CallId, Call)>,
    epoch: i32,
    next_ticket: u64,
    tickets: BTreeSet<u64>,
    log: Vec<String>,
    /// Of each partition: Assigned callbacks less Revoked and Lost ones.
    callbacks: BTreeMap<String, i32>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut setup = ConsumerProtocolConfig { falls_back: seed.is_multiple_of(7), ..config() };
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
            epoch: 0,
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
        match self.roll(17) {
            0..=7 => self.answer_one(),
            8..=9 => {
                let time = [ms(50), ms(700), secs(3), secs(6), secs(50), secs(310)];
                let pick = self.roll(24).min(10) as usize;
                self.world.pass(time[if pick > 5 { pick % 3 } else { pick }]);
            }
            10 => self.subscribe(),
            11 => {
                self.next_ticket += 1;
                self.tickets.insert(self.next_ticket);
                let (partition, offset) = (self.roll(4) as i32, self.roll(1000) as i64);
                self.world.commit(self.next_ticket, offsets(&[(partition, offset)]));
            }
            12 => {
                self.world.busy = self.roll(2) == 0;
                self.world.polling = self.roll(8) != 0;
                match self.world.busy {
                    true => self.world.pay_one(),
                    false => self.world.user_returns(),
                }
            }
            13 => {
                let (partition, offset) = (self.roll(4) as i32, self.roll(1000) as i64);
                if self.world.owned().contains(&partition) {
                    self.world.finished.extend(offsets(&[(partition, offset)]));
                }
            }
            14 => match self.roll(4) {
                0 => self.world.topic_with("t", crate::world::id("n"), 4),
                1 => self.world.topic("u", 4),
                2 => self.world.topic("t", 4),
                _ => self.world.learn(),
            },
            15 if self.roll(4) == 0 => self.world.put(Input::Unsubscribe),
            _ => {
                let time = ms(self.roll(2000));
                self.world.sleep(time);
            }
        }
        self.settle();
    }

    fn subscribe(&mut self) {
        match self.roll(4) {
            0 => self.world.subscribe(&["t"]),
            1 => self.world.subscribe(&["t", "u"]),
            2 => self.world.match_topics(&["u"]),
            _ => self.world.subscribe_regex(".*"),
        }
    }

    /// Takes the calls that were sent, and counts the callbacks.
    fn settle(&mut self) {
        while let Some(&api) = self.world.apis().first() {
            self.waiting.push(self.world.call(api));
        }
        let beats = self
            .waiting
            .iter()
            .filter(|(_, call)| matches!(call, Call::ConsumerGroupHeartbeat(call) if call.epoch >= 0));
        // Heartbeats from before a loss, or before leaving, may still be in flight; the member waits for one at most.
        assert!(beats.count() < 40);
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
        let outcome = match self.roll(10) {
            0 => Err(CallError::Lost("dice".into())),
            1 => {
                let code = ErrorCode::from_code(CODES[self.roll(CODES.len() as u64) as usize]);
                Ok(failed(&call, code))
            }
            2 if self.roll(40) == 0 => Ok(failed(&call, ErrorCode::GroupAuthorizationFailed)),
            2 if self.roll(80) == 0 => Err(CallError::Never("dice".into())),
            2 if self.roll(4) == 0 => Ok(coordinator(ErrorCode::None, 1)),
            _ => Ok(self.good(&call)),
        };
        let input = Input::Answer { id, outcome };
        self.world.put(input.clone());
        // TCP does not duplicate answers, but a faulty driver might.
        if self.roll(20) == 0 {
            self.world.put(input);
        }
    }

    fn good(&mut self, call: &Call) -> GroupResponse {
        match call {
            Call::FindCoordinator { .. } => coordinator(ErrorCode::None, self.roll(3) as i32),
            Call::ConsumerGroupHeartbeat(call) => self.good_heartbeat(call),
            Call::OffsetCommit { offsets, generation_or_epoch: epoch, .. } => {
                let code = if *epoch == self.epoch { ErrorCode::None } else { ErrorCode::StaleMemberEpoch };
                commit_codes(offsets, code)
            }
            Call::OffsetFetch { partitions, .. } => {
                let offsets = partitions.iter().map(|partition| (partition.clone(), Ok(None))).collect();
                GroupResponse::OffsetFetch { code: ErrorCode::None, offsets }
            }
            call => panic!("of the classic protocol: {call:?}"),
        }
    }

    fn good_heartbeat(&mut self, call: &HeartbeatCall) -> GroupResponse {
        if call.epoch < 0 {
            return beat(call.epoch, None);
        }
        assert!(call.epoch != 0 || call.owned == Some(ids(&[])), "{call:?}");
        if call.epoch != 0 && self.roll(3) != 0 {
            return beat(self.epoch.max(1), None);
        }
        self.epoch += 1;
        let target = self.target();
        beat(self.epoch, target)
    }

    fn target(&mut self) -> Option<Partitions> {
        let mask = self.roll(16);
        let gets: Vec<i32> = (0..4).filter(|partition| mask & (1 << partition) != 0).collect();
        match self.roll(9) {
            0 => None,
            1 => Some(ids(&gets).union(&of("u", &gets)).copied().collect()),
            2 => Some(ids(&gets).union(&of("x", &[0])).copied().collect()),
            3 => Some(of("n", &gets)),
            _ => Some(ids(&gets)),
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
        assert_eq!((self.world.state(), self.world.owned().len()), (ConsumerState::Unsubscribed, 0));
        assert_eq!((self.world.member.wake_at(), self.world.lease), (None, None));
        assert!(self.callbacks.values().all(|count| *count == 0), "{:?}", self.callbacks);
        for ticket in &self.tickets {
            assert!(self.world.outcome(*ticket).is_some(), "commit {ticket} is not answered");
        }
        self
    }
}

fn failed(call: &Call, code: ErrorCode) -> GroupResponse {
    match call {
        Call::FindCoordinator { .. } => coordinator(code, -1),
        Call::ConsumerGroupHeartbeat(_) => refused(code),
        Call::OffsetCommit { offsets, .. } => commit_codes(offsets, code),
        Call::OffsetFetch { .. } => GroupResponse::OffsetFetch { code, offsets: [].into() },
        call => panic!("of the classic protocol: {call:?}"),
    }
}

#[test]
fn no_order_of_events_breaks_it_and_every_legal_step_is_taken() {
    let mut taken: BTreeSet<(ConsumerState, ConsumerState)> = BTreeSet::new();
    for seed in 0..SEEDS {
        let storm = std::panic::catch_unwind(|| Storm::new(seed).run());
        let Ok(storm) = storm else { panic!("seed {seed}") };
        taken.extend(&storm.world.steps);
    }
    let legal = ConsumerState::ALL.iter().flat_map(|from| from.successors().iter().map(|to| (*from, *to)));
    let never: Vec<(ConsumerState, ConsumerState)> = legal.filter(|step| !taken.contains(step)).collect();
    assert_eq!(never, [], "legal on paper only");
}

#[test]
fn the_seed_decides() {
    for seed in 0..20 {
        let (first, second) = (Storm::new(seed).run(), Storm::new(seed).run());
        assert_eq!(first.log, second.log);
        assert_eq!((&first.world.events, &first.world.steps), (&second.world.events, &second.world.steps));
    }
    // Another seed leads to other backoffs.
    let wakes = |seed| {
        let mut world = World::seeded(config(), seed);
        world.subscribe(&["t"]);
        let (id, _) = world.call("FindCoordinator");
        world.lose(id);
        world.member.wake_at()
    };
    assert_eq!(wakes(1), wakes(1));
    assert_ne!(wakes(1), wakes(2));
}
