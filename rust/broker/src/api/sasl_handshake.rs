//! SaslHandshake, versions 0-1: chooses the SASL mechanism. On a listener without SASL, and when the client has logged
//! in for good, it is an ILLEGAL_SASL_STATE.
//!
//! Not implemented: GSSAPI.

use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use monedula_protocol::sasl::{Mechanism, ServerExchange};

use super::Handled;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Login, SaslExchange, Session, random};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &SaslHandshakeRequest<'_>) -> Handled {
    let now_ms = core.now_ms;
    let before = match core.peers.login(call.ticket.connection) {
        Some(Login::Start | Login::Versions) => None,
        Some(Login::Done(session)) if session.may_be_renewed(now_ms) => {
            Some(Session { renewed_ms: Some(now_ms), ..session.clone() })
        }
        _ => return Err(ErrorCode::IllegalSaslState),
    };
    let enabled = &core.settings.security.mechanisms;
    let wanted = Mechanism::from_name(request.mechanism).filter(|wanted| enabled.contains(wanted));
    let exchange = wanted.and_then(|wanted| ServerExchange::new(wanted, random()));
    let error = if exchange.is_some() { ErrorCode::None } else { ErrorCode::UnsupportedSaslMechanism };
    let answer = call.answer::<SaslHandshakeRequest<'_>>(&SaslHandshakeResponse {
        error_code: error.code(),
        mechanisms: enabled.iter().map(|mechanism| mechanism.name()).collect(),
        ..Default::default()
    });
    let Some(server) = exchange else {
        core.peers.set_login(call.ticket.connection, Login::Failed);
        return Ok(answer.late("the client asks for a SASL mechanism that is not enabled"));
    };
    let other = before.as_ref().is_some_and(|before| Some(before.mechanism) != wanted);
    let login = match other {
        true => Login::OtherMechanism,
        false => Login::Exchange(Box::new(SaslExchange { server, is_raw: call.version == 0, before })),
    };
    core.peers.set_login(call.ticket.connection, login);
    Ok(answer)
}
