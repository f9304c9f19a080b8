//! ExpireDelegationToken, versions 1-2 (KIP-48): brings the expiry of a token forward, or deletes it at once.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::expire_delegation_token::{
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
};

use crate::core::Core;
use crate::request::{Answer, Call, Mentions};

type Request<'a> = ExpireDelegationTokenRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Answer {
    if !call.origin.may_use_tokens() {
        let error = ErrorCode::DelegationTokenRequestNotAllowed;
        let refused = ExpireDelegationTokenResponse { expiry_timestamp_ms: -1, ..refuse(request, error) };
        return call.answer::<Request<'_>>(&refused);
    }
    let (hmac, principal) = (request.hmac.expose(), &call.origin.principal);
    let response = match core.security.tokens.expire(hmac, principal, request.expiry_time_period_ms, core.now_ms) {
        Ok(expiry_timestamp_ms) => ExpireDelegationTokenResponse { expiry_timestamp_ms, ..Default::default() },
        Err(error) => refuse(request, error),
    };
    call.answer::<Request<'_>>(&response)
}

pub(super) fn refuse<'a>(_request: &Request<'a>, error: ErrorCode) -> ExpireDelegationTokenResponse<'a> {
    ExpireDelegationTokenResponse { error_code: error.code(), ..Default::default() }
}

pub(super) fn mentions<'a>(_request: &Request<'a>) -> Mentions<'a> {
    Mentions::default()
}
