//! SaslAuthenticate, versions 0-2: carries the messages of the SASL mechanism that SaslHandshake chose, and ends with
//! the client logged in or refused. A refusal is answered late, and closes the connection.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use bytes::Bytes;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use monedula_protocol::sasl::{Authenticated, Mechanism, ServerStep};
use monedula_protocol::secret::Secret;
use monedula_protocol::types::SecretBytes;

use super::Handled;
use crate::core::Core;
use crate::request::{Answer, Call, ConnectionId};
use crate::security::{BrokerAccounts, Login, Principal, SaslExchange, Session, session_ms};

/// Version 0 of the response has no session lifetime.
const LIFETIME_FROM: i16 = 1;

/// The outcome of one message of a mechanism.
enum SaslReply {
    Challenge(Secret),
    /// The last message, and how long the session lasts; 0 for any time.
    Done(Secret, i64),
    Refused(String),
}

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &SaslAuthenticateRequest<'_>) -> Handled {
    let answer = |auth_bytes: &Secret, session_lifetime_ms: i64| {
        call.answer::<SaslAuthenticateRequest<'_>>(&SaslAuthenticateResponse {
            auth_bytes: SecretBytes::new(auth_bytes.expose()),
            session_lifetime_ms: if call.version >= LIFETIME_FROM { session_lifetime_ms } else { 0 },
            ..Default::default()
        })
    };
    Ok(match step(core, call.ticket.connection, request.auth_bytes.expose()) {
        Some(SaslReply::Challenge(challenge)) => answer(&challenge, 0),
        Some(SaslReply::Done(last, lifetime_ms)) => answer(&last, lifetime_ms),
        Some(SaslReply::Refused(message)) => {
            let refused = SaslAuthenticateResponse {
                error_code: ErrorCode::SaslAuthenticationFailed.code(),
                error_message: Some(&message),
                ..Default::default()
            };
            call.answer::<SaslAuthenticateRequest<'_>>(&refused).late("its login is refused")
        }
        None => {
            let message = "SaslAuthenticate request received after successful authentication";
            call.answer::<SaslAuthenticateRequest<'_>>(&SaslAuthenticateResponse {
                error_code: ErrorCode::IllegalSaslState.code(),
                error_message: Some(message),
                ..Default::default()
            })
        }
    })
}

/// Takes a message that comes as a frame without a header, after version 0 of SaslHandshake.
pub(super) fn raw(core: &mut Core, connection: ConnectionId, message: &Bytes) -> Answer {
    match step(core, connection, message) {
        Some(SaslReply::Challenge(bytes) | SaslReply::Done(bytes, _)) => {
            let mut frame = Vec::with_capacity(4 + bytes.expose().len());
            frame.extend_from_slice(&(bytes.expose().len() as u32).to_be_bytes());
            frame.extend_from_slice(bytes.expose());
            Answer::Now(vec![frame.into()])
        }
        Some(SaslReply::Refused(_)) => Answer::Refused(Vec::new(), "its login is refused".to_owned()),
        None => Answer::Close("there is no SASL exchange".to_owned()),
    }
}

/// Passes a message of the client to the mechanism. Returns `None` if no exchange is in progress.
fn step(core: &mut Core, connection: ConnectionId, message: &[u8]) -> Option<SaslReply> {
    let mut exchange = core.peers.take_exchange(connection)?;
    let mechanism = exchange.server.mechanism();
    let directory = BrokerAccounts { security: &core.security, now_ms: core.now_ms };
    Some(match exchange.server.step(message, &directory) {
        ServerStep::Challenge(challenge) => {
            core.peers.set_login(connection, Login::Exchange(exchange));
            SaslReply::Challenge(challenge)
        }
        ServerStep::Authenticated(last, who) => match finish(core, connection, *exchange, mechanism, &who) {
            Ok(lifetime_ms) => SaslReply::Done(last, lifetime_ms),
            Err(message) => SaslReply::Refused(message),
        },
        ServerStep::Refused(refusal) => {
            log::info!("a login with {mechanism} is refused: {}", refusal.reason);
            SaslReply::Refused(match exchange.before {
                Some(_) => refusal.message.replace("during authentication", "during re-authentication"),
                None => refusal.message,
            })
        }
    })
}

/// Logs the client in. Returns how long its session lasts in milliseconds, 0 for any time.
///
/// # Errors
/// The message for a client that was logged in as another principal.
fn finish(
    core: &mut Core,
    connection: ConnectionId,
    exchange: SaslExchange,
    mechanism: Mechanism,
    who: &Authenticated,
) -> Result<i64, String> {
    let principal = Principal::user(&who.principal);
    if let Some(before) = exchange.before.as_ref().filter(|before| before.principal != principal) {
        let dotted = |principal: &Principal| format!("{}.{}", principal.kind(), principal.name());
        let (before, now) = (dotted(&before.principal), dotted(&principal));
        return Err(format!("Cannot change principals during re-authentication from {before}: {now}"));
    }
    let lifetime_ms = session_ms(who, core.settings.security.max_reauth_ms, core.now_ms);
    let session = Session {
        mechanism,
        principal: principal.clone(),
        expires_ms: lifetime_ms.map(|lifetime_ms| core.now_ms.saturating_add(lifetime_ms)),
        renewed_ms: exchange.before.and_then(|before| before.renewed_ms),
    };
    log::debug!("{principal} has logged in with {mechanism}");
    core.peers.set_principal(connection, principal, who.by_delegation_token);
    core.peers.set_login(connection, Login::Done(session));
    Ok(lifetime_ms.unwrap_or_default())
}
