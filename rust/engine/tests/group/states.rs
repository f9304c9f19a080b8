//! Compares docs/design/groups.md, "A member of a group", with the code.

use monedula_engine::group::classic::{ClassicState, known_errors};

use crate::common::design::{CALL_KINDS, Section, states};

const DESIGN: Section = Section("A member of a group");

#[test]
fn the_table_of_successors_is_that_of_the_code() {
    let names = |state: ClassicState| state.successors().iter().map(|state| state.name()).collect();
    DESIGN.has_successors(
        states(ClassicState::Unsubscribed, ClassicState::successors)
            .into_iter()
            .map(|state| (state.name(), names(state))),
    );
}

#[test]
fn every_state_can_be_left_and_is_in_the_diagram() {
    for state in states(ClassicState::Unsubscribed, ClassicState::successors) {
        assert!(!state.successors().is_empty());
        DESIGN.has_in_its_diagram(state.name());
    }
}

#[test]
fn every_timer_is_in_the_table_of_timers() {
    Section("Timers of a member").has_timers(include_str!("../../src/group/timers.rs"));
}

#[test]
fn the_table_of_reactions_is_that_of_the_code() {
    DESIGN.has_reactions(CALL_KINDS.map(|kind| (kind.api(), known_errors(kind))));
}
