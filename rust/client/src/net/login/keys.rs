//! Keys derived from the password. A derivation takes milliseconds to half a second of a core, and every broker of a
//! cluster has the same salt, so they are kept.

use std::sync::Arc;

use monedula_protocol::sasl::scram::{KeyDerivation, ScramHash, ScramKeys};

use crate::blocking;

/// Number of salts whose keys are kept. A cluster has one for each user; a new one comes with a new password.
const KEPT: usize = 8;

#[derive(Clone, PartialEq, Eq)]
struct Parameters {
    hash: ScramHash,
    salt: Vec<u8>,
    iterations: u32,
}

#[derive(Default)]
pub(super) struct DerivedKeys(tokio::sync::Mutex<Vec<(Parameters, Arc<ScramKeys>)>>);

impl DerivedKeys {
    /// The keys: known ones, or new ones, which a blocking thread derives. Logins that come meanwhile wait for these.
    ///
    /// # Errors
    /// If the derivation could not be run.
    pub(super) async fn derive(&self, derivation: KeyDerivation) -> Result<Arc<ScramKeys>, String> {
        let KeyDerivation { hash, ref salt, iterations, .. } = derivation;
        let parameters = Parameters { hash, salt: salt.clone(), iterations };
        let mut known = self.0.lock().await;
        if let Some((_, keys)) = known.iter().find(|(known, _)| *known == parameters) {
            return Ok(keys.clone());
        }
        let derived = blocking::run(move || Arc::new(derivation.run())).await;
        let keys = derived.map_err(|error| format!("the keys of the password could not be derived: {error}"))?;
        known.truncate(KEPT - 1);
        known.insert(0, (parameters, keys.clone()));
        Ok(keys)
    }
}
