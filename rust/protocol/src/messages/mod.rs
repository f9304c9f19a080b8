//! One file per API key.
