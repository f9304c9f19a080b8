//! The extension module `monedula._monedula`: thin classes over `monedula-client` and `monedula-broker`.
//!
//! Three rules hold in the whole crate: waiting and decoding happen detached from the interpreter; no tokio thread
//! touches a Python object; a forked child uses nothing that its parent process created.

mod admin;
mod argument;
mod arrow;
mod batch;
mod broker;
mod config;
mod consumer;
mod convert;
mod emergency_allocator;
mod error;
mod filter;
mod formats;
mod interpreter;
mod lines;
mod logging;
mod metric_registry;
mod operation;
mod panics;
mod producer;
mod reader;
mod record;
mod registry;
mod runtime;
mod seconds;
mod secret;
mod share;
mod tokens;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;

/// The Rust core of monedula. The public API is in the package `monedula`.
#[pymodule(gil_used = false)]
fn _monedula(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Subinterpreters are refused before any class is created: PyO3 shares the type objects within the process.
    refuse_subinterpreters()?;
    panics::report_briefly();
    module.add_class::<interpreter::cancellation::CancellableCall>()?;
    module.add_class::<admin::AdminCore>()?;
    module.add_class::<admin::security::AdminSecurityCore>()?;
    module.add_class::<admin::transactions::AdminTransactionsCore>()?;
    module.add_class::<consumer::assignor::AssignorDesk>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Span>()?;
    module.add_class::<broker::BrokerCore>()?;
    module.add_class::<consumer::ConsumerCore>()?;
    module.add_class::<formats::ColumnSpec>()?;
    module.add_class::<consumer::group::MemberCore>()?;
    module.add_class::<consumer::group::PendingCallback>()?;
    module.add_class::<consumer::lane_round::LaneRound>()?;
    module.add_class::<consumer::lane_worker::LaneWorker>()?;
    module.add_class::<consumer::lanes::Lanes>()?;
    module.add_class::<metric_registry::MetricRegistry>()?;
    module.add_class::<operation::Operation>()?;
    module.add_class::<formats::parsed::ParsedAvro>()?;
    module.add_class::<formats::parsed::ParsedProtobuf>()?;
    module.add_class::<producer::BatchFuture>()?;
    module.add_class::<producer::CallbackRunner>()?;
    module.add_class::<producer::QueuedSendsCore>()?;
    module.add_class::<interpreter::loop_waker::LoopWaker>()?;
    module.add_class::<producer::ObservedFuture>()?;
    module.add("ProducerCore", module.py().get_type::<producer::ProducerCore>())?;
    module.add_class::<formats::record_encoder::RecordDraft>()?;
    module.add_class::<producer::RecordMetadata>()?;
    module.add_class::<producer::RecordTable>()?;
    module.add_class::<producer::SendFuture>()?;
    module.add_class::<producer::TransactionCore>()?;
    module.add_class::<reader::ReaderCore>()?;
    module.add_class::<record::Record>()?;
    module.add_class::<registry::RegistryCore>()?;
    module.add_class::<arrow::schema::Schema>()?;
    module.add_class::<share::ShareConsumerCore>()?;
    module.add_class::<secret::PySecret>()?;
    module.add_class::<arrow::table::Table>()?;
    module.add_function(wrap_pyfunction!(config::check_producer_settings, module)?)?;
    module.add_function(wrap_pyfunction!(config::check_settings, module)?)?;
    module.add_function(wrap_pyfunction!(config::config_keys, module)?)?;
    module.add_function(wrap_pyfunction!(config::jaas_options, module)?)?;
    module.add_function(wrap_pyfunction!(formats::json::decode_json, module)?)?;
    module.add_function(wrap_pyfunction!(formats::json::with_json_values, module)?)?;
    module.add_function(wrap_pyfunction!(registry::stable_avro, module)?)?;
    module.add_function(wrap_pyfunction!(lines::csv_lines, module)?)?;
    module.add_function(wrap_pyfunction!(lines::json_lines, module)?)?;
    module.add_function(wrap_pyfunction!(interpreter::thread_ids::new_holder, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::shutdown, module)?)?;
    runtime::notice_forks(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// Raises an ImportError in a sub-interpreter, into which PyO3 would let the module. The objects that PyO3 keeps for
/// the whole process would then belong to an interpreter that may end at any time, and `Python::attach` would attach to
/// another interpreter than the caller's.
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
