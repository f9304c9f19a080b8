//! Compares docs/design with the code: the tables and the diagram of a machine's section.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use monedula_protocol::error_code::ErrorCode;

const DESIGN: &str =
    concat!(include_str!("../../../../docs/design/groups.md"), include_str!("../../../../docs/design/transactions.md"));

/// The section of docs/design with this title.
pub(crate) struct Section(pub &'static str);

impl Section {
    fn text(&self) -> &'static str {
        let start = DESIGN.find(&format!("\n## {}\n", self.0)).expect("docs/design has the section");
        let text = &DESIGN[start + 1..];
        &text[..text[3..].find("\n## ").map_or(text.len(), |end| end + 3)]
    }

    /// The rows of the table with this head: the text in the backquotes of the first column, and the second column.
    fn table(&self, head: &str) -> BTreeMap<&'static str, &'static str> {
        let start = self.text().find(head).unwrap_or_else(|| panic!("no table {head}"));
        let rows = self.text()[start..].lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            (cells[0].trim_matches('`'), cells[1])
        })
        .collect()
    }

    /// Checks the table of successors: each state, and the states that may follow it.
    pub(crate) fn has_successors<'s>(&self, code: impl IntoIterator<Item = (&'s str, BTreeSet<&'s str>)>) {
        let names = |names: &'static str| names.split(", ").filter(|name| *name != "nothing").collect();
        let documented = self.table("| State | What may follow |").into_iter();
        let documented: BTreeMap<&str, BTreeSet<&str>> = documented.map(|(state, next)| (state, names(next))).collect();
        assert_eq!(documented, code.into_iter().collect());
    }

    pub(crate) fn has_in_its_diagram(&self, state: &str) {
        let diagram = self.text().split("```").nth(1).expect("a diagram");
        assert!(diagram.contains(state), "{state}");
    }

    /// Checks the table of timers against the enum `Timer` in this source.
    pub(crate) fn has_timers(&self, source: &str) {
        let body = &source[source.find("enum Timer {").expect("there is one")..];
        let body = &body[..body.find('}').expect("it ends")];
        let variants = body.lines().map(str::trim).filter(|line| line.ends_with(',') && !line.starts_with("//"));
        let names: BTreeSet<&str> = variants.map(|line| line.trim_end_matches(',')).collect();
        assert_eq!(self.table("| Timer | When it is due |").into_keys().collect::<BTreeSet<_>>(), names);
    }

    /// Checks the table of reactions against the code: the name of each call with the errors that it knows.
    pub(crate) fn has_reactions<'t, R: Debug + 't>(
        &self,
        known_errors: impl IntoIterator<Item = (&'static str, &'t [(ErrorCode, R)])>,
    ) {
        let mut code: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (api, errors) in known_errors {
            for (error, reaction) in errors {
                code.entry(format!("{api}: {reaction:?}")).or_default().push(error.name());
            }
        }
        let code: BTreeMap<&str, String> = code.iter().map(|(row, errors)| (&**row, errors.join(", "))).collect();
        let documented = self.table("| Call: reaction | Errors |").into_iter();
        assert_eq!(documented.map(|(row, errors)| (row, errors.to_owned())).collect::<BTreeMap<_, _>>(), code);
    }
}
