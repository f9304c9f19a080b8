//! The search that the model checks of both kinds of group share.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::planted::{Bug, PLANTED};

/// One state of a model: a group and the processes of its members.
pub(super) trait Model: Clone {
    /// A step that the model can take.
    type Action: Clone + Debug;
    /// The key that tells two states apart. States with equal keys behave alike, and only one of them is searched.
    type Key: Eq + Hash;

    fn actions(&self) -> Vec<Self::Action>;

    /// # Errors
    /// The invariant that does not hold afterwards.
    fn step(&mut self, action: &Self::Action) -> Result<(), String>;

    /// Checks that the group becomes stable if no further fault happens. `settling` collects the keys of the states
    /// that are known to.
    ///
    /// # Errors
    /// The state in which the group is stuck.
    fn converges(&self, settling: &mut HashSet<Self::Key>) -> Result<(), String>;

    fn key(&self) -> Self::Key;

    /// True if the search goes on from this state.
    fn is_within_bounds(&self) -> bool {
        true
    }
}

/// Searches breadth first through at most `limit` states. Returns how many states it saw, and whether these were all.
///
/// # Errors
/// The invariant that did not hold, and the actions that lead there.
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

/// Asserts that the search fails with each of these bugs planted.
pub(super) fn assert_found(bugs: &[Bug], search: impl Fn() -> Result<(usize, bool), String>) {
    for &bug in bugs {
        PLANTED.set(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(&search));
        PLANTED.set(None);
        if let Ok(Err(problem)) = &found {
            println!("{bug:?}: {problem}");
        }
        // A panic counts as found: some bugs violate an assertion of the group itself.
        let missed = matches!(found, Ok(Ok(_)));
        assert!(!missed, "{bug:?} is not found");
    }
}
