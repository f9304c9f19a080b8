//! Connections to brokers: one (`connection`), how its socket is made (`dial`), all of them ([`network`]); and the
//! cluster view that metadata gives (`metadata`).

pub(crate) mod connection;
pub(crate) mod dial;
mod login;
pub(crate) mod metadata;
pub mod network;
