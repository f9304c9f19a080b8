//! Errors of the library and of Kerberos, and their meaning for the user.

/// Error of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssError {
    /// Library missing or incomplete. The text names the candidates.
    #[error("the system's GSSAPI library cannot be loaded ({0})")]
    NoLibrary(String),
    /// Library without a function that is needed. The text names the purpose.
    #[error("the system's GSSAPI library cannot do this: {0}")]
    NotSupported(String),
    /// Unusable keytab, and the reason.
    #[error("the keytab {0}")]
    Keytab(String),
    /// Unreadable ticket cache, and the reason.
    #[error("the ticket cache of this process cannot be read: {0}")]
    Cache(String),
    /// Failed call, such as for lack of a ticket.
    #[error("{0}")]
    Failed(Failure),
}

impl GssError {
    /// Cause of the error, as far as it is known.
    pub fn cause(&self) -> Cause {
        match self {
            Self::NoLibrary(_) => Cause::NoLibrary,
            Self::NotSupported(_) => Cause::NotSupported,
            Self::Keytab(_) => Cause::Keytab,
            Self::Cache(_) => Cause::NoTicket,
            Self::Failed(failure) => failure.cause(),
        }
    }
}

/// A failed call with both of its codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({call})")]
pub struct Failure {
    /// Name of the function.
    pub call: &'static str,
    /// Major status, GSSAPI's (RFC 2744, 3.9.1).
    pub major: u32,
    /// Minor status, the mechanism's: Kerberos's code.
    pub minor: u32,
    /// Messages of the library for both.
    pub message: String,
}

/// Cause of a failure, as the user can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Missing library.
    NoLibrary,
    /// Library that lacks a function for the request.
    NotSupported,
    /// No ticket in the cache.
    NoTicket,
    /// Expired ticket.
    Expired,
    /// Clocks of this machine and of the KDC or service that differ by too much.
    ClockSkew,
    /// Service that the KDC does not know.
    UnknownService,
    /// Principal of the client that the KDC does not know.
    UnknownClient,
    /// Key in the keytab that is not the KDC's, or an old one.
    WrongKey,
    /// Keytab that cannot be read, or has no key of the principal.
    Keytab,
    /// No answer from a KDC, or no KDC found. Another attempt may succeed.
    NoKdc,
    /// `krb5.conf` that is wrong, or does not know the realm.
    Configuration,
    /// Other side that did not prove to be the service, or does not speak GSSAPI.
    Untrusted,
    /// Any other cause.
    Other,
}

/// Major statuses (RFC 2744, 3.9.1).
pub(crate) mod major {
    /// Mask of calling and routine errors; lower bits are supplementary information.
    pub(crate) const ERRORS: u32 = 0xffff_0000;
    /// Mask of the routine error alone.
    pub(crate) const ROUTINE: u32 = 0x00ff_0000;
    pub(crate) const CONTINUE_NEEDED: u32 = 1;
    pub(crate) const BAD_SIG: u32 = 6 << 16;
    pub(super) const NO_CRED: u32 = 7 << 16;
    pub(crate) const NO_CONTEXT: u32 = 8 << 16;
    pub(super) const DEFECTIVE_TOKEN: u32 = 9 << 16;
    pub(super) const CREDENTIALS_EXPIRED: u32 = 11 << 16;
    /// Failure that only the minor status explains.
    pub(crate) const FAILURE: u32 = 13 << 16;
}

/// Base of Kerberos's codes, in MIT's and in Heimdal's library: first the codes of RFC 4120 (7.5.9), then the library's
/// own from 128 on.
const KRB5: i32 = -1_765_328_384;

/// Returns true if there is no ticket cache, or if it lacks the requested entry.
pub(crate) fn is_missing_cache(code: i32) -> bool {
    matches!(code.wrapping_sub(KRB5), 141 | 195)
}

/// Returns true if a minor status is an error of the system that may pass, such as a refused connection.
fn is_of_the_network(minor: u32) -> bool {
    use std::io::ErrorKind;

    // Codes of Kerberos are negative, and codes of GSSAPI are large.
    let Some(errno) = i32::try_from(minor).ok().filter(|errno| (1..1000).contains(errno)) else { return false };
    matches!(
        std::io::Error::from_raw_os_error(errno).kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
            | ErrorKind::Interrupted
            | ErrorKind::OutOfMemory
    )
}

impl Failure {
    fn cause(&self) -> Cause {
        // Converted to signed, since Kerberos's codes are negative.
        let code = (self.minor as i32).wrapping_sub(KRB5);
        match code {
            6 => Cause::UnknownClient,
            7 => Cause::UnknownService,
            // Expired key, failed pre-authentication, or an answer of the KDC that cannot be decrypted.
            23 | 24 | 31 | 210 if self.call.starts_with("gss_acquire_cred") => Cause::WrongKey,
            32 => Cause::Expired,
            // Ticket not yet valid, or too great a skew in a ticket or in the KDC's answer.
            33 | 37 | 148 => Cause::ClockSkew,
            // KDC busy; none known for the realm, none that answers, none that can be resolved.
            29 | 154 | 156 | 220 => Cause::NoKdc,
            // Missing or malformed krb5.conf, no realm for the host, or no default realm.
            135 | 136 | 217 | 224 => Cause::Configuration,
            // Name of the keytab, its entries, its version and its format.
            179 | 180 | 181 | 182 | 213 | 230 | 235 => Cause::Keytab,
            // Failed mutual authentication, by the service's message or by the KDC's.
            31 | 36 | 41 | 46 | 158 => Cause::Untrusted,
            _ if is_of_the_network(self.minor) => Cause::NoKdc,
            _ => self.routine_error(),
        }
    }

    fn routine_error(&self) -> Cause {
        match self.major & major::ROUTINE {
            major::NO_CRED => Cause::NoTicket,
            major::CREDENTIALS_EXPIRED => Cause::Expired,
            major::BAD_SIG | major::DEFECTIVE_TOKEN => Cause::Untrusted,
            _ => Cause::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(call: &'static str, major: u32, minor: i32) -> Cause {
        GssError::Failed(Failure { call, major, minor: minor as u32, message: String::new() }).cause()
    }

    #[test]
    fn kerberos_codes_say_what_failed() {
        let of = |code: i32| cause("gss_init_sec_context", major::FAILURE, KRB5 + code);
        assert_eq!(of(7), Cause::UnknownService);
        assert_eq!(of(32), Cause::Expired);
        assert_eq!(of(37), Cause::ClockSkew);
        assert_eq!(of(156), Cause::NoKdc);
        assert_eq!(of(31), Cause::Untrusted, "of the service's message");
        assert_eq!(cause("gss_acquire_cred_from", major::FAILURE, KRB5 + 24), Cause::WrongKey);
    }

    #[test]
    fn without_a_known_code_the_status_of_gssapi_says_it() {
        let of = |major| cause("gss_unwrap", major, 0);
        assert_eq!(of(major::NO_CRED), Cause::NoTicket);
        assert_eq!(of(major::BAD_SIG), Cause::Untrusted);
        assert_eq!(of(major::DEFECTIVE_TOKEN), Cause::Untrusted);
        assert_eq!(of(major::CREDENTIALS_EXPIRED), Cause::Expired);
        assert_eq!(of(major::FAILURE), Cause::Other);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn errors_of_the_network_may_pass() {
        let of = |errno| cause("gss_init_sec_context", major::FAILURE, errno);
        assert_eq!(of(111), Cause::NoKdc, "ECONNREFUSED");
        assert_eq!(of(110), Cause::NoKdc, "ETIMEDOUT");
        assert_eq!(of(13), Cause::Other, "EACCES");
    }
}
