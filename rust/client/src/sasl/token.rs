//! Bearer tokens: one for all connections of a client, renewed before its end on a thread of its own.
//!
//! No call of the user waits for a refresh, and no connection fetches a token itself. A source may block, fail or hang:
//! connections then use the last token as long as it is valid, and after that fail with the source's error.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use monedula_engine::backoff::{Backoff, Jitter};
use monedula_protocol::secret::Secret;
use tokio::sync::watch;

use super::NoCredentials;
use crate::blocking;
use crate::config_values::ConfigError;
use crate::lock::lock;
use crate::wall_clock::now_ms;

/// A bearer token.
#[derive(Clone, Debug)]
pub struct Token {
    /// The token.
    pub value: Secret,
    /// Expiry, in milliseconds since 1970.
    pub expires_at_ms: i64,
    /// SASL extensions to send with it (KIP-342).
    pub extensions: Vec<(String, String)>,
}

impl Token {
    /// Expiry of a token by its claim `exp`, in ms since 1970; `None` if it is opaque or has no such claim.
    pub fn claimed_expiry_ms(value: &str) -> Option<i64> {
        super::jwt::expires_at_ms(value)
    }
}

/// Reason that there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Another attempt may succeed.
    Failed(String),
    /// Another attempt would fail as well: the identity provider refused the client.
    Refused(String),
}

/// Source of tokens. Called on one thread of its own, one call at a time.
pub trait TokenSource: fmt::Debug + Send + Sync {
    /// Fetches a token. May block.
    ///
    /// # Errors
    /// If there is no token.
    fn fetch(&self) -> Result<Token, TokenError>;

    /// Checks that it can work at all, once it is known that no other takes its place.
    ///
    /// # Errors
    /// Problem of the settings.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Advice about a [`TokenError::Refused`] of this source.
    fn advice(&self) -> &'static str {
        "Check the client's id, secret and scope, and the URL of the token endpoint"
    }
}

/// `sasl.login.refresh.*` and `sasl.login.retry.backoff.*`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    /// Share of a token's lifetime, 0 to 1, after which the next one is fetched.
    pub(super) window_factor: f64,
    /// Largest share that is added to it at random.
    pub(super) window_jitter: f64,
    /// Shortest time between two fetches.
    pub(super) min_period: Duration,
    /// Time before a token's expiry at which the next one is fetched at the latest.
    pub(super) buffer: Duration,
    pub(super) backoff: Backoff,
    /// Time for which a connection waits for a token before it gives up its attempt.
    pub(super) patience: Duration,
}

impl Refresh {
    /// Time after the start of `lifetime` at which the next token is fetched. As in Java, the period and the buffer do
    /// not count if the lifetime is too short for both.
    fn wait(&self, lifetime: Duration, draw: u64) -> Duration {
        let share = self.window_factor + self.window_jitter * (draw as f64 / u64::MAX as f64);
        let wanted = lifetime.mul_f64(share.clamp(0.0, 1.0));
        match lifetime.checked_sub(self.buffer) {
            Some(latest) if latest >= self.min_period => wanted.clamp(self.min_period, latest),
            _ => wanted,
        }
    }
}

pub(super) struct TokenProvider {
    source: Arc<dyn TokenSource>,
    refresh: Refresh,
    state: watch::Sender<TokenState>,
    wanted: Arc<TokenDemand>,
}

#[derive(Clone, Debug, Default)]
struct TokenState {
    token: Option<Arc<Token>>,
    fetched_at: Option<Instant>,
    number: u64,
    /// The error of the last attempt, if it failed.
    error: Option<TokenError>,
    attempts: u64,
    is_running: bool,
}

#[derive(Debug, Default)]
struct TokenDemand {
    state: Mutex<TokenDemandState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TokenDemandState {
    now: bool,
    ended: bool,
}

impl fmt::Debug for TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenProvider").field("source", &self.source).finish_non_exhaustive()
    }
}

/// A token that the broker refuses within this time after its fetch would be refused again.
const FRESH: Duration = Duration::from_secs(10);

/// Pause after the source has said that it will refuse again.
const AFTER_REFUSAL: Duration = Duration::from_secs(60);

/// A token that expires within this time might be refused before the login ends.
const SHORTEST_REST_MS: i64 = 1_000;

impl TokenProvider {
    pub(super) fn new(source: Arc<dyn TokenSource>, refresh: Refresh) -> Arc<Self> {
        let state = watch::Sender::new(TokenState::default());
        Arc::new(Self { source, refresh, state, wanted: Arc::default() })
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.source.check()
    }

    /// A provider with the same settings and another source.
    pub(super) fn with_source(&self, source: Arc<dyn TokenSource>) -> Arc<Self> {
        Self::new(source, self.refresh)
    }

    /// Returns the token and its number. Waits for one if there is none yet.
    pub(super) async fn token(self: &Arc<Self>) -> Result<(Arc<Token>, u64), NoCredentials> {
        let mut watch = self.state.subscribe();
        let attempts = watch.borrow_and_update().attempts;
        if let Some(found) = usable(&self.state.borrow()) {
            return Ok(found);
        }
        // Woken before a thread is started: a thread that has just started would take the wish for another one, and ask
        // a second time.
        self.wanted.wake();
        self.run()?;
        let arrived = async {
            loop {
                let state = watch.borrow_and_update().clone();
                if let Some(found) = usable(&state) {
                    return Ok(found);
                }
                if state.attempts > attempts {
                    return Err(state.error);
                }
                if watch.changed().await.is_err() {
                    return Err(None);
                }
            }
        };
        match tokio::time::timeout(self.refresh.patience, arrived).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(Some(TokenError::Refused(reason)))) => {
                Err(NoCredentials::Refused { reason, advice: self.source.advice() })
            }
            Ok(Err(Some(TokenError::Failed(reason)))) => Err(NoCredentials::ForNow(format!("no token: {reason}"))),
            Ok(Err(None)) => Err(NoCredentials::ForNow("no token: it has expired when it came".into())),
            Err(_) => {
                let waited = self.refresh.patience.as_millis();
                Err(NoCredentials::ForNow(format!("no token: its source has not returned within {waited} ms")))
            }
        }
    }

    /// A broker refused the token with this number. Returns whether there is a newer one, or one will be fetched. If a
    /// new token was refused, fetching another is of no use.
    pub(super) fn refused(&self, number: u64) -> bool {
        let mut is_newer = false;
        self.state.send_if_modified(|state| {
            is_newer = state.number > number;
            // A token that worked for a while may have been revoked, or have expired by the broker's clock.
            if !is_newer && state.fetched_at.is_some_and(|at| at.elapsed() > FRESH) {
                state.token = None;
                is_newer = true;
            }
            false
        });
        is_newer
    }

    fn run(self: &Arc<Self>) -> Result<(), NoCredentials> {
        let mut starts = false;
        self.state.send_if_modified(|state| {
            starts = !std::mem::replace(&mut state.is_running, true);
            false
        });
        if !starts {
            return Ok(());
        }
        let (weak, wanted) = (Arc::downgrade(self), self.wanted.clone());
        let spawned = blocking::start_thread(blocking::named("monedula-token"), move || keep(&weak, &wanted));
        spawned.map(drop).map_err(|error| {
            self.state.send_modify(|state| state.is_running = false);
            NoCredentials::ForNow(format!("no token: no thread to fetch it: {error}"))
        })
    }

    /// Makes one attempt. Returns when the next one is due.
    fn attempt(&self, failures: &mut u32, jitter: &mut Jitter) -> Instant {
        let fetched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.source.fetch()));
        let fetched = fetched.unwrap_or_else(|_| Err(TokenError::Failed("its source panicked".into())));
        let now = now_ms();
        let fetched = fetched.and_then(|token| match token.expires_at_ms.saturating_sub(now) {
            ..=0 => Err(TokenError::Failed(format!(
                "the token that came had expired {} s ago; compare this machine's clock with that of its issuer",
                now.saturating_sub(token.expires_at_ms) / 1000
            ))),
            rest => Ok((token, Duration::from_millis(rest.unsigned_abs()).min(LONGEST_LIFE))),
        });
        let (wait, outcome) = match fetched {
            Ok((token, lifetime)) => {
                *failures = 0;
                (self.refresh.wait(lifetime, jitter.next()), Ok(token))
            }
            Err(error) => {
                let wait = self.refresh.backoff.delay(*failures, jitter);
                *failures = failures.saturating_add(1);
                let wait = if matches!(error, TokenError::Refused(_)) { wait.max(AFTER_REFUSAL) } else { wait };
                (wait, Err(error))
            }
        };
        self.state.send_modify(|state| {
            state.attempts += 1;
            match outcome {
                Ok(token) => {
                    state.token = Some(Arc::new(token));
                    state.fetched_at = Some(Instant::now());
                    state.number += 1;
                    state.error = None;
                }
                Err(error) => state.error = Some(error),
            }
        });
        Instant::now() + wait
    }
}

/// The token, if it is valid for long enough, with its number.
fn usable(state: &TokenState) -> Option<(Arc<Token>, u64)> {
    let token = state.token.clone().filter(|token| token.expires_at_ms > now_ms() + SHORTEST_REST_MS)?;
    Some((token, state.number))
}

/// Longer lives are as good as this one, and do not leave the range of the clock.
const LONGEST_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

impl Drop for TokenProvider {
    fn drop(&mut self) {
        lock(&self.wanted.state).ended = true;
        self.wanted.changed.notify_all();
    }
}

impl TokenDemand {
    fn wake(&self) {
        lock(&self.state).now = true;
        self.changed.notify_all();
    }

    /// Sleeps until `at`, or until a connection needs a token. Returns false once the client is dropped.
    fn wait(&self, at: Instant) -> bool {
        let mut state = lock(&self.state);
        while !state.ended && !std::mem::take(&mut state.now) {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        !state.ended
    }
}

/// The thread: fetches tokens when they are due or needed, until the client is dropped.
fn keep(provider: &Weak<TokenProvider>, wanted: &TokenDemand) {
    let mut jitter = Jitter::new(now_ms().unsigned_abs());
    let (mut failures, mut due) = (0, Instant::now());
    while wanted.wait(due) {
        let Some(provider) = provider.upgrade() else { return };
        // Another caller may have asked while a token was being fetched.
        if Instant::now() >= due || usable(&provider.state.borrow()).is_none() {
            due = provider.attempt(&mut failures, &mut jitter);
        }
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
