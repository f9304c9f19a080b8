//! Whether the brokers that a consumer reads from answer, and since when none does.
//!
//! Whoever sends requests reports here; nothing is sent for this purpose. A broker that leads nothing of interest does not
//! count, and neither does one of many: a consumer fails only if *no* broker serves what is assigned to it, or its group's
//! coordinator does not answer.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::lock::lock;

/// What was lost, since when, and the last error.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) since: Instant,
    pub(crate) last_error: Option<String>,
}

/// An answer may come this much later than it is due.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shared by the tasks of one consumer; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Reach(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Requests for records, or for where to begin, that wait for their answer.
    in_flight: usize,
    /// Since when no such request was answered although there was one to answer.
    unanswered: Option<Failure>,
    /// Since when no assigned partition has a leader.
    leaderless_since: Option<Instant>,
    coordinator: Option<Failure>,
}

impl Reach {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// A leader is asked for records, or for where to begin.
    pub(crate) fn asked(&self) {
        let mut state = self.state();
        state.in_flight += 1;
        state.unanswered.get_or_insert_with(|| Failure { since: Instant::now(), last_error: None });
    }

    /// A leader has answered, whatever it said.
    pub(crate) fn answered(&self) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        let goes_on = state.in_flight > 0;
        state.unanswered = goes_on.then(|| Failure { since: Instant::now(), last_error: None });
    }

    /// A leader has not answered. It may have taken `due` to answer without being at fault.
    pub(crate) fn failed(&self, error: String, due: Duration) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        let unanswered = state.unanswered.get_or_insert_with(|| Failure { since: Instant::now(), last_error: None });
        if unanswered.last_error.is_none() && unanswered.since.elapsed() <= due {
            // A long poll that was still in its time when the connection broke.
            unanswered.since = Instant::now();
        }
        unanswered.last_error = Some(error);
    }

    /// Other partitions are read from now on, or paused ones again: what was before says nothing about them.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.state();
        let waits = state.in_flight > 0;
        state.unanswered = waits.then(|| Failure { since: Instant::now(), last_error: None });
        state.leaderless_since = None;
    }

    /// Whether partitions are assigned and none of them has a leader.
    pub(crate) fn set_leaderless(&self, leaderless: bool) {
        let mut state = self.state();
        state.leaderless_since = leaderless.then(|| state.leaderless_since.unwrap_or_else(Instant::now));
    }

    /// The group's coordinator has answered, whatever it said.
    pub(crate) fn coordinator_answered(&self) {
        self.state().coordinator = None;
    }

    /// The group's coordinator has not answered, or there is none.
    pub(crate) fn coordinator_failed(&self, error: String) {
        let mut state = self.state();
        let failure = state.coordinator.get_or_insert_with(|| Failure { since: Instant::now(), last_error: None });
        failure.last_error = Some(error);
    }

    /// How the coordinator fails.
    pub(crate) fn coordinator(&self) -> Option<Failure> {
        self.state().coordinator.clone()
    }

    /// How the leaders fail: a request to one failed and none was answered since, none has answered for longer than `due`
    /// and a second more, or there is none.
    pub(crate) fn leaders(&self, due: Duration) -> Option<Failure> {
        let state = self.state();
        let is_overdue = |since: Instant| since.elapsed() > due + PATIENCE;
        let unanswered = state.unanswered.clone();
        let unanswered = unanswered.filter(|failure| failure.last_error.is_some() || is_overdue(failure.since));
        let leaderless = state.leaderless_since.map(|since| {
            let last_error = Some("no assigned partition has a leader (LEADER_NOT_AVAILABLE)".into());
            Failure { since, last_error }
        });
        unanswered.into_iter().chain(leaderless).min_by_key(|failure| failure.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(reach: &Reach) -> bool {
        reach.leaders(Duration::ZERO).is_some()
    }

    #[test]
    fn one_leader_that_answers_is_enough() {
        let reach = Reach::default();
        reach.asked();
        reach.asked();
        reach.failed("a:1: connection refused".into(), Duration::ZERO);
        reach.answered();
        assert!(!fails(&reach));
    }

    #[test]
    fn leaders_that_do_not_answer_fail_since_they_were_first_asked() {
        let reach = Reach::default();
        reach.asked();
        let since = reach.state().unanswered.clone().expect("asked").since;
        reach.failed("a:1: connection refused".into(), Duration::ZERO);
        reach.asked();
        let failure = reach.leaders(Duration::ZERO).expect("failed");
        assert_eq!((failure.since, failure.last_error.as_deref()), (since, Some("a:1: connection refused")));
    }

    #[test]
    fn an_answer_that_is_due_is_waited_for() {
        let reach = Reach::default();
        reach.asked();
        assert!(reach.leaders(Duration::from_secs(60)).is_none());
    }

    #[test]
    fn a_long_poll_that_breaks_off_in_its_time_fails_from_then_on() {
        let reach = Reach::default();
        reach.asked();
        let before = Instant::now();
        reach.failed("a:1: connection reset".into(), Duration::from_secs(60));
        assert!(reach.leaders(Duration::ZERO).expect("failed").since >= before);
    }

    #[test]
    fn the_other_leaders_are_judged_from_the_last_answer_on() {
        let reach = Reach::default();
        reach.asked();
        reach.asked();
        let before = Instant::now();
        reach.answered();
        let unanswered = reach.state().unanswered.clone();
        assert!(unanswered.is_some_and(|failure| failure.since >= before), "one of them was not answered yet");
    }

    #[test]
    fn a_partition_without_a_leader_is_no_idle_one() {
        let reach = Reach::default();
        reach.set_leaderless(true);
        assert!(fails(&reach));
        reach.set_leaderless(false);
        assert!(!fails(&reach));
    }

    #[test]
    fn the_coordinator_fails_until_it_answers() {
        let reach = Reach::default();
        reach.coordinator_failed("a:1: connection refused".into());
        reach.coordinator_failed("a:1: no answer within 30000 ms".into());
        let failure = reach.coordinator().expect("failed");
        assert_eq!(failure.last_error.as_deref(), Some("a:1: no answer within 30000 ms"));
        reach.coordinator_answered();
        assert!(reach.coordinator().is_none());
    }
}
