//! AlterUserScramCredentials, version 0 (KIP-554): sets and deletes SCRAM credentials. The client does not send the
//! password, but the salted password that PBKDF2 derives from it.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeMap;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
};
use monedula_protocol::sasl::scram::{MIN_ITERATIONS, ScramCredential, ScramHash};

use super::{ApiError, Handled, scram_hash};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

type Request<'a> = AlterUserScramCredentialsRequest<'a>;

/// The most iterations that Kafka's controller takes.
const MAX_ITERATIONS: u32 = 16384;

enum ScramChange {
    Delete(ScramHash),
    Set(ScramHash, ScramCredential),
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Alter, Resource::Cluster)?;
    // A user who is named twice is refused; other users are not affected.
    let mut changes: BTreeMap<&str, Result<ScramChange, ApiError>> = BTreeMap::new();
    let twice = "A user credential cannot be altered twice in the same request";
    let mut add = |name, change| match changes.get(name) {
        None => drop(changes.insert(name, change)),
        Some(Ok(_)) => drop(changes.insert(name, Err(ApiError::new(ErrorCode::DuplicateResource, twice)))),
        // The first error of a user stays.
        Some(Err(_)) => {}
    };
    for deletion in &request.deletions {
        add(deletion.name, delete(core, deletion.name, deletion.mechanism));
    }
    for upsertion in &request.upsertions {
        add(upsertion.name, upsert(upsertion));
    }
    let mut outcomes = Vec::with_capacity(changes.len());
    for (name, change) in changes {
        let users = core.security.users_mut();
        outcomes.push((
            name,
            change.map(|change| match change {
                ScramChange::Delete(hash) => users.remove_scram(name, hash),
                ScramChange::Set(hash, credential) => users.set_scram(name, hash, credential),
            }),
        ));
    }
    let results = outcomes.iter().map(|(user, outcome)| AlterUserScramCredentialsResult {
        user,
        error_code: outcome.as_ref().err().map_or(0, |error| error.code.code()),
        error_message: outcome.as_ref().err().and_then(|error| error.message.as_deref()),
        ..Default::default()
    });
    let response = AlterUserScramCredentialsResponse { results: results.collect(), ..Default::default() };
    Ok(call.answer::<Request<'_>>(&response))
}

/// Kafka's checks of a user's name and of the mechanism.
fn check(name: &str, mechanism: i8) -> Result<ScramHash, ApiError> {
    if name.is_empty() {
        return Err(ApiError::new(ErrorCode::UnacceptableCredential, "Username must not be empty"));
    }
    let unknown = || ApiError::new(ErrorCode::UnsupportedSaslMechanism, "Unknown SCRAM mechanism");
    scram_hash(mechanism).ok_or_else(unknown)
}

fn delete(core: &Core, name: &str, mechanism: i8) -> Result<ScramChange, ApiError> {
    let hash = check(name, mechanism)?;
    let infos = core.security.users().scram_infos(name);
    if !infos.iter().any(|(has, _)| *has == hash) {
        let message = "Attempt to delete a user credential that does not exist";
        return Err(ApiError::new(ErrorCode::ResourceNotFound, message));
    }
    Ok(ScramChange::Delete(hash))
}

fn upsert(upsertion: &ScramCredentialUpsertion<'_>) -> Result<ScramChange, ApiError> {
    let hash = check(upsertion.name, upsertion.mechanism)?;
    let unacceptable = |message: &str| ApiError::new(ErrorCode::UnacceptableCredential, message);
    let iterations = u32::try_from(upsertion.iterations).unwrap_or_default();
    if iterations < MIN_ITERATIONS {
        return Err(unacceptable("Too few iterations"));
    }
    if iterations > MAX_ITERATIONS {
        return Err(unacceptable("Too many iterations"));
    }
    let (salted, salt) = (upsertion.salted_password.expose(), upsertion.salt.expose());
    Ok(ScramChange::Set(hash, ScramCredential::from_salted(hash, salted, salt, iterations)))
}

pub(super) fn refuse<'a>(request: &Request<'a>, error: ErrorCode) -> AlterUserScramCredentialsResponse<'a> {
    let deleted = request.deletions.iter().map(|deletion| deletion.name);
    let names = deleted.chain(request.upsertions.iter().map(|upsertion| upsertion.name));
    let result = |user| AlterUserScramCredentialsResult {
        user,
        error_code: error.code(),
        error_message: Some(error.message()),
        ..Default::default()
    };
    AlterUserScramCredentialsResponse { results: names.map(result).collect(), ..Default::default() }
}
