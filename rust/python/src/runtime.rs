//! The tokio runtime of the clients: one per process, started when first needed, stopped at exit. Also the waits of
//! Python threads for it, and the protection of its objects in forked children.

use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use monedula_client::admin::Admin;
use monedula_client::blocking::{self, NotRun};
use monedula_client::consumer::Consumer;
use monedula_client::error::ClientError;
use monedula_client::lock::lock;
use monedula_client::log::Log;
use monedula_client::producer::Failures;
use monedula_client::share::ShareConsumer;
use monedula_client::tasks::caught;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::emergency_allocator;
use crate::error::{exit_error, fork_error, to_py};
use crate::interpreter::attaching;
use crate::interpreter::cancellation::is_cancelled;
use crate::interpreter::greenlets::Pauses;
use crate::interpreter::thread_exit::park_instead;
use crate::logging;
use crate::producer;
use crate::seconds::Seconds;

/// Longest wait before a check for signals: Ctrl-C ends any wait within twice this time.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Time for which producers that are still open may deliver records when the interpreter exits.
const LAST_WORDS: Duration = Duration::from_secs(5);

struct Owned {
    pid: u32,
    /// Never dropped in a forked child, where the threads that it would join do not exist.
    runtime: ManuallyDrop<Runtime>,
    consumers: Vec<Weak<Consumer>>,
    share_consumers: Vec<Weak<ShareConsumer>>,
    admins: Vec<Weak<Admin>>,
    producers: Vec<Weak<producer::Shared>>,
    dropped_producers: Vec<DroppedProducer>,
    /// The tasks in which dropped consumers leave their groups; each lasts at most a second.
    leaving: Vec<JoinHandle<()>>,
}

/// A dropped producer: what is left of it are tasks, and failures that nobody has seen.
struct DroppedProducer {
    /// Deliver its last records.
    tasks: Vec<JoinHandle<()>>,
    failures: Option<Arc<Failures>>,
    log: Log,
}

impl DroppedProducer {
    fn is_of_use(&self) -> bool {
        let is_delivering = self.tasks.iter().any(|task| !task.is_finished());
        is_delivering || self.failures.as_ref().is_some_and(|failures| failures.unseen().0 > 0)
    }
}

/// Number of dropped producers whose remains are kept: failures that nobody has seen may be seen later, by futures.
const MOST_DROPPED: usize = 1000;

/// Longest wait of the interpreter's exit for threads that are about to call Python.
const ARRIVALS: Duration = Duration::from_secs(1);

/// The thread that ends the interpreter, once it does. Any other thread that still calls then is a daemon. It goes on
/// until the interpreter stops it: it may hold a lock of the program's, for which a later exit function waits.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// True if all clients have ended because the interpreter does: no wait of a daemon thread will have a result.
static HAVE_CLIENTS_ENDED: AtomicBool = AtomicBool::new(false);

/// Time for which a thread that looks up names waits for the next one. When one ends, glibc keeps its stack for another
/// thread, which then starts even without memory; but for thread-local data it needs some, and without any, glibc
/// aborts the process. A thread that cannot start at all is an error.
const KEEP_ALIVE: Duration = Duration::from_secs(3600);

static OWNED: Mutex<Option<Owned>> = Mutex::new(None);

/// The runtime of this process, started if necessary. A forked child gets its own, for the objects that it creates.
///
/// # Errors
/// `NoThreadError` if the system has no threads for it, `MemoryError` if it has no memory for a client. The next call
/// tries again.
pub(crate) fn handle() -> PyResult<Handle> {
    // The exception is made after OWNED is unlocked: to make it, the thread attaches to the interpreter.
    emergency_allocator::check()
        .and_then(|()| started_once().map_err(Into::into))
        .map_err(|error| Python::attach(|py| to_py(py, error)))
}

fn started_once() -> Result<Handle, NotRun> {
    let mut owned = lock(&OWNED);
    let pid = std::process::id();
    if let Some(owned) = owned.as_ref().filter(|owned| owned.pid == pid) {
        return Ok(owned.runtime.handle().clone());
    }
    let runtime = started()?;
    let handle = runtime.handle().clone();
    let runtime = ManuallyDrop::new(runtime);
    *owned = Some(Owned {
        pid,
        runtime,
        consumers: Vec::new(),
        share_consumers: Vec::new(),
        admins: Vec::new(),
        producers: Vec::new(),
        dropped_producers: Vec::new(),
        leaving: Vec::new(),
    });
    Ok(handle)
}

/// A runtime with its threads. Besides those that do its I/O it has one that may block from the beginning, for names
/// and for a leader's assignments: where the system grants no other later, they wait for this one.
fn started() -> Result<Runtime, NotRun> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let workers = (cores / 2).clamp(1, 4);
    // Threads are checked here, and not by tokio, which panics if there are none, and may then wait for ever for those
    // that it has started.
    blocking::check_threads(workers + 1)?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).thread_name("monedula-io").thread_keep_alive(KEEP_ALIVE).enable_all();
    let built = blocking::silently(|| builder.build()).map_err(NotRun::NoThread)?;
    let runtime = built.map_err(|error| NotRun::NoThread(error.to_string()))?;
    // A failure is ignored: the first who needs a thread asks again.
    let _ = blocking::begin(runtime.handle(), || ());
    Ok(runtime)
}

/// The error of a call that was to be run on a thread that may block; `otherwise` if the client has ended.
pub(crate) fn not_run(error: NotRun, otherwise: ClientError) -> ClientError {
    match error {
        NotRun::NoThread(_) => error.into(),
        NotRun::Ended(_) => otherwise,
    }
}

/// Registers a consumer: when the interpreter exits it is closed, or, if it was dropped before, has left its group.
pub(crate) fn register(consumer: &Arc<Consumer>) {
    consumer.on_leave_task(keep_leave_task);
    let mut owned = lock(&OWNED);
    if let Some(owned) = owned.as_mut() {
        owned.consumers.retain(|consumer| consumer.strong_count() > 0);
        owned.consumers.push(Arc::downgrade(consumer));
    }
}

/// Registers a share group's consumer, so that it releases its records and leaves when the interpreter exits.
pub(crate) fn register_share(consumer: &Arc<ShareConsumer>) {
    consumer.on_leave_task(keep_leave_task);
    let mut owned = lock(&OWNED);
    if let Some(owned) = owned.as_mut() {
        owned.share_consumers.retain(|consumer| consumer.strong_count() > 0);
        owned.share_consumers.push(Arc::downgrade(consumer));
    }
}

/// Registers an admin client, so that its calls end and its connections are closed when the interpreter exits.
pub(crate) fn register_admin(admin: &Arc<Admin>) {
    let mut owned = lock(&OWNED);
    if let Some(owned) = owned.as_mut() {
        owned.admins.retain(|admin| admin.strong_count() > 0);
        owned.admins.push(Arc::downgrade(admin));
    }
}

/// Registers a producer, so that it delivers its records when the interpreter exits.
pub(crate) fn register_producer(producer: &Arc<producer::Shared>) {
    let mut owned = lock(&OWNED);
    if let Some(owned) = owned.as_mut() {
        owned.producers.retain(|producer| producer.strong_count() > 0);
        owned.producers.push(Arc::downgrade(producer));
    }
}

/// Registers the tasks that deliver the last records of a dropped producer. The interpreter's exit waits for them, and
/// tells of failures that nobody has seen.
pub(crate) fn leave(tasks: Vec<JoinHandle<()>>, failures: Option<Arc<Failures>>, log: &Log) {
    let mut owned = lock(&OWNED);
    if let Some(owned) = owned.as_mut() {
        owned.dropped_producers.retain(DroppedProducer::is_of_use);
        let settled = |producer: &DroppedProducer| producer.tasks.iter().all(JoinHandle::is_finished);
        if owned.dropped_producers.len() >= MOST_DROPPED
            && let Some(oldest) = owned.dropped_producers.iter().position(settled)
        {
            owned.dropped_producers.remove(oldest);
        }
        owned.dropped_producers.push(DroppedProducer { tasks, failures, log: log.clone() });
    }
}

fn keep_leave_task(task: JoinHandle<()>) {
    let mut owned = lock(&OWNED);
    if let Some(owned) = owned.as_mut() {
        owned.leaving.retain(|task| !task.is_finished());
        owned.leaving.push(task);
    }
}

/// Closes every producer, consumer and admin client, stops the runtime, and then stops every embedded broker. Called at
/// interpreter exit.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    py.detach(|| {
        let _ = ENDING.set(std::thread::current().id());
        stop_clients();
        HAVE_CLIENTS_ENDED.store(true, Ordering::Release);
        crate::broker::stop_all();
        logging::end();
        attaching::end(ARRIVALS);
    });
    // No later call can pass these events to `logging`, and records that could not be delivered must not be lost
    // silently.
    logging::flush_last(py);
}

fn stop_clients() {
    let taken = lock(&OWNED).take();
    let Some(owned) = taken else { return };
    let Owned { pid, runtime, consumers, share_consumers, admins, producers, dropped_producers, leaving } = owned;
    if pid != std::process::id() {
        return;
    }
    // Producers end before the consumers, because transactions send the consumers' offsets. All producers share one
    // deadline, or many of them would delay the exit for long.
    let until = Instant::now() + LAST_WORDS;
    for producer in producers.iter().filter_map(Weak::upgrade) {
        producer.end(until);
    }
    runtime.block_on(async {
        for DroppedProducer { tasks, failures, log } in dropped_producers {
            for mut task in tasks {
                if tokio::time::timeout_at(until.into(), &mut task).await.is_err() {
                    // While there still are the connections, which know what brokers owe the records.
                    task.abort();
                    let _ = task.await;
                }
            }
            if let Some(failures) = failures {
                failures.tell_unseen(&log);
            }
        }
    });
    for consumer in consumers.iter().filter_map(Weak::upgrade) {
        consumer.close(Duration::from_secs(1));
    }
    for consumer in share_consumers.iter().filter_map(Weak::upgrade) {
        consumer.close(Duration::from_secs(1));
    }
    runtime.block_on(async {
        for task in leaving {
            let _ = task.await;
        }
    });
    for admin in admins.iter().filter_map(Weak::upgrade) {
        admin.close(Duration::from_secs(1));
    }
    ManuallyDrop::into_inner(runtime).shutdown_timeout(Duration::from_secs(1));
}

/// A value that belongs to the process that created it. In a forked child it can neither be used (its sockets and
/// threads are the parent's) nor dropped (a lock may be held by a thread that does not exist in the child).
pub(crate) struct Own<T> {
    process: u32,
    value: ManuallyDrop<T>,
}

/// The number of forks between the first process and this one. It identifies the process: a system call for the process
/// id would cost a fifth of the time to send a record.
static FORKS: AtomicU32 = AtomicU32::new(0);

#[inline]
fn this_process() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Registers [`forked`] with `os.register_at_fork`, to be called in every forked child.
pub(crate) fn notice_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let _ = IMPORTER.set(std::thread::current().id());
    let os = module.py().import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let options = PyDict::new(module.py());
    options.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    os.getattr("register_at_fork")?.call((), Some(&options))?;
    Ok(())
}

#[pyfunction]
fn forked() {
    logging::forked();
    attaching::forked();
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: this_process(), value: ManuallyDrop::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// `ForkError` in another process than the one that created it.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        park_instead();
        if self.process == this_process() { Ok(self.value.deref()) } else { Err(fork_error()) }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.process == this_process() {
            // SAFETY: dropped once, here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// Calls `step` detached, in slices of [`SLICE`], until it returns a result; checks for signals in between.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    mut step: impl FnMut(Instant) -> Result<Option<T>, ClientError> + Send,
) -> PyResult<T> {
    park_instead();
    let mut pauses = Pauses::begin(py)?;
    loop {
        // Greenlets wait in their hub, since one that blocks the thread stops all others.
        let until = Instant::now() + if pauses.is_some() { Duration::ZERO } else { SLICE };
        match py.detach(|| step(until)) {
            Ok(Some(value)) => return Ok(value),
            Ok(None) if HAVE_CLIENTS_ENDED.load(Ordering::Acquire) && is_ending_elsewhere() => {
                return Err(exit_error(py));
            }
            Ok(None) => {}
            Err(error) => return Err(to_py(py, error)),
        }
        py.check_signals()?;
        if let Some(pauses) = &mut pauses {
            pauses.pause(py)?;
        }
    }
}

/// Waits in slices of [`SLICE`] until `is_done`, which blocks until the time it is given, returns true. Returns false
/// after `timeout`.
pub(crate) fn done_within(
    py: Python<'_>,
    timeout: Option<Seconds>,
    mut is_done: impl FnMut(Instant) -> bool + Send,
) -> PyResult<bool> {
    let deadline = timeout.map(|timeout| timeout.deadline(py)).transpose()?;
    in_slices(py, |until| {
        let done = is_done(deadline.map_or(until, |deadline| until.min(deadline)));
        Ok((done || deadline.is_some_and(|deadline| deadline <= Instant::now())).then_some(done))
    })
}

/// Answer of a registry, which is asked on a thread of its own: other threads of Python run meanwhile, and Ctrl-C
/// ends the wait. So does the end of the task that waits for this thread's call: `Err` has the reason then.
pub(crate) fn asked<T: Send + 'static>(
    py: Python<'_>,
    ask: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> PyResult<Result<T, String>> {
    let (sender, receiver) = mpsc::channel();
    let work = move || {
        // Fails if nobody waits any more.
        let _ = sender.send(ask());
    };
    let spawned = blocking::start_thread(blocking::named("monedula-registry"), work);
    if let Err(error) = spawned {
        return Ok(Err(format!("it cannot be asked: {}", NotRun::NoThread(error.to_string()))));
    }
    in_slices(py, move |until| match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(outcome) => Ok(Some(outcome)),
        Err(RecvTimeoutError::Timeout) if is_cancelled() => {
            Ok(Some(Err("the call was cancelled while the schema registry was asked; no row was sent".into())))
        }
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Ok(Some(Err("asking the schema registry panicked".into()))),
    })
}

thread_local! {
    /// True if a call of this thread has ended because the interpreter does.
    static HAS_HEARD_OF_THE_END: Cell<bool> = const { Cell::new(false) };
}

/// Called before an error says that the client is closed. If it is because the interpreter ends, the thread waits a
/// moment from its second such error on: a daemon thread may catch errors and try again without end.
pub(crate) fn slow_down_at_the_end(py: Python<'_>) {
    if is_ending_elsewhere() && HAS_HEARD_OF_THE_END.replace(true) {
        py.detach(|| std::thread::sleep(SLICE));
    }
}

fn is_ending_elsewhere() -> bool {
    ENDING.get().is_some_and(|&thread| thread != std::thread::current().id())
}

/// The thread that imported this module, in most programs the main one.
static IMPORTER: OnceLock<ThreadId> = OnceLock::new();

pub(crate) fn is_importer() -> bool {
    IMPORTER.get().is_some_and(|&thread| thread == std::thread::current().id())
}

pub(crate) fn is_ending() -> bool {
    ENDING.get().is_some()
}

pub(crate) fn park_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

/// Starts a task on the runtime. Its future is boxed: otherwise tokio's code for a task, some kilobytes, would be
/// compiled for each of a hundred types of futures.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> PyResult<JoinHandle<()>> {
    let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
    let runtime = started_once().map_err(|error| Python::attach(|py| to_py(py, error.into())))?;
    Ok(runtime.spawn(future))
}

/// The result of `future`. A panic becomes an error, because a caller waits for the result.
pub(crate) async fn ended<T>(future: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    caught(future).await.unwrap_or_else(|reason| Err(ClientError::Internal(format!("a call ended: {reason}"))))
}

/// Runs a future on the runtime and waits for it, detached. The exception of a signal handler cancels it.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    future: impl Future<Output = Result<T, ClientError>> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let task = spawn(async move {
        let _ = sender.send(ended(future).await);
    })?;
    let waited = in_slices(py, |until| {
        let receiver = lock(&receiver);
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(result) => result.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(ClientError::Closed),
        }
    });
    task.abort();
    waited
}
