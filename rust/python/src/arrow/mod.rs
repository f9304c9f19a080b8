//! Arrow through its C interface: columns of other libraries, and ours for them.

pub(crate) mod capsule;
pub(crate) mod extensions;
pub(crate) mod imported;
pub(crate) mod schema;
pub(crate) mod table;
