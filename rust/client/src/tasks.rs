//! Tasks that others wait for: a panic becomes an error, so that no waiter waits for ever.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::time::Instant;

use monedula_columns::OutOfMemory;
use tokio::runtime::Handle;

/// Runs `work` to its result. If it panics, it is dropped and the panic's message is returned.
///
/// # Errors
/// The panic's message. Failing allocations of buffers are panics too.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(payload) => Poll::Ready(Err(reason_of(payload))),
    })
    .await
}

/// Like [`caught`], for a synchronous call.
///
/// # Errors
/// Like [`caught`].
pub(crate) fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(reason_of)
}

/// Has `runtime` run `work`, and blocks this thread until its end, at most until `until`. Returns false if it has not
/// ended, as when the runtime is gone.
pub(crate) fn block_until(runtime: &Handle, until: Instant, work: impl Future<Output = ()> + Send + 'static) -> bool {
    let (done, ended) = channel();
    runtime.spawn(async move {
        work.await;
        let _ = done.send(());
    });
    ended.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
}

fn reason_of(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<OutOfMemory>() {
        Ok(lack) => return lack.to_string(),
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.as_deref().unwrap_or("without a message"))
}

#[cfg(test)]
mod tests {
    use monedula_columns::BufferPool;

    use super::*;

    #[tokio::test]
    async fn what_comes_is_passed_on_and_a_panic_is_told() {
        assert_eq!(caught(async { tokio::task::yield_now().await }).await, Ok(()));
        let panicked = caught(async {
            tokio::task::yield_now().await;
            panic!("at {}", 7)
        });
        let told: Result<(), String> = panicked.await;
        assert_eq!(told, Err("it panicked: at 7".into()));
        let lack = caught_now(|| BufferPool::new(0).take(1 << 60).len());
        assert!(lack.expect_err("nobody has an exbibyte").starts_with("no memory for a buffer of 1152921504606846976"));
    }
}
