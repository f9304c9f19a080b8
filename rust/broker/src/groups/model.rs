//! The search that the model checks of both kinds of group share.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::planted::{Bug, PLANTED};

/// A group and its members' processes, in one state of many.
pub(super) trait Model: Clone {
    /// What can happen next.
    type Action: Clone + Debug;
    /// The state without what does not matter.
    type Key: Eq + Hash;

    fn actions(&self) -> Vec<Self::Action>;

    /// # Errors
    /// What does not hold afterwards.
    fn step(&mut self, action: &Self::Action) -> Result<(), String>;

    /// Whether the group settles when nothing goes wrong any more. `settling` is for states of which that is known.
    ///
    /// # Errors
    /// Where it does not.
    fn converges(&self, settling: &mut HashSet<Self::Key>) -> Result<(), String>;

    fn key(&self) -> Self::Key;

    /// Whether the search goes on from here.
    fn is_within_bounds(&self) -> bool {
        true
    }
}

/// Searches breadth first, through so many states at most. How many were seen, and whether those were all.
///
/// # Errors
/// What did not hold, and the way there.
pub(super) fn search<M: Model>(first: M, limit: usize) -> Result<(usize, bool), String> {
    let mut seen = HashSet::from([first.key()]);
    let mut settling = HashSet::new();
    let mut queue = VecDeque::from([(first, Vec::new())]);
    let told = |path: &[M::Action], problem: String| format!("{problem}\nafter {path:?}");
    while let Some((world, path)) = queue.pop_front() {
        world.converges(&mut settling).map_err(|problem| told(&path, format!("without more faults: {problem}")))?;
        if !world.is_within_bounds() {
            continue;
        }
        for action in world.actions() {
            let mut next = world.clone();
            let mut longer = path.clone();
            longer.push(action.clone());
            next.step(&action).map_err(|problem| told(&longer, problem))?;
            if seen.len() >= limit {
                return Ok((seen.len(), false));
            }
            if seen.insert(next.key()) {
                queue.push_back((next, longer));
            }
        }
    }
    Ok((seen.len(), true))
}

/// Each of these bugs, planted, must make the search fail.
pub(super) fn assert_found(bugs: &[Bug], search: impl Fn() -> Result<(usize, bool), String>) {
    for &bug in bugs {
        PLANTED.set(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(&search));
        PLANTED.set(None);
        if let Ok(Err(problem)) = &found {
            println!("{bug:?}: {problem}");
        }
        // Some are seen by the machine's own assertion.
        let missed = matches!(found, Ok(Ok(_)));
        assert!(!missed, "{bug:?} is not found");
    }
}
