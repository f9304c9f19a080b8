//! DescribeUserScramCredentials, API key 50, version 0, flexible from 0 (KIP-554).
//!
//! Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.

use crate::wire::api;

api! {
    DescribeUserScramCredentials, versions 0..=0, flexible 0..;

    /// Describes the SCRAM credentials of users.
    request DescribeUserScramCredentialsRequest<'a> {
        /// The users; `None` or empty for all.
        users: Option<Vec<UserName<'a>>>, 0.., nullable 0..;
    }

    /// The credentials, without their secret parts.
    response DescribeUserScramCredentialsResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The top-level error, or 0.
        error_code: i16, 0..;
        /// The top-level error message.
        error_message: Option<&'a str>, 0.., nullable 0..;
        results: Vec<DescribeUserScramCredentialsResult<'a>>, 0..;
    }

    /// A user.
    struct UserName<'a> {
        name: &'a str, 0..;
    }

    /// The credentials of one user.
    struct DescribeUserScramCredentialsResult<'a> {
        /// The name.
        user: &'a str, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        credential_infos: Vec<CredentialInfo<'a>>, 0..;
    }

    /// A credential.
    struct CredentialInfo<'a> {
        mechanism: i8, 0..;
        /// The number of iterations of PBKDF2.
        iterations: i32, 0..;
    }
}
