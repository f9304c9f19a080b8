//! SCRAM credentials of users (KIP-554). The client salts and hashes a password; it never sends the password itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use monedula_protocol::messages::describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResult, UserName,
};
use monedula_protocol::sasl::scram::{MAX_ITERATIONS, ScramHash};
use monedula_protocol::secret::Secret;
use monedula_protocol::types::SecretBytes;

use super::call::{AdminCall, Answers, CallResult, ItemCall, Items, Recipient, Refusal, read, refused};
use super::words::words;
use super::{Admin, AdminContext};
use crate::blocking;
use crate::coordinator::Failure;
use crate::error::ClientError;
use crate::net::network::NodeId;

words! {
    /// A SCRAM mechanism, by Kafka's number.
    ScramMechanism, "SCRAM mechanism" {
        1 = "SCRAM-SHA-256", 2 = "SCRAM-SHA-512",
    }
}

/// A credential of a user, without what could be used to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScramCredentialInfo {
    /// The mechanism.
    pub mechanism: ScramMechanism,
    /// The number of iterations.
    pub iterations: i32,
}

/// The change of one credential of a user.
#[derive(Clone, Debug)]
pub enum ScramAlteration {
    /// Sets a password.
    Upsert {
        /// The number of iterations; Kafka takes 4096 to 16384.
        iterations: u32,
        /// The salt: random bytes, for each password others.
        salt: Vec<u8>,
        /// The password.
        password: Secret,
    },
    /// Deletes the credential.
    Delete,
}

/// A credential: the name of a user, and the mechanism.
pub type UserMechanism = (String, ScramMechanism);

impl Admin {
    /// Describes the SCRAM credentials of these users, or of all that have some.
    pub fn describe_user_scram_credentials(
        &self,
        users: Option<Vec<String>>,
        timeout: Duration,
    ) -> AdminCall<Items<String, Vec<ScramCredentialInfo>>> {
        self.until_closed(move |context| async move {
            let Some(users) = users else {
                let described = context.run_one(DescribeAll, (), timeout).await?;
                let outcome = |(user, answer): (String, Result<_, Refusal>)| {
                    let answer = answer.map_err(|refusal| refused(&Describe, &user, refusal));
                    (user, answer)
                };
                return Ok(described.into_iter().map(outcome).collect());
            };
            context.run(Describe, users, timeout).await
        })
    }

    /// Changes the SCRAM credentials of users, each by user and mechanism. The passwords are salted and hashed before,
    /// on a thread of their own.
    pub fn alter_user_scram_credentials(
        &self,
        alterations: Vec<(UserMechanism, ScramAlteration)>,
        timeout: Duration,
    ) -> AdminCall<Items<UserMechanism, ()>> {
        self.until_closed(move |context| async move {
            let started = Instant::now();
            let salting = blocking::run(move || salted(alterations));
            let changes = match tokio::time::timeout(timeout, salting).await {
                Ok(Ok(changes)) => changes?,
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => {
                    let what = "salting and hashing passwords".into();
                    return Err(ClientError::TimedOut { what, after: timeout, last_error: None });
                }
            };
            let credentials: Vec<UserMechanism> = changes.keys().cloned().collect();
            context.run(Alter { changes }, credentials, timeout.saturating_sub(started.elapsed())).await
        })
    }
}

/// A change, ready to be sent.
enum Salted {
    Upsert { iterations: i32, salt: Vec<u8>, salted_password: Secret },
    Delete,
}

type Changes = BTreeMap<UserMechanism, Salted>;

fn salted(alterations: Vec<(UserMechanism, ScramAlteration)>) -> Result<Changes, ClientError> {
    let mut changes = Changes::new();
    for ((user, mechanism), alteration) in alterations {
        let salted = match alteration {
            ScramAlteration::Delete => Salted::Delete,
            ScramAlteration::Upsert { iterations, salt, password } => {
                let salted_password = salted_password(mechanism, iterations, &salt, &password)?;
                // Iterations are at most a million, as checked.
                Salted::Upsert { iterations: iterations as i32, salt, salted_password }
            }
        };
        changes.insert((user, mechanism), salted);
    }
    Ok(changes)
}

fn salted_password(
    mechanism: ScramMechanism,
    iterations: u32,
    salt: &[u8],
    password: &Secret,
) -> Result<Secret, ClientError> {
    let hash = match mechanism.0 {
        1 => ScramHash::Sha256,
        2 => ScramHash::Sha512,
        _ => return Err(ClientError::Argument(format!("passwords of {mechanism} cannot be made by this client"))),
    };
    if !(1..=MAX_ITERATIONS).contains(&iterations) {
        let message = format!("{iterations} iterations of a SCRAM credential: Kafka takes 4096 to 16384");
        return Err(ClientError::Argument(message));
    }
    Ok(Secret::new(hash.salted_password(password.expose(), salt, iterations).as_slice()))
}

struct Describe;

impl Describe {
    async fn ask_for(
        context: &AdminContext,
        node: NodeId,
        users: &[String],
    ) -> Result<Result<Answers<String, Vec<ScramCredentialInfo>>, Refusal>, Failure> {
        let name = |name| UserName { name, ..Default::default() };
        let build = |_| DescribeUserScramCredentialsRequest {
            // Users are named, and not null for all: a broker (4.4 too) that denies such a request does not answer it.
            users: Some(users.iter().map(String::as_str).map(name).collect()),
            ..Default::default()
        };
        let (frame, version) = context.call(node, DescribeUserScramCredentialsRequest::VERSIONS, build).await?;
        let response = read::<DescribeUserScramCredentialsRequest<'_>>(&frame, version)?;
        let refusal = Refusal::check(response.error_code, response.error_message);
        Ok(refusal.map(|()| response.results.iter().map(described).collect()))
    }
}

fn described(result: &DescribeUserScramCredentialsResult<'_>) -> (String, Result<Vec<ScramCredentialInfo>, Refusal>) {
    let infos = result
        .credential_infos
        .iter()
        .map(|info| ScramCredentialInfo { mechanism: ScramMechanism(info.mechanism), iterations: info.iterations });
    let outcome = Refusal::check(result.error_code, result.error_message);
    (result.user.to_owned(), outcome.map(|()| infos.collect()))
}

impl ItemCall for Describe {
    type Key = String;
    type Value = Vec<ScramCredentialInfo>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, user: &String) -> String {
        format!("describing the SCRAM credentials of user {user}")
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, users: &[String]) -> CallResult<Self> {
        let described = Self::ask_for(context, node, users).await?;
        Ok(described.unwrap_or_else(|refusal| super::call::refuse_all(users, &refusal)))
    }
}

struct DescribeAll;

impl ItemCall for DescribeAll {
    type Key = ();
    type Value = Answers<String, Vec<ScramCredentialInfo>>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, (): &()) -> String {
        "describing the SCRAM credentials of all users".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        Ok(vec![((), Describe::ask_for(context, node, &[]).await?)])
    }
}

struct Alter {
    changes: Changes,
}

impl ItemCall for Alter {
    type Key = UserMechanism;
    type Value = ();
    const RECIPIENT: Recipient = Recipient::Controller;

    fn what(&self, (user, mechanism): &UserMechanism) -> String {
        format!("changing the {mechanism} credential of user {user}")
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, credentials: &[UserMechanism]) -> CallResult<Self> {
        let mut answers = Answers::new();
        for credentials in rounds(credentials) {
            let build = |_| self.request(&credentials);
            let (frame, version) = context.call(node, AlterUserScramCredentialsRequest::VERSIONS, build).await?;
            let response = read::<AlterUserScramCredentialsRequest<'_>>(&frame, version)?;
            answers.extend(response.results.iter().filter_map(|answer| {
                let mut asked = credentials.iter();
                let credential = asked.find(|(user, _)| user == answer.user)?;
                Some(((*credential).clone(), Refusal::check(answer.error_code, answer.error_message)))
            }));
        }
        Ok(answers)
    }

    fn settle(&self, refusal: Refusal, lost: bool) -> Result<(), Refusal> {
        match refusal.code {
            // The attempt whose answer was lost deleted it.
            ErrorCode::ResourceNotFound if lost => Ok(()),
            _ => Err(refusal),
        }
    }
}

impl Alter {
    fn request<'a>(&'a self, credentials: &[&'a UserMechanism]) -> AlterUserScramCredentialsRequest<'a> {
        let mut request = AlterUserScramCredentialsRequest::default();
        for credential in credentials {
            let (name, mechanism) = (credential.0.as_str(), credential.1.0);
            match self.changes.get(credential) {
                Some(Salted::Upsert { iterations, salt, salted_password }) => {
                    request.upsertions.push(ScramCredentialUpsertion {
                        name,
                        mechanism,
                        iterations: *iterations,
                        salt: SecretBytes::new(salt),
                        salted_password: SecretBytes::new(salted_password.expose()),
                        ..Default::default()
                    });
                }
                Some(Salted::Delete) => {
                    request.deletions.push(ScramCredentialDeletion { name, mechanism, ..Default::default() });
                }
                None => {}
            }
        }
        request
    }
}

/// Divides the credentials so that each round has a user once: Kafka refuses a request that names a user twice, even
/// with two mechanisms (DUPLICATE_RESOURCE), and answers by user.
fn rounds(credentials: &[UserMechanism]) -> Vec<Vec<&UserMechanism>> {
    let mut rounds: Vec<Vec<&UserMechanism>> = Vec::new();
    for credential in credentials {
        let free = rounds.iter_mut().find(|round| round.iter().all(|(user, _)| *user != credential.0));
        match free {
            Some(round) => round.push(credential),
            None => rounds.push(vec![credential]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_names_no_user_twice() {
        let credential = |user: &str, mechanism| (user.to_owned(), ScramMechanism(mechanism));
        let credentials = [credential("anna", 1), credential("anna", 2), credential("boris", 1)];
        let [one, two, three] = &credentials;
        assert_eq!(rounds(&credentials), [vec![one, three], vec![two]]);
    }

    #[test]
    fn iterations_that_would_take_minutes_are_refused() {
        let salted = |iterations| salted_password(ScramMechanism(1), iterations, b"salt", &Secret::from("secret"));
        assert!(salted(4096).is_ok());
        assert!(salted(0).is_err());
        assert!(salted(u32::MAX).is_err());
    }
}
