//! Kerberos through the system's GSSAPI library (RFC 2744), which is loaded when the first client logs in with it.
//!
//! The library is not linked: a wheel that linked it could not be imported on systems without it. It is MIT's
//! `libgssapi_krb5`, Heimdal's `libgssapi`, or macOS's GSS framework; all have the same functions. Kerberos's own
//! configuration (`krb5.conf`, `KRB5_CONFIG`, `KRB5CCNAME`) is read by the library alone.
//!
//! This crate knows nothing of SASL or Kafka: it has [`Credential`]s, and [`Context`]s that exchange tokens with a
//! service and wrap messages for it. Every call may block for as long as the KDC and DNS take, so call it on a thread
//! that may block.
//!
//! All modules except `error` contain `unsafe` calls of the library.

mod caches;
mod context;
mod credential;
mod error;
mod library;

pub use context::{Context, Initiated};
pub use credential::{Credential, Identity};
pub use error::{Cause, Failure, GssError};
