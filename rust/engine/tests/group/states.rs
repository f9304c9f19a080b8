//! Compares docs/design/groups.md, "A member of a group", with the code.

use monedula_engine::group::CallKind;
use monedula_engine::group::classic::{ClassicState, known_errors};

use crate::common::design::Section;

const DESIGN: Section = Section("A member of a group");

#[test]
fn the_table_of_successors_is_that_of_the_code() {
    let names = |state: ClassicState| state.successors().iter().map(|state| state.name()).collect();
    DESIGN.has_successors(ClassicState::ALL.map(|state| (state.name(), names(state))));
}

#[test]
fn every_state_can_be_entered_and_left_and_is_in_the_diagram() {
    for state in ClassicState::ALL {
        assert!(!state.successors().is_empty());
        assert!(
            ClassicState::ALL.iter().any(|other| other.successors().contains(&state)),
            "{state:?} is never entered"
        );
        DESIGN.has_in_its_diagram(state.name());
    }
}

#[test]
fn every_timer_is_in_the_table_of_timers() {
    Section("Timers of a member").has_timers(include_str!("../../src/group/outbox/timers.rs"));
}

#[test]
fn the_table_of_reactions_is_that_of_the_code() {
    DESIGN.has_reactions(CallKind::ALL.map(|kind| (kind.name(), known_errors(kind))));
}
