//! Wakes an event loop that awaits futures or operations: one byte on a socket that the loop watches, for any number
//! that are done by then.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use monedula_client::lock::lock;
use pyo3::prelude::*;

use crate::runtime::Own;

#[cfg(unix)]
type Socket = std::os::unix::net::UnixStream;
#[cfg(windows)]
type Socket = std::net::TcpStream;

/// The socket pair of one event loop, with the futures that are done since the loop last checked.
#[pyclass(frozen, module = "monedula._monedula")]
pub(crate) struct LoopWaker {
    shared: Own<Arc<SharedWaker>>,
}

pub(crate) struct SharedWaker {
    /// The numbers by which the loop knows its futures.
    done: Mutex<Vec<u64>>,
    receiver: Socket,
    sender: Socket,
}

impl SharedWaker {
    pub(crate) fn wake(&self, number: u64) {
        let mut done = lock(&self.done);
        done.push(number);
        if done.len() == 1 {
            // A full socket wakes the loop already, and a closed one has no loop to wake.
            drop((&self.sender).write(&[1]));
        }
    }
}

impl LoopWaker {
    pub(crate) fn shared(&self) -> PyResult<Arc<SharedWaker>> {
        Ok(self.shared.get()?.clone())
    }
}

#[pymethods]
impl LoopWaker {
    #[new]
    fn new() -> PyResult<Self> {
        let (receiver, sender) = pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        Ok(Self { shared: Own::new(Arc::new(SharedWaker { done: Mutex::default(), receiver, sender })) })
    }

    /// The file descriptor that the loop has to watch.
    fn fileno(&self) -> PyResult<i64> {
        let shared = self.shared.get()?;
        #[cfg(unix)]
        return Ok(i64::from(std::os::fd::AsRawFd::as_raw_fd(&shared.receiver)));
        #[cfg(windows)]
        return Ok(std::os::windows::io::AsRawSocket::as_raw_socket(&shared.receiver) as i64);
    }

    fn take(&self) -> PyResult<Vec<u64>> {
        let shared = self.shared.get()?;
        let mut bytes = [0; 64];
        // In this order: a future that is done after the byte was read writes another one.
        drop((&shared.receiver).read(&mut bytes));
        Ok(std::mem::take(&mut *lock(&shared.done)))
    }
}

#[cfg(unix)]
fn pair() -> std::io::Result<(Socket, Socket)> {
    Socket::pair()
}

#[cfg(windows)]
fn pair() -> std::io::Result<(Socket, Socket)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let sender = Socket::connect(listener.local_addr()?)?;
    Ok((listener.accept()?.0, sender))
}
