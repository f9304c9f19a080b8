//! Tokens by a source in the test, which says what it gives and when.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

type FetchToken = Box<dyn Fn(usize) -> Result<Token, TokenError> + Send + Sync>;

/// Gives what the test says for its n-th call, counted from 1.
struct Source {
    calls: AtomicUsize,
    answer: FetchToken,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl TokenSource for Source {
    fn fetch(&self) -> Result<Token, TokenError> {
        (self.answer)(self.calls.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

fn refresh() -> Refresh {
    Refresh {
        window_factor: 0.8,
        window_jitter: 0.05,
        min_period: Duration::from_secs(60),
        buffer: Duration::from_secs(300),
        backoff: Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(1), factor: 2 },
        patience: PATIENCE,
    }
}

fn provider(
    refresh: Refresh,
    answer: impl Fn(usize) -> Result<Token, TokenError> + Send + Sync + 'static,
) -> (Arc<TokenProvider>, Arc<Source>) {
    let source = Arc::new(Source { calls: AtomicUsize::new(0), answer: Box::new(answer) });
    (TokenProvider::new(source.clone(), refresh), source)
}

fn lasting(name: impl fmt::Display, life: Duration) -> Result<Token, TokenError> {
    let expires_at_ms = now_ms() + life.as_millis() as i64;
    Ok(Token { value: name.to_string().into(), expires_at_ms, extensions: Vec::new() })
}

fn hour(call: usize) -> Result<Token, TokenError> {
    lasting(call, Duration::from_secs(3600))
}

#[test]
fn the_next_token_is_due_after_80_to_85_percent_of_a_life() {
    let hour = Duration::from_secs(3600);
    assert_eq!(refresh().wait(hour, 0), hour.mul_f64(0.8));
    assert_eq!(refresh().wait(hour, u64::MAX).as_secs(), 3060);
}

#[test]
fn the_next_token_is_due_before_the_buffer_and_after_the_period_where_both_fit() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    assert_eq!(refresh().wait(minutes(10), 0), minutes(5));
    assert_eq!(refresh().wait(minutes(6), 0), minutes(1));
    // Neither fits.
    assert_eq!(refresh().wait(minutes(5), 0), minutes(4));
    assert_eq!(refresh().wait(Duration::from_secs(10), 0), Duration::from_secs(8));
}

#[tokio::test]
async fn one_token_serves_all_who_ask() {
    let (provider, source) = provider(refresh(), hour);
    let asking = (0..20).map(|_| {
        let provider = provider.clone();
        tokio::spawn(async move { provider.token().await.map(|(token, _)| token.value.clone()) })
    });
    for asked in asking.collect::<Vec<_>>() {
        assert_eq!(asked.await.expect("joins").expect("a token"), "1".into());
    }
    assert_eq!(source.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end_without_anybody_asking() {
    let (provider, _source) = provider(refresh(), |call| lasting(call, Duration::from_millis(3_000)));
    let (first, _) = provider.token().await.expect("a token");
    let mut state = provider.state.subscribe();
    let renewed = tokio::time::timeout(PATIENCE, state.wait_for(|state| state.number > 1)).await;
    let renewed = renewed.expect("in time").expect("running").token.clone().expect("a token");
    assert!(now_ms() < first.expires_at_ms, "the first has not ended");
    assert_eq!(renewed.value, "2".into());
}

#[tokio::test]
async fn a_source_that_fails_is_asked_again_and_its_last_words_are_told() {
    // The source fails until its failure was seen: whoever asks is told of the newest answer, not of each.
    let seen = Arc::new(AtomicBool::new(false));
    let recovers = seen.clone();
    let (provider, source) = provider(refresh(), move |call| match recovers.load(Ordering::SeqCst) {
        false => Err(TokenError::Failed("busy".into())),
        true => hour(call),
    });
    match provider.token().await {
        Err(NoCredentials::ForNow(reason)) => assert!(reason.contains("busy"), "{reason}"),
        other => panic!("{other:?}"),
    }
    seen.store(true, Ordering::SeqCst);
    let mut state = provider.state.subscribe();
    let found = tokio::time::timeout(PATIENCE, state.wait_for(|state| state.token.is_some())).await;
    let token = found.expect("in time").expect("running").token.clone().expect("a token");
    assert_eq!(token.value, source.calls.load(Ordering::SeqCst).to_string().into());
}

#[tokio::test]
async fn what_the_provider_refuses_is_final() {
    let (provider, source) = provider(refresh(), |_| Err(TokenError::Refused("invalid_client".into())));
    match provider.token().await {
        Err(NoCredentials::Refused { reason, .. }) => assert_eq!(reason, "invalid_client"),
        other => panic!("{other:?}"),
    }
    assert_eq!(source.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_token_that_has_expired_names_the_clocks() {
    let expired = |_| Ok(Token { value: "t".into(), expires_at_ms: now_ms() - 5_000, extensions: Vec::new() });
    let (provider, _source) = provider(refresh(), expired);
    match provider.token().await {
        Err(NoCredentials::ForNow(reason)) => {
            assert!(reason.contains("expired") && reason.contains("clock"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_whose_end_is_out_of_range_has_expired() {
    let expired = |_| Ok(Token { value: "t".into(), expires_at_ms: i64::MIN, extensions: Vec::new() });
    let (provider, _source) = provider(refresh(), expired);
    match provider.token().await {
        Err(NoCredentials::ForNow(reason)) => assert!(reason.contains("expired"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_source_that_panics_is_a_source_that_fails() {
    let (provider, _source) = provider(refresh(), |_| panic!("on purpose"));
    assert!(matches!(provider.token().await, Err(NoCredentials::ForNow(reason)) if reason.contains("panicked")));
}

#[tokio::test]
async fn a_source_that_hangs_is_waited_for_only_so_long() {
    let refresh = Refresh { patience: Duration::from_millis(20), ..refresh() };
    let (provider, _source) = provider(refresh, |_| {
        std::thread::park();
        hour(1)
    });
    assert!(matches!(provider.token().await, Err(NoCredentials::ForNow(reason)) if reason.contains("not returned")));
}

#[tokio::test]
async fn a_token_that_was_refused_when_it_was_new_is_not_replaced() {
    let (provider, _source) = provider(refresh(), hour);
    let (_, number) = provider.token().await.expect("a token");
    assert!(!provider.refused(number));
    // As if it had served for a while.
    let long_ago = Instant::now().checked_sub(2 * FRESH);
    let Some(long_ago) = long_ago else { return };
    provider.state.send_modify(|state| state.fetched_at = Some(long_ago));
    assert!(provider.refused(number));
    let (token, next) = provider.token().await.expect("a token");
    assert_eq!((token.value.clone(), next), ("2".into(), number + 1));
    assert!(provider.refused(number), "a newer one is there");
}

#[tokio::test]
async fn the_thread_ends_with_the_client() {
    let (provider, source) = provider(refresh(), hour);
    provider.token().await.expect("a token");
    let wanted = provider.wanted.clone();
    drop(provider);
    // The thread holds the source through the provider alone, and the provider while it attempts a refresh.
    tokio::time::timeout(PATIENCE, async {
        while !lock(&wanted.state).ended || Arc::strong_count(&source) > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("in time");
}
