//! DESIGN.md, "A member under KIP-848", against the code.

use std::collections::{BTreeMap, BTreeSet};

use monedula_engine::membership::{REACTIONS, State};

const DESIGN: &str = include_str!("../../../../DESIGN.md");

fn section() -> &'static str {
    let start = DESIGN.find("\n## A member under KIP-848\n").expect("DESIGN.md has the section");
    let text = &DESIGN[start + 1..];
    &text[..text[3..].find("\n## ").map_or(text.len(), |end| end + 3)]
}

/// The rows of the table with this head: what is in the first column's backquotes, and the second column.
fn table(head: &str) -> BTreeMap<String, String> {
    let start = section().find(head).unwrap_or_else(|| panic!("no table {head}"));
    let rows = section()[start..].lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].trim_matches('`').to_owned(), cells[1].to_owned())
    })
    .collect()
}

#[test]
fn the_table_of_successors_is_that_of_the_code() {
    let documented = table("| State | What may follow |");
    assert_eq!(documented.len(), State::ALL.len());
    for state in State::ALL {
        let names: BTreeSet<&str> = documented[state.name()].split(", ").collect();
        let code: BTreeSet<&str> = state.successors().iter().map(|state| state.name()).collect();
        assert_eq!(names, code, "after {}", state.name());
    }
}

#[test]
fn every_state_can_be_entered_and_left_and_is_in_the_diagram() {
    for state in State::ALL {
        assert!(!state.successors().is_empty());
        assert!(State::ALL.iter().any(|other| other.successors().contains(&state)), "{state:?} is never entered");
        let diagram = section().split("```").nth(1).expect("a diagram");
        assert!(diagram.contains(state.name()), "{state:?}");
    }
}

#[test]
fn every_timer_is_in_the_table_of_timers() {
    let source = include_str!("../../src/membership/timers.rs");
    let body = &source[source.find("enum Timer {").expect("there is one")..];
    let body = &body[..body.find('}').expect("it ends")];
    let names: BTreeSet<String> = body
        .lines()
        .map(str::trim)
        .filter(|line| line.ends_with(',') && !line.starts_with("//"))
        .map(|line| line.trim_end_matches(',').to_owned())
        .collect();
    assert_eq!(table("| Timer | When it is due |").into_keys().collect::<BTreeSet<_>>(), names);
}

#[test]
fn the_table_of_reactions_is_that_of_the_code() {
    let mut code: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (api, errors) in REACTIONS {
        for (error, reaction) in *errors {
            code.entry(format!("{api}: {reaction:?}")).or_default().push(error.name());
        }
    }
    let code: BTreeMap<String, String> = code.into_iter().map(|(row, errors)| (row, errors.join(", "))).collect();
    assert_eq!(table("| Call: reaction | Errors |"), code);
}
