//! The files that settings name: certificates, keys, tokens. Only regular files of a limited size are read, and an
//! error says what is wrong with the path.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::blocking;
use crate::lock::lock;

/// Reads a regular file.
///
/// # Errors
/// Reason that it cannot be read; the caller adds the setting and the path.
pub(crate) fn read(path: &Path, most_bytes: u64) -> Result<Zeroizing<Vec<u8>>, String> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.is_dir() {
        return Err("it is a directory, and a file is expected".into());
    }
    if !metadata.is_file() {
        // Opening a pipe that nobody writes to waits for ever.
        return Err("it is a pipe or a device, and a regular file is expected, which can be read again".into());
    }
    let bytes = metadata.len();
    if bytes > most_bytes {
        return Err(format!("it has {bytes} bytes, more than {most_bytes}"));
    }
    fs::read(path).map(Zeroizing::new).map_err(|error| unreadable(path, &error))
}

pub(crate) fn read_text(path: &Path, most_bytes: u64) -> Result<Zeroizing<String>, String> {
    let bytes = read(path, most_bytes)?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err("it is not UTF-8".into()),
    }
}

/// The system's error, with the fault of the path where the system's text shows it.
fn unreadable(path: &Path, error: &io::Error) -> String {
    let text = path.to_string_lossy();
    let is_quoted = |quote| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
    let hint = match error.kind() {
        io::ErrorKind::NotFound if text.starts_with('~') => "; ~ stands for no directory here: give the whole path",
        io::ErrorKind::NotFound if text.starts_with("file:") => "; a path is expected, and no URL: leave file:// out",
        io::ErrorKind::NotFound if is_quoted('"') || is_quoted('\'') => "; the quotes count as part of the path here",
        _ => "",
    };
    format!("{error}{hint}")
}

/// Runs `work`, which reads files, on a thread of its own: a file system that does not answer holds its caller up for
/// this long only, unless the system grants no thread. `None` if the time is over; the thread goes on.
pub(crate) fn within<T: Send + 'static>(time: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = work.clone();
    let worker = move || {
        let work = lock(&theirs).take();
        // Fails if the caller waits no longer.
        let _ = work.map(|work| sender.send(work()));
    };
    if blocking::start_thread(blocking::named("monedula-files"), worker).is_ok() {
        return receiver.recv_timeout(time).ok();
    }
    let work = lock(&work).take();
    work.map(|work| work())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &str) -> String {
        read(Path::new(path), 1 << 10).expect_err(path)
    }

    #[test]
    fn a_path_that_is_none_is_named_as_what_it_is() {
        assert!(error("~/no/such.pem").contains("~ stands for no directory"));
        assert!(error("file:///no/such.pem").contains("leave file:// out"));
        assert!(error("\"/no/such.pem\"").contains("quotes"));
        assert!(error("'/no/such.pem'").contains("quotes"));
        assert!(!error("/no/such.pem").contains(';'));
        assert!(error("/").contains("directory"));
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_not_read() {
        assert!(error("/dev/zero").contains("a pipe or a device"));
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let path = std::env::temp_dir().join(format!("monedula-files-{}", std::process::id()));
        fs::write(&path, "text").expect("writes");
        assert_eq!(read_text(&path, 4).expect("read").as_str(), "text");
        assert!(read_text(&path, 3).expect_err("too large").contains("4 bytes, more than 3"));
        fs::write(&path, [0xff]).expect("writes");
        assert_eq!(read_text(&path, 4).expect_err("no text"), "it is not UTF-8");
        fs::remove_file(&path).expect("removes");
    }

    #[test]
    fn work_that_does_not_end_is_waited_for_only_so_long() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let (hold, held) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(10), move || held.recv().is_ok()), None);
        drop(hold);
    }
}
