//! DescribeUserScramCredentials, version 0 (KIP-554): the SCRAM mechanisms of users, with their iterations.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use std::collections::BTreeSet;

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_user_scram_credentials::{
    CredentialInfo, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
};

use super::{Handled, scram_code};
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

type Request<'a> = DescribeUserScramCredentialsRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    core.authorize(call, Operation::Describe, Resource::Cluster)?;
    let asked: Vec<&str> = request.users.iter().flatten().map(|user| user.name).collect();
    let users: BTreeSet<&str> = match asked.is_empty() {
        true => {
            core.security.users().names().filter(|name| !core.security.users().scram_infos(name).is_empty()).collect()
        }
        false => asked.iter().copied().collect(),
    };
    let described: Vec<_> = users.into_iter().map(|user| (user, describe(core, &asked, user))).collect();
    let results = described.iter().map(|(user, described)| match described {
        Ok(infos) => DescribeUserScramCredentialsResult { user, credential_infos: infos.clone(), ..Default::default() },
        Err((error, message)) => DescribeUserScramCredentialsResult {
            user,
            error_code: error.code(),
            error_message: Some(message),
            ..Default::default()
        },
    });
    Ok(call.answer::<Request<'_>>(&DescribeUserScramCredentialsResponse {
        results: results.collect(),
        ..Default::default()
    }))
}

fn describe(core: &Core, asked: &[&str], user: &str) -> Result<Vec<CredentialInfo<'static>>, (ErrorCode, String)> {
    if asked.iter().filter(|name| **name == user).count() > 1 {
        let start = "Cannot describe SCRAM credentials for the same user twice in a single request";
        return Err((ErrorCode::DuplicateResource, format!("{start}: {user}")));
    }
    let infos = core.security.users().scram_infos(user);
    if infos.is_empty() {
        let start = "Attempt to describe a user credential that does not exist";
        return Err((ErrorCode::ResourceNotFound, format!("{start}: {user}")));
    }
    let info = |(hash, iterations)| CredentialInfo {
        mechanism: scram_code(hash),
        iterations: i32::try_from(iterations).unwrap_or(i32::MAX),
        ..Default::default()
    };
    Ok(infos.into_iter().map(info).collect())
}

pub(super) fn refuse<'a>(_request: &Request<'a>, error: ErrorCode) -> DescribeUserScramCredentialsResponse<'a> {
    DescribeUserScramCredentialsResponse {
        error_code: error.code(),
        // Kafka sends no message that only repeats the code.
        error_message: None,
        ..Default::default()
    }
}
