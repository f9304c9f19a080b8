//! The time in which this process ran. Whether a broker is silent, and for how long something fails, is judged by it: a
//! process that was stopped (SIGSTOP, a debugger, a suspended machine) could not hear an answer meanwhile.
//!
//! Terms that others count in their own time are judged by the clock all the same: a group's session, and with it the
//! lease of its members, ends while a process is stopped.
//!
//! Each client keeps a task that looks at the clock every [`PERIOD`] ([`watch`]). Time between two looks beyond
//! [`TOLERANCE`] is time in which the process did not run.

use std::ops::Add;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Interval between two looks at the clock.
const PERIOD: Duration = Duration::from_millis(250);
/// Longest delay of a look because of load; with a longer one, the process did not run.
const TOLERANCE: Duration = Duration::from_secs(1);

/// The clock of this process, by which all its clients go.
static CLOCK: RunClock = RunClock { watchers: AtomicUsize::new(0), looks: AtomicU64::new(0) };

/// Beginning of [`CLOCK`].
static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Time for which the process ran. Without a lock: a child that is forked meanwhile would find it locked for ever.
#[derive(Debug, Default)]
struct RunClock {
    /// Number of clients that look at it. Without any, nobody would notice that the process was stopped.
    watchers: AtomicUsize,
    /// Time of the last look, and above that the time for which the process was stopped, each in units of [`UNIT`].
    looks: AtomicU64,
}

/// The resolution of what [`RunClock`] keeps.
const UNIT: Duration = Duration::from_millis(10);
/// Number of bits of the last look: five years of units. The rest is enough for four months of being stopped.
const LOOK_BITS: u32 = 34;

impl RunClock {
    /// Time for which the process has run, at `now`, counted from the beginning of the clock.
    fn look(&self, now: Duration) -> Duration {
        now.saturating_sub(self.stopped(now))
    }

    fn stopped(&self, now: Duration) -> Duration {
        let units = |time: Duration| (time.as_millis() / UNIT.as_millis()) as u64;
        let (look, is_watched) = (units(now), self.watchers.load(Ordering::Relaxed) > 0);
        let next = |looks: u64| {
            let (last, stopped) = (looks & ((1 << LOOK_BITS) - 1), looks >> LOOK_BITS);
            let since = look.saturating_sub(last);
            let more = if is_watched && since > units(TOLERANCE) { since - units(PERIOD) } else { 0 };
            (stopped + more) << LOOK_BITS | look.max(last)
        };
        let before = self.looks.fetch_update(Ordering::AcqRel, Ordering::Acquire, |looks| Some(next(looks)));
        let stopped = next(before.unwrap_or_else(|looks| looks)) >> LOOK_BITS;
        UNIT * u32::try_from(stopped).unwrap_or(u32::MAX)
    }
}

/// Time of the clock when it begins, so that a moment before that can be told.
const BEGINNING: Duration = Duration::from_secs(86_400);

fn now() -> Duration {
    BEGINNING + BEGAN.get_or_init(Instant::now).elapsed()
}

/// Time for which this process was stopped since its clock began.
pub(crate) fn stopped() -> Duration {
    CLOCK.stopped(now())
}

/// A moment in the time in which this process ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunInstant(Duration);

impl RunInstant {
    pub(crate) fn now() -> Self {
        Self(CLOCK.look(now()))
    }

    /// Time for which the process has run since.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// Time for which the process had run since `earlier`; zero if that is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    #[cfg(test)]
    pub(crate) fn checked_sub(self, time: Duration) -> Option<Self> {
        self.0.checked_sub(time).map(Self)
    }
}

impl Add<Duration> for RunInstant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0 + time)
    }
}

/// Ends once the process has run for so long.
pub(crate) async fn sleep(time: Duration) {
    sleep_until(RunInstant::now() + time).await;
}

/// Ends once the process has run until then.
pub(crate) async fn sleep_until(until: RunInstant) {
    loop {
        let left = until.since(RunInstant::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// The outcome of `work`; `None` if the process has run for so long before it ended. What has come by then counts.
pub(crate) async fn timeout<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        outcome = work => Some(outcome),
        () = sleep(time) => None,
    }
}

/// Looks at the clock until it is dropped.
pub(crate) async fn watch() {
    let _watching = Watching::begin();
    let mut looks = tokio::time::interval(PERIOD);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let _ = RunInstant::now();
    }
}

struct Watching;

impl Watching {
    fn begin() -> Self {
        // Nobody may have looked for long.
        CLOCK.look(now());
        CLOCK.watchers.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        CLOCK.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watched() -> RunClock {
        RunClock { watchers: AtomicUsize::new(1), ..RunClock::default() }
    }

    #[test]
    fn time_in_which_the_process_was_stopped_does_not_count() {
        let clock = watched();
        assert_eq!(clock.look(SECOND), SECOND);
        assert_eq!(clock.look(SECOND + PERIOD), SECOND + PERIOD);
        assert_eq!(clock.look(13 * SECOND + 2 * PERIOD), SECOND + 2 * PERIOD);
        assert_eq!(clock.look(13 * SECOND + 3 * PERIOD), SECOND + 3 * PERIOD);
        assert_eq!(clock.look(25 * SECOND + 4 * PERIOD), SECOND + 4 * PERIOD, "stopped again");
    }

    #[test]
    fn a_look_that_is_a_little_late_counts_wholly() {
        let clock = watched();
        assert_eq!(clock.look(TOLERANCE), TOLERANCE);
        assert_eq!(clock.look(2 * TOLERANCE), 2 * TOLERANCE);
    }

    #[test]
    fn time_that_nobody_watched_counts() {
        assert_eq!(RunClock::default().look(12 * SECOND), 12 * SECOND);
    }

    #[test]
    fn a_look_that_is_overtaken_by_another_does_not_turn_the_clock_back() {
        let clock = watched();
        clock.look(SECOND);
        assert_eq!(clock.look(SECOND - UNIT), SECOND - UNIT);
        assert_eq!(clock.look(SECOND + UNIT), SECOND + UNIT);
    }
}
