//! Protobuf: bad values at every place, and the cost of hostile ones. Decoded values are compared with Google's package
//! in tests/consumer/test_typed_protobuf.py.

#[path = "../../protocol/tests/support/allocations.rs"]
mod allocations;
#[path = "protobuf/frames.rs"]
mod frames;
#[path = "protobuf/hostile.rs"]
mod hostile;
#[path = "protobuf/narrowed.rs"]
mod narrowed;
#[path = "protobuf/shapes.rs"]
mod shapes;
#[path = "protobuf/support.rs"]
mod support;
#[path = "protobuf/texts.rs"]
mod texts;
#[path = "protobuf/writers.rs"]
mod writers;
