//! Errors of an exchange, free of secrets.

use super::Mechanism;
use super::scram::{MAX_ITERATIONS, MIN_ITERATIONS};

/// Failure that ends an exchange. None of its texts holds a secret, a nonce or a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// Bytes that are not the mechanism's next message.
    #[error("{mechanism}: {problem}")]
    Malformed {
        /// The mechanism.
        mechanism: Mechanism,
        /// Description of the fault.
        problem: &'static str,
    },
    /// A user name, password, token or extension that the mechanism cannot carry.
    #[error("{mechanism}: {problem}")]
    Credentials {
        /// The mechanism.
        mechanism: Mechanism,
        /// Description of the fault.
        problem: &'static str,
    },
    /// A nonce that does not begin with the client's: a replay, or an answer to another client.
    #[error("{mechanism}: the server's nonce does not begin with the client's, or adds nothing to it")]
    ForeignNonce {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// SCRAM's `m=`: a mandatory extension, which this side does not know.
    #[error("{mechanism}: the other side demands an extension (m=) that is not known here")]
    MandatoryExtension {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// Too few iterations to protect the password, or so many that they would keep the client busy.
    #[error(
        "{mechanism}: the server demands {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
    )]
    Iterations {
        /// The mechanism.
        mechanism: Mechanism,
        /// The demanded number, or `u64::MAX` if it is larger.
        iterations: u64,
    },
    /// Wrong server signature of SCRAM: the server does not know the password, so it is not the one that it claims to
    /// be.
    #[error(
        "{mechanism}: the server's signature is wrong; it does not know the password, so it may not be the broker that it \
         claims to be"
    )]
    ServerSignature {
        /// The mechanism.
        mechanism: Mechanism,
    },
    /// Refusal by the other side.
    #[error("{mechanism}: refused: {reason}")]
    Refused {
        /// The mechanism.
        mechanism: Mechanism,
        /// Text of the other side.
        reason: String,
    },
    /// A message after the last one of the exchange, or at the wrong time.
    #[error("{mechanism}: a message after the exchange has ended")]
    Ended {
        /// The mechanism.
        mechanism: Mechanism,
    },
}
