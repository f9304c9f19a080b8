//! ExpireDelegationToken, versions 1-2 (KIP-48): brings the expiry of a token forward, or deletes it at once.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::expire_delegation_token::{
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
};

use super::Handled;
use crate::core::Core;
use crate::request::Call;

type Request<'a> = ExpireDelegationTokenRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    if !call.origin.may_use_tokens() {
        return Ok(call.answer::<Request<'_>>(&ExpireDelegationTokenResponse {
            error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
            expiry_timestamp_ms: -1,
            ..Default::default()
        }));
    }
    let (hmac, principal) = (request.hmac.expose(), &call.origin.principal);
    let expiry_timestamp_ms =
        core.security.tokens_mut().expire(hmac, principal, request.expiry_time_period_ms, core.now_ms)?;
    Ok(call.answer::<Request<'_>>(&ExpireDelegationTokenResponse { expiry_timestamp_ms, ..Default::default() }))
}
