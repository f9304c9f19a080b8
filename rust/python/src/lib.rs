//! The extension module `monedula._monedula`: thin classes over `monedula-client` and `monedula-broker`.
//!
//! Three rules hold everywhere here: whatever waits or decodes does so detached from the interpreter; no Python object is
//! touched on a tokio thread; nothing of a parent process is touched in a forked child.

mod admin;
mod admin_values;
mod assignor;
mod batch;
mod broker;
mod capsule;
mod config;
mod consumer;
mod error;
mod group;
mod group_state;
mod json_lines;
mod logging;
mod operation;
mod producer;
mod reader;
mod record;
mod rows;
mod runtime;
mod schema;
mod table;

use pyo3::prelude::*;

/// The Rust core of monedula. Everything public is in `monedula` itself.
#[pymodule(gil_used = false)]
mod _monedula {
    #[pymodule_export]
    use super::admin::AdminCore;
    #[pymodule_export]
    use super::assignor::AssignorDesk;
    #[pymodule_export]
    use super::batch::{Batch, Span};
    #[pymodule_export]
    use super::broker::BrokerCore;
    #[pymodule_export]
    use super::config::{check_producer_settings, check_settings, config_keys};
    #[pymodule_export]
    use super::consumer::ConsumerCore;
    #[pymodule_export]
    use super::group::{MemberCore, PendingCallback};
    #[pymodule_export]
    use super::json_lines::json_lines;
    #[pymodule_export]
    use super::operation::Operation;
    #[pymodule_export]
    use super::producer::{
        BatchFuture, CallbackDesk, LoopWaker, ProducerCore, RecordMetadata, SendFuture, TransactionCore,
    };
    #[pymodule_export]
    use super::reader::ReaderCore;
    #[pymodule_export]
    use super::record::Record;
    #[pymodule_export]
    use super::rows::new_holder;
    #[pymodule_export]
    use super::runtime::shutdown;
    #[pymodule_export]
    use super::schema::Schema;
    #[pymodule_export]
    use super::table::Table;
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        runtime::notice_forks(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
