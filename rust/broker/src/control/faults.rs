//! The commands that set, count, remove and describe faults.

use serde_json::{Value, json};

use crate::BrokerError;
use crate::core::Core;
use crate::faults::Fault;

impl Core {
    /// # Errors
    /// [`BrokerError::Command`] if the fault cannot be set.
    pub(super) fn set_fault_on_command(&mut self, fault: Fault) -> Result<Value, BrokerError> {
        Ok(json!({ "fault": self.faults.set(fault)? }))
    }

    /// # Errors
    /// [`BrokerError::Command`] if there is no such fault.
    pub(super) fn describe_fault_hits(&self, id: u64) -> Result<Value, BrokerError> {
        Ok(json!({ "hits": self.faults.hits(id)? }))
    }

    /// # Errors
    /// [`BrokerError::Command`] if there is no such fault.
    pub(super) fn remove_fault_on_command(&mut self, id: u64) -> Result<Value, BrokerError> {
        Ok(json!({ "hits": self.remove_fault(id)? }))
    }

    pub(super) fn remove_faults(&mut self) -> Value {
        let ids: Vec<u64> = self.faults.all().map(|(id, ..)| id).collect();
        let removed = ids.into_iter().filter(|id| self.remove_fault(*id).is_ok()).count();
        json!({ "removed": removed })
    }

    pub(super) fn describe_faults(&self, with_removed: bool) -> Value {
        let removed = self.faults.removed().filter(|_| with_removed).map(|fault| described(fault, true));
        removed.chain(self.faults.all().map(|fault| described(fault, false))).collect()
    }
}

fn described((id, fault, hits): (u64, &Fault, u64), removed: bool) -> Value {
    json!({ "fault": id, "hits": hits, "what": fault.what, "when": fault.when, "removed": removed })
}
