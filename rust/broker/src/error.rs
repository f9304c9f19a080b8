//! The errors of the broker itself, and those in its answers.

use std::io;
use std::path::PathBuf;

use monedula_protocol::error_code::ErrorCode;

/// The error of a broker that could not be created or started, or could not carry out a command.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A setting that does not exist, or has an invalid value.
    #[error("{name}: {problem}")]
    Setting {
        /// The name of the setting.
        name: String,
        /// The problem, and the valid values.
        problem: String,
    },
    /// A port that could not be opened.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// The host to listen on.
        host: String,
        /// The port to listen on; 0 for any free one.
        port: u16,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of the data directory that could not be read or written.
    #[error("{}: {problem}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A command that cannot be carried out, with the reason.
    #[error("{0}")]
    Command(String),
    /// The broker has stopped.
    #[error("the broker has stopped")]
    Stopped,
}

/// An error code with an optional message for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: Option<String>,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}
