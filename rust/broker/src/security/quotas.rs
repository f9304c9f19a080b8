//! Client quotas (KIP-546): the values that were set for entities, which are users, client ids, both together, or IP
//! addresses. The module `throttling` applies them.

use std::collections::BTreeMap;

use super::stored::StoredQuota;

/// A part of an entity: its type, and its name or `None` for the default of the type.
pub(crate) type Entity = BTreeMap<String, Option<String>>;

/// The selection of one component of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// This name, or the default.
    Exact(Option<String>),
    /// Any name, and the default.
    Any,
}

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    by_entity: BTreeMap<Entity, BTreeMap<String, f64>>,
    /// True after a change that is not stored yet.
    pub(super) touched: bool,
}

impl Quotas {
    /// Sets quotas of an entity, or removes those that are `None`.
    pub(crate) fn alter(&mut self, entity: Entity, changes: &BTreeMap<String, Option<f64>>) {
        let values = self.by_entity.entry(entity.clone()).or_default();
        for (key, value) in changes {
            match value {
                Some(value) => drop(values.insert(key.clone(), *value)),
                None => drop(values.remove(key)),
            }
        }
        if values.is_empty() {
            self.by_entity.remove(&entity);
        }
        self.touched = true;
    }

    pub(super) fn restore(&mut self, stored: Vec<StoredQuota>) {
        self.by_entity = stored.into_iter().map(|StoredQuota { entity, values }| (entity, values)).collect();
    }

    pub(super) fn to_store(&self) -> Vec<StoredQuota> {
        let stored = |(entity, values): (&Entity, &BTreeMap<String, f64>)| StoredQuota {
            entity: entity.clone(),
            values: values.clone(),
        };
        self.by_entity.iter().map(stored).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_entity.is_empty()
    }

    pub(super) fn value(&self, entity: &Entity, key: &str) -> Option<f64> {
        self.by_entity.get(entity)?.get(key).copied()
    }

    /// The entities that a filter selects, with their quotas. A strict filter selects entities that have no other type
    /// than its own.
    pub(crate) fn select<'a>(
        &'a self,
        filter: &'a BTreeMap<String, Match>,
        strict: bool,
    ) -> impl Iterator<Item = (&'a Entity, &'a BTreeMap<String, f64>)> {
        self.by_entity.iter().filter(move |(entity, _)| {
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
