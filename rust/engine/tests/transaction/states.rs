//! Compares docs/design/transactions.md, "A producer's transactions", with the code.

use monedula_engine::transaction::{SessionState, known_errors};

use crate::common::design::Section;
use crate::error_codes::{APIS, pending};

const DESIGN: Section = Section("A producer's transactions");

#[test]
fn the_table_of_successors_is_that_of_the_code() {
    let names = |state: SessionState| state.successors().iter().map(|state| state.name()).collect();
    DESIGN.has_successors(SessionState::ALL.map(|state| (state.name(), names(state))));
}

#[test]
fn the_table_of_reactions_is_that_of_the_code() {
    DESIGN.has_reactions(APIS.map(|api| (api, known_errors(&pending(api).calls[0].2))));
}
