//! Connections to brokers: one (`connection`), its socket (`dial`), through a [`proxy`] or not, and its encryption
//! (`tls`), both as one thing to read from and write to (`transport`), all of them ([`network`]); and the cluster view
//! that metadata gives (`metadata`), or that one call asks for (`describe`).

pub(crate) mod connection;
mod describe;
pub(crate) mod dial;
mod login;
pub(crate) mod metadata;
pub mod network;
pub mod proxy;
pub mod tls;
pub(crate) mod transport;
