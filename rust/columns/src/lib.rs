//! Record batches into Arrow columns.
