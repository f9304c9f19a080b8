//! RenewDelegationToken, versions 1-2 (KIP-48): moves the expiry of a token, up to its longest lifetime.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::renew_delegation_token::{RenewDelegationTokenRequest, RenewDelegationTokenResponse};

use super::Handled;
use crate::core::Core;
use crate::request::Call;

type Request<'a> = RenewDelegationTokenRequest<'a>;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &Request<'_>) -> Handled {
    if !call.origin.may_use_tokens() {
        return Ok(call.answer::<Request<'_>>(&RenewDelegationTokenResponse {
            error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
            expiry_timestamp_ms: -1,
            ..Default::default()
        }));
    }
    let (hmac, principal) = (request.hmac.expose(), &call.origin.principal);
    let expiry_timestamp_ms =
        core.security.tokens_mut().renew(hmac, principal, request.renew_period_ms, core.now_ms)?;
    Ok(call.answer::<Request<'_>>(&RenewDelegationTokenResponse { expiry_timestamp_ms, ..Default::default() }))
}
