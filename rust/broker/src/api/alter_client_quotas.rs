//! AlterClientQuotas, versions 0-1 (KIP-546): sets and removes quotas of entities.
//!
//! Not implemented: throttling by other quotas than `producer_byte_rate` and `consumer_byte_rate`.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::java;
use monedula_protocol::messages::alter_client_quotas::{
    AlterClientQuotasEntity, AlterClientQuotasEntry, AlterClientQuotasEntryResponse, AlterClientQuotasRequest,
    AlterClientQuotasResponse,
};

use super::altering::invalid;
use super::{ApiError, Handled};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Entity, Operation, Resource};

type Request<'a> = AlterClientQuotasRequest<'a>;

/// Types of entities.
pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// The quotas of users and client ids, each with whether its value is a whole number.
const OF_CLIENTS: &[(&str, bool)] = &[
    ("producer_byte_rate", true),
    ("consumer_byte_rate", true),
    ("request_percentage", false),
    ("controller_mutation_rate", false),
];
/// The quota of an IP address.
const OF_ADDRESSES: &[(&str, bool)] = &[("connection_creation_rate", true)];

type Changes = BTreeMap<String, Option<f64>>;
/// The type and the name of a part of an entity.
type Named<'a> = (&'a str, Option<&'a str>);
/// An entity, and why it could not be altered.
type AlteredEntity<'a> = (Vec<Named<'a>>, Option<ApiError>);

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::AlterConfigs, Resource::Cluster)?;
    let mut outcomes: Vec<AlteredEntity<'_>> = Vec::with_capacity(request.entries.len());
    for entry in &request.entries {
        let outcome = check(entry).map(|(entity, changes)| {
            if !request.validate_only {
                core.security.quotas_mut().alter(entity, &changes);
            }
        });
        let named = named(&entry.entity);
        // An entity that is named twice is altered twice and answered once, with the last outcome.
        match outcomes.iter_mut().find(|(other, _)| *other == named) {
            Some(known) => known.1 = outcome.err(),
            None => outcomes.push((named, outcome.err())),
        }
    }
    java::in_order_of_hashes(&mut outcomes, |(named, _)| {
        // ClientQuotaEntity hashes as `Objects.hash` of its map.
        java::map_hash(named.iter().copied()).wrapping_add(31)
    });
    let entries = outcomes.iter().map(|(named, error)| AlterClientQuotasEntryResponse {
        error_code: error.as_ref().map_or(0, |error| error.code.code()),
        error_message: error.as_ref().and_then(|error| error.message.as_deref()),
        entity: named.iter().map(part).collect(),
        ..Default::default()
    });
    Ok(call.answer::<Request<'_>>(&AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }))
}

/// The types and names of an entity's parts, each type once, in the order of the map in which Kafka keeps them.
fn named<'a>(parts: &[AlterClientQuotasEntity<'a>]) -> Vec<Named<'a>> {
    let parts: BTreeMap<&str, Option<&str>> = parts.iter().map(|part| (part.entity_type, part.entity_name)).collect();
    let mut named: Vec<Named<'_>> = parts.into_iter().collect();
    java::in_hash_order(&mut named, |(kind, _)| kind);
    named
}

fn part<'a>(&(entity_type, entity_name): &Named<'a>) -> AlterClientQuotasEntity<'a> {
    AlterClientQuotasEntity { entity_type, entity_name, ..Default::default() }
}

fn check(entry: &AlterClientQuotasEntry<'_>) -> Result<(Entity, Changes), ApiError> {
    let entity = entity(&entry.entity)?;
    let known = if entity.contains_key(IP) { OF_ADDRESSES } else { OF_CLIENTS };
    let mut changes = Changes::new();
    for op in &entry.ops {
        let value = (!op.remove).then_some(op.value);
        if changes.insert(op.key.to_owned(), value).is_some() {
            return Err(invalid(format!("Duplicate quota key {} not updating quota for this entity", op.key)));
        }
        if let Some(value) = value {
            check_value(known, op.key, value)?;
        }
    }
    Ok((entity, changes))
}

fn entity(parts: &[AlterClientQuotasEntity<'_>]) -> Result<Entity, ApiError> {
    if parts.is_empty() {
        return Err(invalid("Invalid empty client quota entity"));
    }
    let mut entity = Entity::new();
    for part in parts {
        if ![USER, CLIENT_ID, IP].contains(&part.entity_type) {
            return Err(invalid(format!("Unhandled client quota entity type: {}", part.entity_type)));
        }
        if part.entity_name.is_some_and(str::is_empty) {
            return Err(invalid(format!("Empty {} not supported", part.entity_type)));
        }
        let name = part.entity_name.map(str::to_owned);
        if entity.insert(part.entity_type.to_owned(), name).is_some() {
            return Err(invalid(format!("Invalid client quota entity, duplicate entity entry {}", part.entity_type)));
        }
    }
    if entity.contains_key(IP) && entity.len() > 1 {
        let message = "Invalid quota entity combination, IP entity should not be combined with User or ClientId";
        return Err(invalid(message));
    }
    // Kafka resolves host names; here only addresses are taken, so that no name server is asked.
    match entity.get(IP) {
        Some(Some(address)) if address.parse::<std::net::IpAddr>().is_err() && address != "localhost" => {
            Err(invalid(format!("{address} is not a valid IP or resolvable host.")))
        }
        _ => Ok(entity),
    }
}

fn check_value(known: &[(&str, bool)], key: &str, value: f64) -> Result<(), ApiError> {
    let Some(&(_, is_whole)) = known.iter().find(|(name, _)| *name == key) else {
        return Err(invalid(format!("Invalid configuration key {key}")));
    };
    if value <= 0.0 {
        return Err(invalid(format!("Quota {key} must be greater than 0")));
    }
    let largest = if key == "connection_creation_rate" { f64::from(i32::MAX) } else { i64::MAX as f64 };
    if is_whole && value > largest {
        return Err(invalid(format!("Proposed value for {key} is too large.")));
    }
    if is_whole && (value % 1.0).abs() > 1e-6 {
        return Err(invalid(format!("{key} cannot be a fractional value.")));
    }
    Ok(())
}

pub(super) fn refuse<'a>(request: &Request<'a>, error: ErrorCode) -> AlterClientQuotasResponse<'a> {
    let entries = request.entries.iter().map(|entry| AlterClientQuotasEntryResponse {
        error_code: error.code(),
        error_message: Some(error.message()),
        entity: entry.entity.clone(),
        ..Default::default()
    });
    AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }
}
