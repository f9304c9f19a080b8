//! Reachability of the brokers that a consumer reads from, and the time since which none answers.
//!
//! Whoever sends requests reports here; nothing is sent for this purpose. A broker that leads nothing of interest does
//! not count, and neither does one of many: a consumer fails only if *no* broker serves what is assigned to it, or its
//! group's coordinator does not answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use monedula_engine::group::{CallError, GroupResponse};
use monedula_protocol::error_code::ErrorCode;

use crate::lock::lock;
use crate::run_time::RunInstant;

/// A failure, with its beginning and the last error.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) since: RunInstant,
    pub(crate) last_error: Option<String>,
}

impl Failure {
    fn begins_now() -> Self {
        Self { since: RunInstant::now(), last_error: None }
    }
}

/// An answer may come this much later than it is due.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shared by the tasks of one consumer; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Reach(Arc<Mutex<ReachState>>);

#[derive(Default)]
struct ReachState {
    /// Leaders that have requests in flight, or failed last.
    leaders: BTreeMap<i32, Leader>,
    /// Lookups of where to begin that wait for their answer. Each is of several leaders.
    lookups: usize,
    /// Beginning of the time for which no leader has answered although there was something to answer.
    unanswered: Option<Failure>,
    /// Beginning of the time for which no assigned partition has a leader.
    leaderless_since: Option<RunInstant>,
    coordinator: Option<Failure>,
}

#[derive(Default)]
struct Leader {
    /// Time of each request that waits for its answer, the oldest first.
    asked: VecDeque<RunInstant>,
    last_request: LastRequest,
}

/// End of a leader's last request.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LastRequest {
    /// Answered, or none was sent yet.
    #[default]
    Answered,
    Failed,
    /// Failed, but the leader has accepted a connection since.
    FailedBeforeConnect,
    /// Failed although the leader had accepted a connection: the next connection proves nothing.
    FailedOnceConnected,
}

impl Leader {
    /// True if the leader has a request that it may still answer in time, and nothing speaks against it.
    fn is_awaited(&self, due: Duration) -> bool {
        let in_time = self.asked.front().is_some_and(|asked| asked.elapsed() <= due + PATIENCE);
        in_time && matches!(self.last_request, LastRequest::Answered | LastRequest::FailedBeforeConnect)
    }
}

impl ReachState {
    fn is_any_awaited(&self, due: Duration) -> bool {
        self.leaders.values().any(|leader| leader.is_awaited(due))
    }

    fn begin_waiting(&mut self) {
        let waits = self.lookups > 0 || self.leaders.values().any(|leader| !leader.asked.is_empty());
        self.unanswered = waits.then(Failure::begins_now);
    }

    fn fail(&mut self, error: String, was_fine: bool) {
        let unanswered = self.unanswered.get_or_insert_with(Failure::begins_now);
        if was_fine {
            unanswered.since = RunInstant::now();
        }
        unanswered.last_error = Some(error);
    }
}

impl Reach {
    fn state(&self) -> MutexGuard<'_, ReachState> {
        lock(&self.0)
    }

    /// A call of a member ended. Another broker that says which one the coordinator is proves nothing about it.
    pub(crate) fn note_coordinator(&self, outcome: &Result<GroupResponse, CallError>) {
        match outcome {
            Ok(GroupResponse::FindCoordinator { code: ErrorCode::None, .. }) | Err(CallError::Never(_)) => {}
            Ok(GroupResponse::FindCoordinator { code, .. }) => {
                self.coordinator_failed(format!("FindCoordinator: {}", code.name()));
            }
            Ok(_) => self.coordinator_answered(),
            Err(CallError::Lost(reason) | CallError::Unsent(reason)) => self.coordinator_failed(reason.clone()),
        }
    }

    /// A leader is asked for records.
    pub(crate) fn asked(&self, node: i32) {
        let mut state = self.state();
        state.leaders.entry(node).or_default().asked.push_back(RunInstant::now());
        state.unanswered.get_or_insert_with(Failure::begins_now);
    }

    /// True if the leader's last request failed, and no connection to it was made since: whoever sends the next request
    /// calls [`Self::connected`] once one is made.
    pub(crate) fn is_connection_awaited(&self, node: i32) -> bool {
        self.state().leaders.get(&node).is_some_and(|leader| leader.last_request == LastRequest::Failed)
    }

    /// A leader that had failed accepts connections again. Its answer may be a long poll's, which takes its time.
    pub(crate) fn connected(&self, node: i32) {
        let mut state = self.state();
        let Some(leader) = state.leaders.get_mut(&node).filter(|leader| leader.last_request == LastRequest::Failed)
        else {
            return;
        };
        leader.last_request = LastRequest::FailedBeforeConnect;
        leader.asked.iter_mut().for_each(|asked| *asked = RunInstant::now());
    }

    /// A leader has answered, whatever it said.
    pub(crate) fn answered(&self, node: i32) {
        let mut state = self.state();
        if let Some(leader) = state.leaders.get_mut(&node) {
            leader.asked.pop_front();
            leader.last_request = LastRequest::Answered;
            if leader.asked.is_empty() {
                state.leaders.remove(&node);
            }
        }
        state.begin_waiting();
    }

    /// A leader has not answered. It may have taken `due` to answer without being at fault.
    pub(crate) fn failed(&self, node: i32, error: String, due: Duration) {
        let mut state = self.state();
        let leader = state.leaders.entry(node).or_default();
        // A long poll that was still in its time when the connection broke.
        let broke_off = leader.last_request == LastRequest::Answered && leader.is_awaited(due);
        leader.asked.pop_front();
        leader.last_request = match leader.last_request {
            LastRequest::Answered | LastRequest::Failed => LastRequest::Failed,
            LastRequest::FailedBeforeConnect | LastRequest::FailedOnceConnected => LastRequest::FailedOnceConnected,
        };
        let was_fine = broke_off || state.is_any_awaited(due);
        state.fail(error, was_fine);
    }

    /// Leaders are asked for where to begin.
    pub(crate) fn lookup_began(&self) {
        let mut state = self.state();
        state.lookups += 1;
        state.unanswered.get_or_insert_with(Failure::begins_now);
    }

    /// One of the leaders has answered a lookup, whatever it said.
    pub(crate) fn lookup_answered(&self) {
        let mut state = self.state();
        state.lookups = state.lookups.saturating_sub(1);
        state.begin_waiting();
    }

    /// No leader has answered a lookup.
    pub(crate) fn lookup_failed(&self, error: String, due: Duration) {
        let mut state = self.state();
        state.lookups = state.lookups.saturating_sub(1);
        let was_fine = state.is_any_awaited(due);
        state.fail(error, was_fine);
    }

    /// Other partitions are read from now on, or paused ones again: what was before says nothing about them.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.state();
        let ReachState { leaders, .. } = &mut *state;
        leaders.retain(|_, leader| !leader.asked.is_empty());
        for leader in leaders.values_mut() {
            leader.last_request = LastRequest::Answered;
            leader.asked.iter_mut().for_each(|asked| *asked = RunInstant::now());
        }
        state.begin_waiting();
        state.leaderless_since = None;
    }

    /// True if partitions are assigned and none of them has a leader.
    pub(crate) fn set_leaderless(&self, leaderless: bool) {
        let mut state = self.state();
        state.leaderless_since = leaderless.then(|| state.leaderless_since.unwrap_or_else(RunInstant::now));
    }

    /// The group's coordinator has answered, whatever it said.
    pub(crate) fn coordinator_answered(&self) {
        self.state().coordinator = None;
    }

    /// The group's coordinator has not answered, or there is none.
    pub(crate) fn coordinator_failed(&self, error: String) {
        let mut state = self.state();
        let failure = state.coordinator.get_or_insert_with(Failure::begins_now);
        failure.last_error = Some(error);
    }

    pub(crate) fn coordinator(&self) -> Option<Failure> {
        self.state().coordinator.clone()
    }

    /// Failure of the leaders: a request to one failed and none was answered since, none has answered for longer than
    /// `due` and a second more, or there is none. They do not fail while one of them may still answer in time, such as
    /// a long poll on an idle topic.
    pub(crate) fn leaders(&self, due: Duration) -> Option<Failure> {
        let state = self.state();
        let is_overdue = |since: RunInstant| since.elapsed() > due + PATIENCE;
        let unanswered = state.unanswered.clone().filter(|_| !state.is_any_awaited(due));
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

    const LONG_POLL: Duration = Duration::from_secs(30);

    fn fails(reach: &Reach) -> bool {
        reach.leaders(LONG_POLL).is_some()
    }

    /// As if everything had happened this much earlier.
    fn pass(reach: &Reach, time: Duration) {
        let mut state = reach.state();
        let earlier = |instant: &mut RunInstant| *instant = instant.checked_sub(time).expect("an earlier instant");
        state.leaders.values_mut().flat_map(|leader| &mut leader.asked).for_each(earlier);
        state.unanswered.iter_mut().for_each(|failure| earlier(&mut failure.since));
    }

    fn refuse(reach: &Reach, node: i32) {
        reach.asked(node);
        reach.failed(node, format!("{node}: connection refused"), LONG_POLL);
    }

    #[test]
    fn one_leader_that_answers_is_enough() {
        let reach = Reach::default();
        reach.asked(1);
        reach.asked(2);
        reach.failed(1, "a:1: connection refused".into(), LONG_POLL);
        reach.answered(2);
        assert!(!fails(&reach));
    }

    #[test]
    fn one_leader_that_may_still_answer_is_enough() {
        for others in [1, 2, 8] {
            let reach = Reach::default();
            (0..=others).for_each(|node| reach.asked(node));
            reach.failed(0, "0: connection reset".into(), LONG_POLL);
            refuse(&reach, 0);
            assert!(!fails(&reach), "{others} other leaders have their long polls");
            pass(&reach, LONG_POLL + PATIENCE);
            assert!(fails(&reach), "the long polls of {others} other leaders are overdue");
        }
    }

    #[test]
    fn the_last_leader_that_fails_begins_the_failure() {
        let reach = Reach::default();
        reach.asked(1);
        reach.asked(2);
        reach.failed(1, "1: connection reset".into(), LONG_POLL);
        pass(&reach, Duration::from_secs(10));
        refuse(&reach, 1);
        assert!(!fails(&reach));
        let before = RunInstant::now();
        reach.failed(2, "2: connection reset".into(), LONG_POLL);
        let since = reach.leaders(LONG_POLL).expect("failed").since;
        assert!(since >= before);
        refuse(&reach, 1);
        reach.asked(2);
        assert_eq!(reach.leaders(LONG_POLL).expect("a leader that is asked again has not answered").since, since);
    }

    #[test]
    fn a_leader_that_is_back_has_the_time_of_its_long_poll() {
        let reach = Reach::default();
        refuse(&reach, 1);
        reach.asked(1);
        assert!(fails(&reach));
        assert!(reach.is_connection_awaited(1));
        pass(&reach, LONG_POLL);
        reach.connected(1);
        assert!(!reach.is_connection_awaited(1));
        assert!(!fails(&reach));
        pass(&reach, LONG_POLL + PATIENCE);
        assert!(fails(&reach), "it is connected, but does not answer");
    }

    #[test]
    fn a_leader_that_accepts_connections_and_breaks_them_fails() {
        let reach = Reach::default();
        refuse(&reach, 1);
        let since = reach.leaders(LONG_POLL).expect("failed").since;
        for _ in 0..3 {
            reach.asked(1);
            reach.connected(1);
            reach.failed(1, "1: connection reset".into(), LONG_POLL);
            assert_eq!(reach.leaders(LONG_POLL).expect("failed").since, since);
        }
        reach.asked(1);
        reach.connected(1);
        assert!(fails(&reach), "its last connection broke too");
        reach.answered(1);
        assert!(!fails(&reach));
    }

    #[test]
    fn leaders_that_do_not_answer_fail_since_they_were_first_asked() {
        let reach = Reach::default();
        reach.lookup_began();
        let since = reach.state().unanswered.clone().expect("asked").since;
        reach.lookup_failed("a:1: connection refused".into(), LONG_POLL);
        reach.lookup_began();
        let failure = reach.leaders(LONG_POLL).expect("failed");
        assert_eq!((failure.since, failure.last_error.as_deref()), (since, Some("a:1: connection refused")));
    }

    #[test]
    fn an_answer_that_is_due_is_waited_for() {
        let reach = Reach::default();
        reach.asked(1);
        assert!(!fails(&reach));
        pass(&reach, LONG_POLL + PATIENCE);
        assert!(fails(&reach));
    }

    #[test]
    fn a_long_poll_that_breaks_off_in_its_time_fails_from_then_on() {
        let reach = Reach::default();
        reach.asked(1);
        pass(&reach, Duration::from_secs(20));
        let before = RunInstant::now();
        reach.failed(1, "a:1: connection reset".into(), LONG_POLL);
        assert!(reach.leaders(LONG_POLL).expect("failed").since >= before);
    }

    #[test]
    fn the_other_leaders_are_judged_from_the_last_answer_on() {
        let reach = Reach::default();
        reach.asked(1);
        reach.asked(2);
        let before = RunInstant::now();
        reach.answered(1);
        let unanswered = reach.state().unanswered.clone();
        assert!(unanswered.is_some_and(|failure| failure.since >= before), "one of them was not answered yet");
    }

    #[test]
    fn what_other_partitions_met_says_nothing() {
        let reach = Reach::default();
        refuse(&reach, 1);
        refuse(&reach, 2);
        reach.asked(2);
        reach.begin_anew();
        assert!(!fails(&reach));
        pass(&reach, LONG_POLL + PATIENCE);
        assert!(fails(&reach));
        reach.answered(2);
        assert!(reach.state().leaders.is_empty());
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
