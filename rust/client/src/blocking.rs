//! Threads for work that blocks, which the system may refuse: its limit of threads is reached, or there is no memory
//! for a stack. That is an error here and never a panic, and the same work may be tried again.

use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use monedula_columns::check_spare;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::lock::lock;
use crate::tasks::caught_now;

/// Reason that blocking work was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRun {
    /// The system grants no thread.
    #[error(
        "the system grants no thread ({0}): a limit of threads (ulimit -u, pids.max of a container) or of memory \
         (ulimit -v) is reached"
    )]
    NoThread(String),
    /// The work panicked, or the runtime ends.
    #[error("{0}")]
    Ended(String),
}

/// Pause before a thread is asked for again.
const RETRY: Duration = Duration::from_millis(100);

/// Work that was begun.
pub type Begun<T> = oneshot::Receiver<Result<T, String>>;

/// Runs `work` on a thread of this runtime that may block.
///
/// # Errors
/// [`NotRun`].
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NotRun> {
    run_patiently(Duration::ZERO, work).await
}

/// Like [`run`], but a thread is asked for again for so long.
///
/// # Errors
/// [`NotRun`].
pub async fn run_patiently<T: Send + 'static>(
    patience: Duration,
    mut work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NotRun> {
    let until = Instant::now().checked_add(patience);
    loop {
        let (refused, reason) = match begin(&Handle::current(), work) {
            Ok(begun) => return done(begun).await,
            Err(refused) => refused,
        };
        let left = until.map_or(RETRY, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(reason);
        }
        tokio::time::sleep(left.min(RETRY)).await;
        work = refused;
    }
}

/// Starts a thread.
///
/// # Errors
/// The system grants none, or has next to no memory.
pub fn start_thread<T: Send + 'static>(
    builder: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    check_spare().map_err(|lack| std::io::Error::new(ErrorKind::OutOfMemory, lack))?;
    builder.spawn(work)
}

/// A thread of this name.
pub fn named(name: &str) -> Builder {
    Builder::new().name(name.into())
}

/// Begins `work` on a thread of the runtime that may block. Dropping the result does not end it.
///
/// # Errors
/// The work, and [`NotRun::NoThread`].
pub fn begin<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    runtime: &Handle,
    work: W,
) -> Result<Begun<T>, (W, NotRun)> {
    if let Err(lack) = check_spare() {
        return Err((work, NotRun::NoThread(lack.to_string())));
    }
    let (sender, begun) = oneshot::channel();
    // The runtime has queued the work when it finds that there is no thread, and panics. It would do it later.
    let queued = Arc::new(Mutex::new(Some(work)));
    let taken = queued.clone();
    let job = move || {
        let work = lock(&taken).take();
        if let Some(work) = work {
            // Nobody may wait any more.
            let _ = sender.send(caught_now(work));
        }
    };
    let Err(reason) = silently(|| runtime.spawn_blocking(job)) else { return Ok(begun) };
    // None if a thread that was busy has taken it meanwhile.
    let work = lock(&queued).take();
    work.map_or(Ok(begun), |work| Err((work, NotRun::NoThread(reason))))
}

async fn done<T>(begun: Begun<T>) -> Result<T, NotRun> {
    match begun.await {
        Ok(outcome) => outcome.map_err(NotRun::Ended),
        Err(_) => Err(NotRun::Ended("its runtime was shut down".into())),
    }
}

/// Lets other tasks of this runtime's thread go on elsewhere while `work` blocks it; without another thread they wait.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    // The runtime would panic, and leave its tasks to nobody.
    match check_threads(1) {
        Ok(()) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}

/// True if the system grants so many threads at once.
///
/// # Errors
/// [`NotRun::NoThread`].
pub fn check_threads(count: usize) -> Result<(), NotRun> {
    let mut threads = Vec::with_capacity(count);
    let mut refusal = None;
    for _ in 0..count {
        let (ends, end) = channel::<()>();
        let wait = move || end.recv().is_ok();
        match start_thread(named("monedula-probe"), wait) {
            Ok(thread) => threads.push((ends, thread)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    for (ends, thread) in threads {
        drop(ends);
        // The thread only waits for its channel, so `join` returns no panic.
        let _ = thread.join();
    }
    refusal.map_or(Ok(()), |error| Err(NotRun::NoThread(error.to_string())))
}

/// Calls what panics if there is no thread. Nobody need hear of the panic, which becomes an error.
///
/// # Errors
/// The panic's message.
pub fn silently<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    SILENT.set(true);
    let outcome = caught_now(call);
    SILENT.set(false);
    outcome
}

/// True if a panic of this thread becomes an error of the caller's.
pub fn is_silent() -> bool {
    SILENT.try_with(Cell::get).unwrap_or_default()
}

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
