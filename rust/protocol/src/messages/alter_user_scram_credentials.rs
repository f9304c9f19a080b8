//! AlterUserScramCredentials, API key 51, version 0, flexible from 0 (KIP-554).
//!
//! Mechanisms are those of DescribeUserScramCredentials.

use crate::types::SecretBytes;
use crate::wire::api;

api! {
    AlterUserScramCredentials, versions 0..=0, flexible 0..;

    /// Sets and deletes SCRAM credentials of users.
    request AlterUserScramCredentialsRequest<'a> {
        /// The credentials to delete.
        deletions: Vec<ScramCredentialDeletion<'a>>, 0..;
        /// The credentials to create or replace.
        upsertions: Vec<ScramCredentialUpsertion<'a>>, 0..;
    }

    /// The result for each user.
    response AlterUserScramCredentialsResponse<'a> {
        throttle_time_ms: i32, 0..;
        results: Vec<AlterUserScramCredentialsResult<'a>>, 0..;
    }

    /// A credential to delete.
    struct ScramCredentialDeletion<'a> {
        /// The user.
        name: &'a str, 0..;
        mechanism: i8, 0..;
    }

    /// A credential to create or replace.
    struct ScramCredentialUpsertion<'a> {
        /// The user.
        name: &'a str, 0..;
        mechanism: i8, 0..;
        /// The number of iterations of PBKDF2.
        iterations: i32, 0..;
        salt: SecretBytes<'a>, 0..;
        /// The password after salt and iterations: `SaltedPassword` of RFC 5802.
        salted_password: SecretBytes<'a>, 0..;
    }

    /// The result for one user.
    struct AlterUserScramCredentialsResult<'a> {
        user: &'a str, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
    }
}
