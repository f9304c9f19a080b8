//! Compares docs/design/groups.md, "A member of a share group", with the code.

use monedula_engine::group::CallKind;
use monedula_engine::group::share::{ShareState, api, known_errors};

use crate::common::design::Section;

const DESIGN: Section = Section("A member of a share group");

#[test]
fn the_table_of_successors_is_that_of_the_code() {
    let names = |state: ShareState| state.successors().iter().map(|state| state.name()).collect();
    DESIGN.has_successors(ShareState::ALL.map(|state| (state.name(), names(state))));
}

#[test]
fn the_table_of_reactions_is_that_of_the_code() {
    DESIGN.has_reactions(CallKind::ALL.map(|kind| (api(kind), known_errors(kind))));
}
