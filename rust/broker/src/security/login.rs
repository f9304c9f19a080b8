//! Logins of the connections of a SASL listener, also before their sessions end (KIP-43, KIP-152, KIP-368).
//!
//! ```text
//! Start ── ApiVersions ──► Versions ── SaslHandshake ──► Exchange ── the mechanism ends ──► Done
//!   └─────────────── SaslHandshake ───────────────────────▲  ▲                               │
//!                                                         │  └── SaslHandshake, if sessions end ─┤
//!                                 any request fails ── OtherMechanism ◄── another mechanism ──┘
//! ```
//!
//! Any other request ends the connection, with ILLEGAL_SASL_STATE where Kafka answers at all.

use monedula_protocol::api::ApiKey;
use monedula_protocol::sasl::oauthbearer::{Extensions, TokenRefusal};
use monedula_protocol::sasl::scram::{ScramCredential, ScramHash};
use monedula_protocol::sasl::{Accounts, Authenticated, Mechanism, ServerExchange};
use monedula_protocol::secret::Secret;

use super::{Principal, Security};

/// Shortest time between two re-authentications (KIP-368).
const REAUTHENTICATION_INTERVAL_MS: i64 = 1000;

/// The state of a connection's login.
#[derive(Debug, Default)]
pub(crate) enum Login {
    /// The listener has no SASL.
    #[default]
    NotNeeded,
    /// No request has arrived: ApiVersions or SaslHandshake may follow.
    Start,
    /// ApiVersions was answered: SaslHandshake must follow.
    Versions,
    /// The mechanism's messages must follow.
    Exchange(Box<SaslExchange>),
    /// The client chose another mechanism than the one that it logged in with. Its next request ends the connection.
    OtherMechanism,
    Done(Session),
    /// The connection is about to be closed.
    Failed,
}

/// An exchange in progress.
#[derive(Debug)]
pub(crate) struct SaslExchange {
    pub(crate) server: ServerExchange,
    /// True if the messages come without the header of SaslAuthenticate, as after version 0 of SaslHandshake.
    pub(crate) is_raw: bool,
    /// The session that re-authentication prolongs (KIP-368).
    pub(crate) before: Option<Session>,
}

/// A client that has logged in.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) mechanism: Mechanism,
    pub(crate) principal: Principal,
    /// The time at which the broker closes the connection unless the client has logged in again; `None` for never.
    pub(crate) expires_ms: Option<i64>,
    /// The time at which the client last began to re-authenticate.
    pub(crate) renewed_ms: Option<i64>,
}

/// The fate of a request in the current state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Pass,
    /// The request is refused with ILLEGAL_SASL_STATE, and the connection is closed.
    Refuse,
    /// The connection is closed without an answer, after the delay of a refused login, for this reason.
    Close(String),
    /// The session has ended: the connection is closed at once.
    Expired,
}

impl Login {
    /// Decides whether this request may come now.
    pub(crate) fn gate(&self, key: ApiKey, now_ms: i64) -> Gate {
        let unexpected = || Gate::Close(format!("{key} came during the SASL handshake"));
        match self {
            Self::NotNeeded => Gate::Pass,
            Self::Start if matches!(key, ApiKey::ApiVersions | ApiKey::SaslHandshake) => Gate::Pass,
            Self::Versions if key == ApiKey::SaslHandshake => Gate::Pass,
            Self::Start | Self::Versions => unexpected(),
            Self::Exchange(_) if key == ApiKey::SaslAuthenticate => Gate::Pass,
            Self::Exchange(_) => Gate::Refuse,
            Self::OtherMechanism => {
                Gate::Close("the client logs in again with another mechanism than before".to_owned())
            }
            // A handshake after the end of the session still prolongs it.
            Self::Done(_) if key == ApiKey::SaslHandshake => Gate::Pass,
            Self::Done(session) if session.expires_ms.is_some_and(|expires_ms| expires_ms < now_ms) => Gate::Expired,
            Self::Done(_) => Gate::Pass,
            Self::Failed => Gate::Close("its login has failed".to_owned()),
        }
    }

    /// True if the client may do more than log in.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::NotNeeded | Self::Done(_))
    }

    /// True if the next frame is a message of the mechanism without any header.
    pub(crate) fn takes_raw_frames(&self) -> bool {
        matches!(self, Self::Exchange(exchange) if exchange.is_raw)
    }
}

impl Session {
    /// True if a handshake may prolong the session now. If not, it is an error that leaves the session as it is.
    pub(crate) fn may_be_renewed(&self, now_ms: i64) -> bool {
        let is_too_soon = |renewed_ms: i64| now_ms - renewed_ms < REAUTHENTICATION_INTERVAL_MS;
        self.expires_ms.is_some() && !self.renewed_ms.is_some_and(is_too_soon)
    }
}

/// The length of the session of a client that has just logged in, in milliseconds: as long as its token, and not longer
/// than `connections.max.reauth.ms` if that is set. `None` if the session has no end.
pub(crate) fn session_ms(who: &Authenticated, max_reauth_ms: i64, now_ms: i64) -> Option<i64> {
    let of_token = who.expires_at_ms.map(|expires_ms| expires_ms.saturating_sub(now_ms));
    let of_setting = (max_reauth_ms > 0).then_some(max_reauth_ms);
    let shortest = [of_token, of_setting].into_iter().flatten().min()?;
    Some(shortest.max(0))
}

/// The users, delegation tokens and keys of the broker, as the mechanisms ask for them.
#[derive(Debug)]
pub(crate) struct BrokerAccounts<'a> {
    pub(crate) security: &'a Security,
    pub(crate) now_ms: i64,
}

impl Accounts for BrokerAccounts<'_> {
    fn has_password(&self, username: &str, password: &Secret) -> bool {
        self.security.users.has_password(username, password)
    }

    fn scram_credential(&self, hash: ScramHash, username: &str) -> Option<ScramCredential> {
        self.security.users.scram(username, hash)
    }

    fn delegation_token(&self, hash: ScramHash, token_id: &str) -> Option<(ScramCredential, Authenticated)> {
        self.security.tokens.scram(hash, token_id, self.now_ms)
    }

    fn check_token(&self, token: &str, _extensions: &Extensions) -> Result<Authenticated, TokenRefusal> {
        self.security.oauth.check(token, self.now_ms).map_err(|problem| {
            log::info!("a bearer token is refused: {problem}");
            TokenRefusal::status("invalid_token")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(expires_ms: Option<i64>, renewed_ms: Option<i64>) -> Session {
        Session { mechanism: Mechanism::Plain, principal: Principal::user("anna"), expires_ms, renewed_ms }
    }

    #[test]
    fn before_the_login_only_the_handshake_passes() {
        let closes = |gate: Gate| matches!(gate, Gate::Close(_));
        assert_eq!(Login::Start.gate(ApiKey::ApiVersions, 0), Gate::Pass);
        assert_eq!(Login::Start.gate(ApiKey::SaslHandshake, 0), Gate::Pass);
        assert!(closes(Login::Start.gate(ApiKey::Metadata, 0)));
        assert!(closes(Login::Start.gate(ApiKey::SaslAuthenticate, 0)));
        assert!(closes(Login::Versions.gate(ApiKey::ApiVersions, 0)));
        assert_eq!(Login::Versions.gate(ApiKey::SaslHandshake, 0), Gate::Pass);
        assert!(closes(Login::Failed.gate(ApiKey::SaslHandshake, 0)));
    }

    #[test]
    fn a_session_that_has_ended_lets_only_a_handshake_pass() {
        let done = Login::Done(session(Some(100), None));
        assert_eq!(done.gate(ApiKey::Fetch, 100), Gate::Pass);
        assert_eq!(done.gate(ApiKey::Fetch, 101), Gate::Expired);
        assert_eq!(done.gate(ApiKey::SaslHandshake, 101), Gate::Pass);
    }

    #[test]
    fn a_session_is_renewed_once_a_second_at_most() {
        assert!(!session(None, None).may_be_renewed(0));
        assert!(session(Some(100), None).may_be_renewed(0));
        assert!(!session(Some(100), Some(0)).may_be_renewed(999));
        assert!(session(Some(100), Some(0)).may_be_renewed(1000));
    }

    #[test]
    fn a_session_lasts_as_long_as_token_and_setting_allow() {
        let who = |expires_at_ms| Authenticated { expires_at_ms, ..Authenticated::user("anna") };
        assert_eq!(session_ms(&who(None), 0, 50), None);
        assert_eq!(session_ms(&who(None), 1000, 50), Some(1000));
        assert_eq!(session_ms(&who(Some(150)), 1000, 50), Some(100));
        assert_eq!(session_ms(&who(Some(150)), 0, 50), Some(100));
        assert_eq!(session_ms(&who(Some(10)), 0, 50), Some(0));
    }
}
