//! Delegation tokens (KIP-48): creating, renewing, expiring and describing them.

use std::fmt;
use std::time::Duration;

use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_delegation_token::{
    CreatableRenewers, CreateDelegationTokenRequest, CreateDelegationTokenResponse,
};
use monedula_protocol::messages::describe_delegation_token::{
    DescribeDelegationTokenOwner, DescribeDelegationTokenRequest, DescribedDelegationToken,
};
use monedula_protocol::messages::expire_delegation_token::ExpireDelegationTokenRequest;
use monedula_protocol::messages::renew_delegation_token::RenewDelegationTokenRequest;
use monedula_protocol::secret::Secret;
use monedula_protocol::types::SecretBytes;

use super::call::{AdminCall, CallResult, ItemCall, Recipient, Refusal, read};
use super::{Admin, AdminContext};
use crate::error::ClientError;
use crate::net::network::NodeId;

/// A principal, such as `User:anna`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal {
    /// The type, `User` unless the brokers have a principal builder of their own.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// A delegation token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationToken {
    /// The id, which is the user name of a login with the token.
    pub token_id: String,
    /// The HMAC; in base64 it is the password of a login with the token.
    pub hmac: Secret,
    /// Owner of the token's rights.
    pub owner: Principal,
    /// Requester of the token; `None` from brokers before 3.3.
    pub requester: Option<Principal>,
    /// Principals that may renew it beside its owner; empty in the answer to its creation.
    pub renewers: Vec<Principal>,
    /// Time of its issue, in milliseconds since the epoch.
    pub issue_timestamp_ms: i64,
    /// Time of its expiry unless it is renewed, in milliseconds since the epoch.
    pub expiry_timestamp_ms: i64,
    /// Time until which it can be renewed, in milliseconds since the epoch.
    pub max_timestamp_ms: i64,
}

impl Principal {
    fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned() }
    }

    /// Reads the form `User:anna`, which `Display` writes.
    ///
    /// # Errors
    /// [`ClientError::Argument`] for a text without a type.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        match text.split_once(':') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok(Self::new(kind, name)),
            _ => Err(ClientError::Argument(format!("{text:?} is no principal: expected one such as User:anna"))),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl Admin {
    /// Creates a delegation token, of the user that asks or of another one (KIP-373).
    pub fn create_delegation_token(
        &self,
        owner: Option<Principal>,
        renewers: Vec<Principal>,
        max_lifetime_ms: i64,
        timeout: Duration,
    ) -> AdminCall<DelegationToken> {
        self.run_one(Create { owner, renewers, max_lifetime_ms }, (), timeout)
    }

    /// Makes a token valid for `period_ms` from now on, but not beyond its maximum; -1 is the broker's period. Returns
    /// when it expires.
    pub fn renew_delegation_token(&self, hmac: Secret, period_ms: i64, timeout: Duration) -> AdminCall<i64> {
        self.run_one(Renew { hmac, period_ms }, (), timeout)
    }

    /// Makes a token expire in `period_ms`; a negative period deletes it at once. Returns when it expires; `None` if
    /// the token was gone after an attempt whose answer was lost.
    pub fn expire_delegation_token(&self, hmac: Secret, period_ms: i64, timeout: Duration) -> AdminCall<Option<i64>> {
        self.run_one(Expire { hmac, period_ms }, (), timeout)
    }

    /// Describes the tokens of these owners, or all that the user may see.
    pub fn describe_delegation_tokens(
        &self,
        owners: Option<Vec<Principal>>,
        timeout: Duration,
    ) -> AdminCall<Vec<DelegationToken>> {
        self.run_one(Describe { owners }, (), timeout)
    }
}

struct Create {
    owner: Option<Principal>,
    renewers: Vec<Principal>,
    max_lifetime_ms: i64,
}

impl ItemCall for Create {
    type Key = ();
    type Value = DelegationToken;

    fn what(&self, (): &()) -> String {
        match &self.owner {
            Some(owner) => format!("creating a delegation token of {owner}"),
            None => "creating a delegation token".into(),
        }
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        let owner = self.owner.as_ref();
        let build = |_| CreateDelegationTokenRequest {
            owner_principal_type: Some(owner.map_or("", |owner| &owner.kind)),
            owner_principal_name: Some(owner.map_or("", |owner| &owner.name)),
            renewers: self.renewers.iter().map(renewer).collect(),
            max_lifetime_ms: self.max_lifetime_ms,
            ..Default::default()
        };
        let lowest = if self.owner.is_some() { 3 } else { *CreateDelegationTokenRequest::VERSIONS.start() };
        let versions = lowest..=*CreateDelegationTokenRequest::VERSIONS.end();
        let (frame, version) = context.call(node, versions, build).await?;
        let response = read::<CreateDelegationTokenRequest<'_>>(&frame, version)?;
        let outcome = Refusal::check(response.error_code, None);
        Ok(vec![((), outcome.map(|()| self.created(&response, version)))])
    }
}

fn renewer(Principal { kind, name }: &Principal) -> CreatableRenewers<'_> {
    CreatableRenewers { principal_type: kind, principal_name: name, ..Default::default() }
}

impl Create {
    fn created(&self, token: &CreateDelegationTokenResponse<'_>, version: i16) -> DelegationToken {
        let requester = Principal::new(token.token_requester_principal_type, token.token_requester_principal_name);
        DelegationToken {
            token_id: token.token_id.to_owned(),
            hmac: Secret::new(token.hmac.expose()),
            owner: Principal::new(token.principal_type, token.principal_name),
            requester: (version >= 3).then_some(requester),
            renewers: self.renewers.clone(),
            issue_timestamp_ms: token.issue_timestamp_ms,
            expiry_timestamp_ms: token.expiry_timestamp_ms,
            max_timestamp_ms: token.max_timestamp_ms,
        }
    }
}

struct Renew {
    hmac: Secret,
    period_ms: i64,
}

impl ItemCall for Renew {
    type Key = ();
    type Value = i64;

    fn what(&self, (): &()) -> String {
        "renewing a delegation token".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        let build = |_| RenewDelegationTokenRequest {
            hmac: SecretBytes::new(self.hmac.expose()),
            renew_period_ms: self.period_ms,
            ..Default::default()
        };
        let (frame, version) = context.call(node, RenewDelegationTokenRequest::VERSIONS, build).await?;
        let response = read::<RenewDelegationTokenRequest<'_>>(&frame, version)?;
        let outcome = Refusal::check(response.error_code, None);
        Ok(vec![((), outcome.map(|()| response.expiry_timestamp_ms))])
    }
}

struct Expire {
    hmac: Secret,
    period_ms: i64,
}

impl ItemCall for Expire {
    type Key = ();
    type Value = Option<i64>;

    fn what(&self, (): &()) -> String {
        "expiring a delegation token".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        let build = |_| ExpireDelegationTokenRequest {
            hmac: SecretBytes::new(self.hmac.expose()),
            expiry_time_period_ms: self.period_ms,
            ..Default::default()
        };
        let (frame, version) = context.call(node, ExpireDelegationTokenRequest::VERSIONS, build).await?;
        let response = read::<ExpireDelegationTokenRequest<'_>>(&frame, version)?;
        let outcome = Refusal::check(response.error_code, None);
        Ok(vec![((), outcome.map(|()| Some(response.expiry_timestamp_ms)))])
    }

    fn settle(&self, refusal: Refusal, lost: bool) -> Result<Option<i64>, Refusal> {
        match refusal.code {
            // The attempt whose answer was lost deleted it.
            ErrorCode::DelegationTokenNotFound if lost => Ok(None),
            _ => Err(refusal),
        }
    }
}

struct Describe {
    owners: Option<Vec<Principal>>,
}

impl ItemCall for Describe {
    type Key = ();
    type Value = Vec<DelegationToken>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, (): &()) -> String {
        "describing delegation tokens".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        let build = |_| DescribeDelegationTokenRequest {
            owners: self.owners.as_ref().map(|owners| owners.iter().map(owner).collect()),
            ..Default::default()
        };
        let (frame, version) = context.call(node, DescribeDelegationTokenRequest::VERSIONS, build).await?;
        let response = read::<DescribeDelegationTokenRequest<'_>>(&frame, version)?;
        let outcome = Refusal::check(response.error_code, None);
        let tokens = response.tokens.iter().map(|token| described(token, version));
        Ok(vec![((), outcome.map(|()| tokens.collect()))])
    }
}

fn owner(Principal { kind, name }: &Principal) -> DescribeDelegationTokenOwner<'_> {
    DescribeDelegationTokenOwner { principal_type: kind, principal_name: name, ..Default::default() }
}

fn described(token: &DescribedDelegationToken<'_>, version: i16) -> DelegationToken {
    let requester = Principal::new(token.token_requester_principal_type, token.token_requester_principal_name);
    let renewers = token.renewers.iter();
    DelegationToken {
        token_id: token.token_id.to_owned(),
        hmac: Secret::new(token.hmac.expose()),
        owner: Principal::new(token.principal_type, token.principal_name),
        requester: (version >= 3).then_some(requester),
        renewers: renewers.map(|renewer| Principal::new(renewer.principal_type, renewer.principal_name)).collect(),
        issue_timestamp_ms: token.issue_timestamp,
        expiry_timestamp_ms: token.expiry_timestamp,
        max_timestamp_ms: token.max_timestamp,
    }
}
