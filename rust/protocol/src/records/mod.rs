//! Record batches (magic 2): stepping, checking, walking and encoding.
