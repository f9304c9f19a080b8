//! FindCoordinator, API key 10, versions 0-6.
//!
//! Version 1 adds the key's type, the throttle time and error messages. 3 is flexible. 4 takes several keys at once
//! (KIP-699): the top-level fields of the response up to 3 are then in each coordinator. 5 may return
//! TRANSACTION_ABORTABLE (KIP-890), 6 adds share groups (KIP-932).

use crate::error_code::ErrorCode;
use crate::wire::api;

api! {
    FindCoordinator, versions 0..=6, flexible 3..;

    /// Finds the coordinators of groups or transactional ids.
    request FindCoordinatorRequest<'a> {
        key: &'a str, 0..=3;
        /// The type of the keys: 0 group ids, 1 transactional ids, 2 partitions of share groups.
        key_type: i8, 1..;
        coordinator_keys: Vec<&'a str>, 4..;
    }

    /// The coordinators.
    response FindCoordinatorResponse<'a> {
        throttle_time_ms: i32, 1.., ignorable;
        error_code: i16, 0..=3;
        error_message: Option<&'a str>, 1..=3, nullable 1..=3, ignorable;
        /// The coordinator's broker id, up to version 3.
        node_id: i32, 0..=3;
        /// The coordinator's advertised host, up to version 3.
        host: &'a str, 0..=3;
        /// The coordinator's advertised port, up to version 3.
        port: i32, 0..=3;
        /// The coordinator of each key, from version 4.
        coordinators: Vec<Coordinator<'a>>, 4..;
    }

    /// The coordinator of one key.
    struct Coordinator<'a> {
        key: &'a str, 4..;
        /// The broker.
        node_id: i32, 4..;
        /// The coordinator's advertised host.
        host: &'a str, 4..;
        /// The coordinator's advertised port.
        port: i32, 4..;
        error_code: i16, 4..;
        error_message: Option<&'a str>, 4.., nullable 4.., ignorable;
    }
}

impl<'a> FindCoordinatorRequest<'a> {
    /// The key type of groups.
    pub const GROUP: i8 = 0;
    /// The key type of transactional ids.
    pub const TRANSACTION: i8 = 1;

    /// A request for the coordinator of one key, as `version` has it.
    pub fn of_key(key: &'a str, key_type: i8, version: i16) -> Self {
        match version {
            ..=3 => Self { key, key_type, ..Default::default() },
            _ => Self { coordinator_keys: vec![key], key_type, ..Default::default() },
        }
    }
}

impl<'a> FindCoordinatorResponse<'a> {
    /// The coordinator of one key in a response of `version`; COORDINATOR_NOT_AVAILABLE if the broker left it out.
    pub fn of_key(&self, key: &str, version: i16) -> Coordinator<'a> {
        if version <= 3 {
            let &Self { error_code, error_message, node_id, host, port, .. } = self;
            return Coordinator { error_code, error_message, node_id, host, port, ..Default::default() };
        }
        let found = self.coordinators.iter().find(|coordinator| coordinator.key == key);
        found.cloned().unwrap_or_else(|| Coordinator {
            error_code: ErrorCode::CoordinatorNotAvailable.code(),
            node_id: -1,
            port: -1,
            ..Default::default()
        })
    }
}
