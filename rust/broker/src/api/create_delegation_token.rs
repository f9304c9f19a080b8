//! CreateDelegationToken, versions 1-3 (KIP-48, KIP-373). Only authenticated clients may create tokens, and not those
//! that logged in with a token.
//!
//! Not implemented: storing tokens. They are kept in memory only: a restart loses them, also with a data directory.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::create_delegation_token::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse,
};
use monedula_protocol::types::SecretBytes;

use super::Handled;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Principal, Resource};

type Request<'a> = CreateDelegationTokenRequest<'a>;

/// The only type of principals that renew tokens.
const USER: &str = "User";

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    let requester = call.origin.principal.clone();
    let owner = match request.owner_principal_name.filter(|name| !name.is_empty()) {
        Some(name) => Principal::new(request.owner_principal_type.unwrap_or_default(), name),
        None => requester.clone(),
    };
    let refused = |error: ErrorCode| {
        call.answer::<Request<'_>>(&CreateDelegationTokenResponse {
            error_code: error.code(),
            principal_type: owner.kind(),
            principal_name: owner.name(),
            token_requester_principal_type: requester_if(call, requester.kind()),
            token_requester_principal_name: requester_if(call, requester.name()),
            issue_timestamp_ms: -1,
            expiry_timestamp_ms: -1,
            max_timestamp_ms: -1,
            ..Default::default()
        })
    };
    if !call.origin.may_use_tokens() {
        return Ok(refused(ErrorCode::DelegationTokenRequestNotAllowed));
    }
    if owner != requester && !core.allows(call, Operation::CreateTokens, Resource::User(owner.as_str())) {
        return Ok(refused(ErrorCode::DelegationTokenAuthorizationFailed));
    }
    if request.renewers.iter().any(|renewer| renewer.principal_type != USER) {
        return Ok(refused(ErrorCode::InvalidPrincipalType));
    }
    let renewers = request.renewers.iter().map(|renewer| Principal::user(renewer.principal_name)).collect();
    let (id, now_ms) = (core.draw.uuid().to_string(), core.now_ms);
    let principals = (owner.clone(), requester.clone());
    let token = core.security.tokens_mut().create(id, principals, renewers, request.max_lifetime_ms, now_ms);
    Ok(call.answer::<Request<'_>>(&CreateDelegationTokenResponse {
        principal_type: owner.kind(),
        principal_name: owner.name(),
        token_requester_principal_type: requester_if(call, requester.kind()),
        token_requester_principal_name: requester_if(call, requester.name()),
        issue_timestamp_ms: token.issued_ms,
        expiry_timestamp_ms: token.expires_ms,
        max_timestamp_ms: token.max_ms,
        token_id: &token.id,
        hmac: SecretBytes::new(token.hmac.expose()),
        ..Default::default()
    }))
}

/// The response names the requester from version 3 on.
fn requester_if<'a>(call: &Call<'_>, text: &'a str) -> &'a str {
    if call.version >= 3 { text } else { "" }
}
