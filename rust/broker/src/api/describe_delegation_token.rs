//! DescribeDelegationToken, versions 1-3 (KIP-48, KIP-373): the tokens that the client owns, may renew, or may
//! describe.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::describe_delegation_token::{
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
};
use monedula_protocol::types::SecretBytes;

use super::Handled;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Principal, Resource, Token};

type Request<'a> = DescribeDelegationTokenRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    if !call.origin.may_use_tokens() {
        return Err(ErrorCode::DelegationTokenRequestNotAllowed);
    }
    core.security.tokens_mut().sweep(core.now_ms);
    // An empty list selects no token, null selects all.
    let owners: Option<Vec<Principal>> = request
        .owners
        .as_ref()
        .map(|owners| owners.iter().map(|owner| Principal::new(owner.principal_type, owner.principal_name)).collect());
    let is_asked = |token: &&Token| owners.as_ref().is_none_or(|owners| owners.iter().any(|owner| token.is_of(owner)));
    let tokens = core.security.tokens().all().filter(is_asked).filter(|token| may_see(core, call, token));
    Ok(call.answer::<Request<'_>>(&DescribeDelegationTokenResponse {
        tokens: tokens.map(|token| describe(call, token)).collect(),
        ..Default::default()
    }))
}

fn may_see(core: &Core, call: &Call<'_>, token: &Token) -> bool {
    token.is_of(&call.origin.principal)
        || core.allows(call, Operation::Describe, Resource::DelegationToken(&token.id))
        || core.allows(call, Operation::DescribeTokens, Resource::User(token.owner.as_str()))
}

fn describe<'a>(call: &Call<'_>, token: &'a Token) -> DescribedDelegationToken<'a> {
    let renewer = |renewer: &'a Principal| DescribedDelegationTokenRenewer {
        principal_type: renewer.kind(),
        principal_name: renewer.name(),
        ..Default::default()
    };
    // The response names the requester from version 3 on.
    let requester = |text: &'a str| if call.version >= 3 { text } else { "" };
    DescribedDelegationToken {
        principal_type: token.owner.kind(),
        principal_name: token.owner.name(),
        token_requester_principal_type: requester(token.requester.kind()),
        token_requester_principal_name: requester(token.requester.name()),
        issue_timestamp: token.issued_ms,
        expiry_timestamp: token.expires_ms,
        max_timestamp: token.max_ms,
        token_id: &token.id,
        hmac: SecretBytes::new(token.hmac.expose()),
        renewers: token.renewers.iter().map(renewer).collect(),
        ..Default::default()
    }
}
