//! Compares docs/design/groups.md, "A member under KIP-848", with the code.

use monedula_engine::group::CallKind;
use monedula_engine::group::consumer::{ConsumerState, api, known_errors};

use crate::common::design::Section;

const DESIGN: Section = Section("A member under KIP-848");

#[test]
fn the_table_of_successors_is_that_of_the_code() {
    let names = |state: ConsumerState| state.successors().iter().map(|state| state.name()).collect();
    DESIGN.has_successors(ConsumerState::ALL.map(|state| (state.name(), names(state))));
}

#[test]
fn every_state_can_be_entered_and_left_and_is_in_the_diagram() {
    for state in ConsumerState::ALL {
        assert!(!state.successors().is_empty());
        assert!(
            ConsumerState::ALL.iter().any(|other| other.successors().contains(&state)),
            "{state:?} is never entered"
        );
        DESIGN.has_in_its_diagram(state.name());
    }
}

#[test]
fn the_table_of_reactions_is_that_of_the_code() {
    DESIGN.has_reactions(CallKind::ALL.map(|kind| (api(kind), known_errors(kind))));
}
