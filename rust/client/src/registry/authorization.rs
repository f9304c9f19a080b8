//! The header `Authorization` of requests to a registry, which is fixed, or has a token of an identity provider.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use monedula_protocol::secret::Secret;

use crate::lock::lock;
use crate::sasl::{TokenError, TokenSource};
use crate::wall_clock::now_ms;

#[derive(Clone, Debug, Default)]
pub(super) enum Authorization {
    #[default]
    None,
    Fixed(Secret),
    /// A token, which is fetched when it is needed.
    Tokens(Arc<Tokens>),
}

/// Share of a token's life after which the next one is fetched.
const RENEWED_AFTER: f64 = 0.8;

/// A token that the registry refuses within this time after its fetch would be refused again.
const FRESH: Duration = Duration::from_secs(10);

/// Time for which a failure to fetch a token stands: requests that wait for one are told, and none asks anew.
const FAILED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Tokens {
    source: Arc<dyn TokenSource>,
    held: Mutex<HeldToken>,
}

#[derive(Debug, Default)]
struct HeldToken {
    token: Option<Kept>,
    failure: Option<(TokenError, Instant)>,
}

#[derive(Debug)]
struct Kept {
    header: Secret,
    fetched_at: Instant,
    renewed_at_ms: i64,
    expires_at_ms: i64,
}

impl Tokens {
    pub(super) fn new(source: Arc<dyn TokenSource>) -> Self {
        Self { source, held: Mutex::default() }
    }

    /// The header for the next request. Blocks while a token is fetched, which one thread does for all.
    fn header(&self) -> Result<Secret, TokenError> {
        let mut held = lock(&self.held);
        let now = now_ms();
        if let Some(kept) = held.token.as_ref().filter(|kept| now < kept.renewed_at_ms) {
            return Ok(kept.header.clone());
        }
        let valid = held.token.as_ref().filter(|kept| now < kept.expires_at_ms).map(|kept| kept.header.clone());
        if let Some((failure, _)) = held.failure.as_ref().filter(|(_, at)| at.elapsed() < FAILED_FOR) {
            return valid.ok_or_else(|| failure.clone());
        }
        match self.source.fetch() {
            Ok(token) => {
                let life_ms = token.expires_at_ms.saturating_sub(now).max(0);
                let header = Secret::from(format!("Bearer {}", token.value.expose_text().unwrap_or_default().trim()));
                let kept = Kept {
                    header: header.clone(),
                    fetched_at: Instant::now(),
                    renewed_at_ms: now.saturating_add((life_ms as f64 * RENEWED_AFTER) as i64),
                    expires_at_ms: token.expires_at_ms,
                };
                *held = HeldToken { token: Some(kept), failure: None };
                Ok(header)
            }
            Err(failure) => {
                held.failure = Some((failure.clone(), Instant::now()));
                // The last one is good until it expires.
                valid.ok_or(failure)
            }
        }
    }

    /// Notes that the registry refused a request with this header. Returns whether the next one would have another.
    fn refused(&self, header: &Secret) -> bool {
        let mut held = lock(&self.held);
        match &held.token {
            Some(kept) if kept.header == *header => {
                // One that worked for a while may have been revoked.
                let is_old = kept.fetched_at.elapsed() > FRESH;
                if is_old {
                    held.token = None;
                }
                is_old
            }
            _ => true,
        }
    }
}

impl Authorization {
    /// The header, if there is one. May block.
    pub(super) fn header(&self) -> Result<Option<Secret>, TokenError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(header) => Ok(Some(header.clone())),
            Self::Tokens(tokens) => tokens.header().map(Some),
        }
    }

    /// Advice where the registry refuses the client.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Tokens(_) => {
                "; the registry does not take the identity provider's token: check schema.registry.bearer.auth.client.id and \
                 scope, and what the registry expects"
            }
            _ => "; check schema.registry.basic.auth.user.info or schema.registry.bearer.auth.token",
        }
    }

    /// Notes that the registry refused a request with this header. Returns whether the next one would have another.
    pub(super) fn refused(&self, header: Option<&Secret>) -> bool {
        match (self, header) {
            (Self::Tokens(tokens), Some(header)) => tokens.refused(header),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::sasl::Token;

    #[derive(Debug)]
    struct Source {
        fetched: AtomicU32,
        life_ms: i64,
        fails_after: u32,
    }

    impl TokenSource for Source {
        fn fetch(&self) -> Result<Token, TokenError> {
            let number = self.fetched.fetch_add(1, Ordering::Relaxed);
            if number >= self.fails_after {
                return Err(TokenError::Failed("down".into()));
            }
            let value = format!("t{number}").into();
            Ok(Token { value, expires_at_ms: now_ms() + self.life_ms, extensions: Vec::new() })
        }
    }

    fn tokens(life_ms: i64, fails_after: u32) -> Tokens {
        Tokens::new(Arc::new(Source { fetched: AtomicU32::new(0), life_ms, fails_after }))
    }

    fn header(tokens: &Tokens) -> Result<String, TokenError> {
        tokens.header().map(|header| header.expose_text().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_token_is_fetched_once_and_again_before_it_expires() {
        let long = tokens(3_600_000, 9);
        assert_eq!([header(&long), header(&long)], [Ok("Bearer t0".into()), Ok("Bearer t0".into())]);
        let over = tokens(0, 9);
        assert_eq!([header(&over), header(&over)], [Ok("Bearer t0".into()), Ok("Bearer t1".into())]);
    }

    #[test]
    fn a_token_that_is_due_and_valid_is_used_while_there_is_no_other() {
        let tokens = tokens(3_600_000, 1);
        assert_eq!(header(&tokens), Ok("Bearer t0".into()));
        lock(&tokens.held).token.as_mut().expect("one").renewed_at_ms = 0;
        assert_eq!(header(&tokens), Ok("Bearer t0".into()));
        lock(&tokens.held).token.as_mut().expect("one").expires_at_ms = 0;
        assert_eq!(header(&tokens), Err(TokenError::Failed("down".into())));
    }

    #[test]
    fn a_token_that_is_refused_is_replaced_unless_it_is_new() {
        let tokens = tokens(3_600_000, 9);
        let first = tokens.header().expect("a token");
        assert!(!tokens.refused(&first));
        let long_ago = Instant::now().checked_sub(FRESH * 2).expect("the machine runs longer than this");
        lock(&tokens.held).token.as_mut().expect("one").fetched_at = long_ago;
        assert!(tokens.refused(&first));
        assert_eq!(header(&tokens), Ok("Bearer t1".into()));
        // Another thread has replaced it already.
        assert!(tokens.refused(&first));
        assert_eq!(header(&tokens), Ok("Bearer t1".into()));
    }
}
