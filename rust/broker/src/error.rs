//! What can go wrong with the broker itself, as opposed to what it answers.

use std::io;
use std::path::PathBuf;

/// Why a broker could not be made, started or told something.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A setting that does not exist or cannot be.
    #[error("{name}: {problem}")]
    Setting {
        /// Its name.
        name: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A port that could not be listened on.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// The address asked for.
        host: String,
        /// The port asked for; 0 for any.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// A file of the data directory that could not be read or written.
    #[error("{}: {problem}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// What happened.
        problem: String,
    },
    /// A command that cannot be carried out.
    #[error("{0}")]
    Command(String),
    /// The broker has stopped.
    #[error("the broker has stopped")]
    Stopped,
}
