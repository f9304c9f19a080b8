//! Delegation tokens (KIP-48): credentials that a user gives to other clients, which log in with SCRAM.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit, Mac};
use monedula_protocol::base64;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::sasl::Authenticated;
use monedula_protocol::sasl::scram::{MIN_ITERATIONS, ScramCredential, ScramHash};
use monedula_protocol::secret::Secret;
use sha2::Sha512;

use super::stored::{StoredSecret, StoredToken, StoredTokens};
use super::{Principal, random};

/// `delegation.token.max.lifetime.ms` and `delegation.token.expiry.time.ms`, with Kafka's defaults.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) max_ms: i64,
    pub(crate) expiry_ms: i64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { max_ms: 604_800_000, expiry_ms: 86_400_000 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) id: String,
    /// The token's HMAC. In base64 it is the token's password.
    pub(crate) hmac: Secret,
    pub(crate) owner: Principal,
    pub(crate) requester: Principal,
    pub(crate) renewers: Vec<Principal>,
    pub(crate) issued_ms: i64,
    pub(crate) expires_ms: i64,
    /// The time until which it can be renewed.
    pub(crate) max_ms: i64,
}

impl Token {
    pub(crate) fn is_of(&self, principal: &Principal) -> bool {
        self.owner == *principal || self.renewers.contains(principal)
    }

    fn is_expired(&self, now_ms: i64) -> bool {
        self.max_ms < now_ms || self.expires_ms < now_ms
    }
}

#[derive(Debug)]
pub(crate) struct Tokens {
    lifetimes: Lifetimes,
    /// The key of the HMACs (`delegation.token.secret.key`), drawn at the first start.
    key: Secret,
    by_id: BTreeMap<String, Token>,
    /// The credentials of tokens that have been used.
    credentials: RefCell<BTreeMap<(String, ScramHash), ScramCredential>>,
    /// True after a change that is not stored yet.
    pub(super) touched: bool,
}

impl Tokens {
    pub(crate) fn new(lifetimes: Lifetimes) -> Self {
        let key = Secret::new(random::<64>());
        Self { lifetimes, key, by_id: BTreeMap::new(), credentials: RefCell::default(), touched: false }
    }

    /// Creates a token that lives for `max_lifetime_ms` at most; 0 or less for the broker's own limit.
    pub(crate) fn create(
        &mut self,
        id: String,
        (owner, requester): (Principal, Principal),
        renewers: Vec<Principal>,
        max_lifetime_ms: i64,
        now_ms: i64,
    ) -> &Token {
        let max_lifetime_ms = shorter(self.lifetimes.max_ms, max_lifetime_ms);
        let max_ms = now_ms.saturating_add(max_lifetime_ms);
        let token = Token {
            hmac: self.hmac(&id),
            owner,
            requester,
            renewers,
            issued_ms: now_ms,
            expires_ms: max_ms.min(now_ms.saturating_add(self.lifetimes.expiry_ms)),
            max_ms,
            id: id.clone(),
        };
        self.touched = true;
        self.by_id.entry(id).or_insert(token)
    }

    pub(super) fn restore(&mut self, stored: StoredTokens) {
        self.key = stored.key.0;
        // A text that is no principal cannot have been written by this broker.
        let principal = |text: &str| Principal::parse(text).unwrap_or_else(|_| Principal::anonymous());
        for (id, stored) in stored.tokens {
            let token = Token {
                hmac: self.hmac(&id),
                owner: principal(&stored.owner),
                requester: principal(&stored.requester),
                renewers: stored.renewers.iter().map(|renewer| principal(renewer)).collect(),
                issued_ms: stored.issued_ms,
                expires_ms: stored.expires_ms,
                max_ms: stored.max_ms,
                id: id.clone(),
            };
            self.by_id.insert(id, token);
        }
    }

    pub(super) fn to_store(&self) -> Option<StoredTokens> {
        let stored = |token: &Token| StoredToken {
            owner: token.owner.to_string(),
            requester: token.requester.to_string(),
            renewers: token.renewers.iter().map(Principal::to_string).collect(),
            issued_ms: token.issued_ms,
            expires_ms: token.expires_ms,
            max_ms: token.max_ms,
        };
        let tokens: BTreeMap<_, _> = self.by_id.iter().map(|(id, token)| (id.clone(), stored(token))).collect();
        (!tokens.is_empty()).then(|| StoredTokens { key: StoredSecret(self.key.clone()), tokens })
    }

    fn hmac(&self, id: &str) -> Secret {
        let mac = <Hmac<Sha512> as KeyInit>::new_from_slice(self.key.expose());
        let Ok(mut mac) = mac else { return Secret::default() };
        mac.update(id.as_bytes());
        Secret::new(mac.finalize().into_bytes().as_slice())
    }

    /// Moves the expiry of a token. Returns the new one.
    ///
    /// # Errors
    /// The errors of Kafka's controller.
    pub(crate) fn renew(
        &mut self,
        hmac: &[u8],
        requester: &Principal,
        period_ms: i64,
        now_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let expiry_ms = self.lifetimes.expiry_ms;
        let token = self.find(hmac)?;
        if token.is_expired(now_ms) {
            return Err(ErrorCode::DelegationTokenExpired);
        }
        if !token.is_of(requester) {
            return Err(ErrorCode::DelegationTokenOwnerMismatch);
        }
        token.expires_ms = token.max_ms.min(now_ms.saturating_add(shorter(expiry_ms, period_ms)));
        let expires_ms = token.expires_ms;
        self.touched = true;
        Ok(expires_ms)
    }

    /// Brings the expiry of a token forward, or deletes the token if the period is negative. Returns the new expiry.
    ///
    /// # Errors
    /// The errors of Kafka's controller.
    pub(crate) fn expire(
        &mut self,
        hmac: &[u8],
        requester: &Principal,
        period_ms: i64,
        now_ms: i64,
    ) -> Result<i64, ErrorCode> {
        let token = self.find(hmac)?;
        if !token.is_of(requester) {
            return Err(ErrorCode::DelegationTokenOwnerMismatch);
        }
        if period_ms < 0 {
            let id = token.id.clone();
            self.remove(&id);
            return Ok(now_ms);
        }
        if token.is_expired(now_ms) {
            return Err(ErrorCode::DelegationTokenExpired);
        }
        token.expires_ms = token.max_ms.min(now_ms.saturating_add(period_ms));
        let expires_ms = token.expires_ms;
        self.touched = true;
        Ok(expires_ms)
    }

    fn find(&mut self, hmac: &[u8]) -> Result<&mut Token, ErrorCode> {
        let wanted = Secret::new(hmac);
        let found = self.by_id.values_mut().find(|token| token.hmac == wanted);
        found.ok_or(ErrorCode::DelegationTokenNotFound)
    }

    fn remove(&mut self, id: &str) {
        self.by_id.remove(id);
        self.touched = true;
        self.credentials.get_mut().retain(|(of, _), _| of != id);
    }

    /// Removes the tokens that have expired. Kafka does so every hour; here it is done before tokens are looked at.
    pub(crate) fn sweep(&mut self, now_ms: i64) {
        let expired: Vec<String> =
            self.by_id.values().filter(|token| token.is_expired(now_ms)).map(|token| token.id.clone()).collect();
        expired.iter().for_each(|id| self.remove(id));
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Token> {
        self.by_id.values()
    }

    /// The SCRAM credential of a token, and who logs in with it.
    pub(crate) fn scram(&self, hash: ScramHash, id: &str, now_ms: i64) -> Option<(ScramCredential, Authenticated)> {
        let token = self.by_id.get(id).filter(|token| !token.is_expired(now_ms))?;
        let mut made = self.credentials.borrow_mut();
        let credential = made.entry((id.to_owned(), hash)).or_insert_with(|| {
            let password = Secret::from(base64::encode(token.hmac.expose()));
            ScramCredential::from_password(hash, &password, &random::<16>(), MIN_ITERATIONS)
        });
        let authenticated = Authenticated {
            principal: token.owner.name().to_owned(),
            expires_at_ms: Some(token.expires_ms),
            by_delegation_token: true,
        };
        Some((credential.clone(), authenticated))
    }
}

/// The shorter of the broker's limit and the requested lifetime, where 0 or less stands for the limit.
fn shorter(limit_ms: i64, wanted_ms: i64) -> i64 {
    if wanted_ms > 0 { limit_ms.min(wanted_ms) } else { limit_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anna() -> Principal {
        Principal::user("anna")
    }

    fn tokens() -> (Tokens, Secret) {
        let mut tokens = Tokens::new(Lifetimes { max_ms: 1000, expiry_ms: 100 });
        let renewers = vec![Principal::user("ben")];
        let hmac = tokens.create("id".to_owned(), (anna(), anna()), renewers, -1, 0).hmac.clone();
        (tokens, hmac)
    }

    #[test]
    fn a_token_is_renewed_up_to_its_longest_lifetime() {
        let (mut tokens, hmac) = tokens();
        assert_eq!(tokens.renew(hmac.expose(), &anna(), -1, 50), Ok(150));
        assert_eq!(tokens.renew(hmac.expose(), &Principal::user("ben"), 20, 100), Ok(120));
        assert_eq!(
            tokens.renew(hmac.expose(), &Principal::user("eve"), -1, 100),
            Err(ErrorCode::DelegationTokenOwnerMismatch)
        );
        assert_eq!(tokens.renew(hmac.expose(), &anna(), -1, 121), Err(ErrorCode::DelegationTokenExpired));
        assert_eq!(tokens.renew(b"other", &anna(), -1, 100), Err(ErrorCode::DelegationTokenNotFound));
    }

    #[test]
    fn a_token_that_is_expired_logs_nobody_in() {
        let (mut tokens, hmac) = tokens();
        let (_, who) = tokens.scram(ScramHash::Sha256, "id", 50).unwrap();
        assert_eq!((who.principal.as_str(), who.expires_at_ms, who.by_delegation_token), ("anna", Some(100), true));
        assert!(tokens.scram(ScramHash::Sha256, "id", 101).is_none());
        assert_eq!(tokens.expire(hmac.expose(), &anna(), -1, 60), Ok(60));
        assert!(tokens.scram(ScramHash::Sha256, "id", 61).is_none());
        assert_eq!(tokens.all().count(), 0);
    }

    #[test]
    fn expired_tokens_are_swept() {
        let (mut tokens, _) = tokens();
        tokens.sweep(100);
        assert_eq!(tokens.all().count(), 1);
        tokens.sweep(101);
        assert_eq!(tokens.all().count(), 0);
    }
}
