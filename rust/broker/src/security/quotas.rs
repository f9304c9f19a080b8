//! Client quotas (KIP-546): the values that were set for entities, which are users, client ids, both together, or IP
//! addresses.
//!
//! Not implemented: throttling by quotas. A fault can throttle.

use std::collections::BTreeMap;

/// A part of an entity: its type, and its name or `None` for the default of the type.
pub(crate) type Entity = BTreeMap<String, Option<String>>;

/// What one component of a filter selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// This name, or the default.
    Exact(Option<String>),
    /// Any name, and the default.
    Any,
}

/// All quotas. They are kept in memory only.
#[derive(Debug, Default)]
pub(crate) struct Quotas(BTreeMap<Entity, BTreeMap<String, f64>>);

impl Quotas {
    /// Sets quotas of an entity, or removes those that are `None`.
    pub(crate) fn alter(&mut self, entity: Entity, changes: &BTreeMap<String, Option<f64>>) {
        let values = self.0.entry(entity.clone()).or_default();
        for (key, value) in changes {
            match value {
                Some(value) => drop(values.insert(key.clone(), *value)),
                None => drop(values.remove(key)),
            }
        }
        if values.is_empty() {
            self.0.remove(&entity);
        }
    }

    /// The entities that a filter selects, with their quotas. A strict filter selects entities that have no other type
    /// than its own.
    pub(crate) fn select<'a>(
        &'a self,
        filter: &'a BTreeMap<String, Match>,
        strict: bool,
    ) -> impl Iterator<Item = (&'a Entity, &'a BTreeMap<String, f64>)> {
        self.0.iter().filter(move |(entity, _)| {
            let matches = |(kind, wanted): (&String, &Match)| match (entity.get(kind), wanted) {
                (Some(_), Match::Any) => true,
                (Some(name), Match::Exact(wanted)) => name == wanted,
                (None, _) => false,
            };
            filter.iter().all(matches) && (!strict || entity.len() == filter.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(parts: &[(&str, Option<&str>)]) -> Entity {
        parts.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect()
    }

    fn quotas() -> Quotas {
        let mut quotas = Quotas::default();
        let rate: BTreeMap<_, _> = [("producer_byte_rate".to_owned(), Some(10.0))].into();
        quotas.alter(entity(&[("user", Some("anna"))]), &rate);
        quotas.alter(entity(&[("user", None)]), &rate);
        quotas.alter(entity(&[("user", Some("anna")), ("client-id", Some("etl"))]), &rate);
        quotas
    }

    fn count(quotas: &Quotas, wanted: Match, strict: bool) -> usize {
        quotas.select(&[("user".to_owned(), wanted)].into(), strict).count()
    }

    #[test]
    fn a_filter_selects_entities() {
        let quotas = quotas();
        assert_eq!(count(&quotas, Match::Any, false), 3);
        assert_eq!(count(&quotas, Match::Any, true), 2);
        assert_eq!(count(&quotas, Match::Exact(Some("anna".to_owned())), false), 2);
        assert_eq!(count(&quotas, Match::Exact(None), false), 1);
        assert_eq!(quotas.select(&BTreeMap::new(), false).count(), 3);
        assert_eq!(quotas.select(&BTreeMap::new(), true).count(), 0);
    }

    #[test]
    fn an_entity_without_quotas_is_gone() {
        let mut quotas = quotas();
        let removed: BTreeMap<_, _> = [("producer_byte_rate".to_owned(), None)].into();
        quotas.alter(entity(&[("user", None)]), &removed);
        assert_eq!(count(&quotas, Match::Exact(None), false), 0);
    }
}
