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
mod runtime;
mod schema;
mod seconds;
mod table;
mod thread_ids;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The Rust core of monedula. Everything public is in `monedula` itself.
#[pymodule(gil_used = false)]
fn _monedula(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Before any class is made: their types are the process's.
    refuse_subinterpreters()?;
    module.add_class::<admin::AdminCore>()?;
    module.add_class::<assignor::AssignorDesk>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Span>()?;
    module.add_class::<broker::BrokerCore>()?;
    module.add_class::<consumer::ConsumerCore>()?;
    module.add_class::<group::MemberCore>()?;
    module.add_class::<group::PendingCallback>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<producer::BatchFuture>()?;
    module.add_class::<producer::CallbackRunner>()?;
    module.add_class::<producer::WaitingRecordsCore>()?;
    module.add_class::<producer::LoopWaker>()?;
    module.add_class::<producer::ProducerCore>()?;
    module.add_class::<producer::RecordMetadata>()?;
    module.add_class::<producer::SendFuture>()?;
    module.add_class::<producer::TransactionCore>()?;
    module.add_class::<reader::ReaderCore>()?;
    module.add_class::<record::Record>()?;
    module.add_class::<schema::Schema>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(config::check_producer_settings, module)?)?;
    module.add_function(wrap_pyfunction!(config::check_settings, module)?)?;
    module.add_function(wrap_pyfunction!(config::config_keys, module)?)?;
    module.add_function(wrap_pyfunction!(json_lines::json_lines, module)?)?;
    module.add_function(wrap_pyfunction!(thread_ids::new_holder, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::shutdown, module)?)?;
    runtime::notice_forks(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// PyO3 lets the module into another interpreter than the first. What it keeps for the whole process then belongs to one
/// that may end at any time, and the interpreter that is attached to is not the caller's.
fn refuse_subinterpreters() -> PyResult<()> {
    // SAFETY: the GIL is held, so there is an interpreter.
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if id == 0 {
        return Ok(());
    }
    let message = "monedula cannot be imported in a sub-interpreter: its connections and threads belong to the whole process. \
                   Import it in the main interpreter, or use processes";
    Err(PyImportError::new_err(message))
}
