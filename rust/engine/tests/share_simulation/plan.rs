//! What a seed decides beforehand: the group, its settings, and what its users are like.

use std::time::Duration;

use monedula_engine::Now;
use monedula_engine::backoff::Backoff;
use monedula_engine::group::share::ShareMemberConfig;
use monedula_engine::share::ShareSettings;

use crate::chance::Chance;

pub(crate) const GROUP: &str = "g";
/// Every member reads the first; some read the second, too.
pub(crate) const TOPICS: [&str; 2] = ["t", "u"];
pub(crate) const DEAD_LETTERS: &str = "dlq.t";
pub(crate) const BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(50), max: Duration::from_millis(500), factor: 2 };

/// What a user does.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// The user's threads.
    pub(crate) threads: usize,
    /// Undecided rows are accepted by the next call.
    pub(crate) is_implicit: bool,
    pub(crate) max_rows: usize,
    /// The longest work on a batch, in milliseconds.
    pub(crate) hold_ms: usize,
    /// How often, in a thousand: batches are decided row by row, are left after an exception, or in part.
    pub(crate) masks: usize,
    pub(crate) exceptions: usize,
    pub(crate) leaves: usize,
    pub(crate) commits: usize,
    /// How often the user does something else before the next call.
    pub(crate) rests: usize,
    /// How often the user renews locks.
    pub(crate) renews: usize,
    /// `share.renew.max.ms`.
    pub(crate) longest_renewal: Duration,
    pub(crate) fetches_ahead: bool,
    pub(crate) reads_both: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: i32,
    pub(crate) partitions: i32,
    pub(crate) users: Vec<Habits>,
    pub(crate) lock: Duration,
    pub(crate) delivery_limit: i16,
    pub(crate) record_locks: i64,
    pub(crate) session: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) assignment_interval: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) max_records: i32,
    pub(crate) is_strict: bool,
    pub(crate) load_ms: i64,
    pub(crate) dead_letters: bool,
    /// Records have keys, and old ones of the same key are removed.
    pub(crate) compacts: bool,
    /// Slow frames, in a thousand, and how slow.
    pub(crate) slow_frames: usize,
    pub(crate) slow_ms: usize,
    /// When trouble ends.
    pub(crate) calm: Now,
    /// All members close then, and another one reads what they left.
    pub(crate) closes_all: bool,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let chance = &mut chance;
        let lock = chance.ms(2000, 6000);
        let users = (0..chance.between(1, 4)).map(|_| habits(chance, lock)).collect();
        Self {
            seed,
            nodes: chance.between(1, 3) as i32,
            partitions: chance.between(1, 4) as i32,
            users,
            lock,
            delivery_limit: chance.between(2, 6) as i16,
            record_locks: *chance.pick(&[100, 2000]),
            session: chance.ms(3000, 8000),
            heartbeat: chance.ms(400, 1000),
            assignment_interval: *chance.pick(&[Duration::ZERO, Duration::from_secs(1)]),
            request_timeout: chance.ms(800, 4000),
            max_wait: chance.ms(100, 1500),
            max_records: *chance.pick(&[5, 20, 500]),
            is_strict: chance.odds(250),
            load_ms: if chance.odds(300) { chance.between(50, 2000) as i64 } else { 0 },
            dead_letters: chance.odds(500),
            compacts: chance.odds(250),
            slow_frames: *chance.pick(&[0, 5, 30]),
            slow_ms: *chance.pick(&[50, 500, 3000]),
            calm: chance.ms(10_000, 30_000),
            closes_all: chance.odds(400),
        }
    }

    pub(crate) fn membership(&self) -> ShareMemberConfig {
        ShareMemberConfig { group_id: GROUP.into(), rack: None, backoff: BACKOFF }
    }

    pub(crate) fn sessions(&self) -> ShareSettings {
        let Self { max_wait, max_records, is_strict, .. } = *self;
        ShareSettings { max_wait, max_records, is_strict, backoff: BACKOFF }
    }
}

fn habits(chance: &mut Chance, lock: Duration) -> Habits {
    let lock_ms = lock.as_millis() as usize;
    Habits {
        threads: chance.between(1, 3),
        is_implicit: chance.odds(600),
        max_rows: *chance.pick(&[1, 3, 10, 1000]),
        hold_ms: *chance.pick(&[5, 200, lock_ms, 3 * lock_ms]),
        masks: *chance.pick(&[0, 200, 800]),
        exceptions: *chance.pick(&[0, 0, 100]),
        leaves: *chance.pick(&[0, 200]),
        commits: *chance.pick(&[0, 300]),
        rests: *chance.pick(&[0, 50, 300]),
        renews: *chance.pick(&[0, 0, 200]),
        longest_renewal: lock * *chance.pick(&[0, 1, 100]),
        fetches_ahead: chance.odds(400),
        reads_both: chance.odds(500),
    }
}
