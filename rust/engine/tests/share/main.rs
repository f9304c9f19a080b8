//! A share group's member in virtual time (KIP-932): its membership, its sessions with leaders, and the rows in hand, with
//! what other clients got wrong.

#[path = "../common/mod.rs"]
mod common;
mod held_rows;
mod member;
mod sessions;
mod states;
mod world;
