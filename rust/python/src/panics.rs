//! Text of a panic, for the log and for the error of the caller.

use std::io::Write;
use std::thread;

use monedula_client::blocking::is_silent;

/// Has panics of this extension reported in one line. The report of Rust's own library has a backtrace where the
/// environment asks for one, which takes memory: a panic for want of memory then ends in another one, or in a thread
/// that never goes on. Other libraries have a hook of their own.
pub(crate) fn report_briefly() {
    std::panic::set_hook(Box::new(|panic| {
        if is_silent() {
            return;
        }
        let current = thread::current();
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)");
        let name = current.name().unwrap_or("?");
        let place = panic.location();
        let (file, line) = place.map_or(("?", 0), |place| (place.file(), place.line()));
        // Where standard error is closed there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "monedula: the thread {name} panicked at {file}:{line}: {text}");
    }));
}
