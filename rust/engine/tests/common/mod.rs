//! Shared by several of the test programs.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod design;
pub(crate) mod driver;
pub(crate) mod member_world;
