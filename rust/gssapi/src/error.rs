//! What the library, or Kerberos, says, and what that means.

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssError {
    /// The library is not there, or not whole. The text names what was tried.
    #[error("the system's GSSAPI library cannot be loaded ({0})")]
    NoLibrary(String),
    /// The library is there, and lacks a function that is needed for this. The text says what for.
    #[error("the system's GSSAPI library cannot do this: {0}")]
    NotSupported(String),
    /// The keytab is of no use. The text says why.
    #[error("the keytab {0}")]
    Keytab(String),
    /// There is a ticket cache that cannot be read. The text says why.
    #[error("the ticket cache of this process cannot be read: {0}")]
    Cache(String),
    /// A call failed, such as for lack of a ticket.
    #[error("{0}")]
    Failed(Failure),
}

impl GssError {
    /// What is behind it, as far as it is known.
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

/// A call that failed, with both of its codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({call})")]
pub struct Failure {
    /// The function.
    pub call: &'static str,
    /// The status of GSSAPI (RFC 2744, 3.9.1).
    pub major: u32,
    /// The status of the mechanism: Kerberos's code.
    pub minor: u32,
    /// The library's words for both.
    pub message: String,
}

/// What a failure means for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no library.
    NoLibrary,
    /// The library cannot do what was asked.
    NotSupported,
    /// There is no ticket in the cache.
    NoTicket,
    /// The ticket has expired.
    Expired,
    /// The clocks of this machine and the KDC or service differ by too much.
    ClockSkew,
    /// The KDC does not know the service.
    UnknownService,
    /// The KDC does not know the client's principal.
    UnknownClient,
    /// The keytab has another key than the KDC, or an old one.
    WrongKey,
    /// A keytab cannot be read, or has no key of the principal.
    Keytab,
    /// No KDC answered, or none could be found. Another attempt may succeed.
    NoKdc,
    /// `krb5.conf` is wrong, or does not know the realm.
    Configuration,
    /// The other side did not prove that it is the service, or does not speak GSSAPI.
    Untrusted,
    /// Something else.
    Other,
}

/// Major statuses (RFC 2744, 3.9.1).
pub(crate) mod major {
    /// Calling and routine errors; what is below are hints.
    pub(crate) const ERRORS: u32 = 0xffff_0000;
    /// The routine error alone.
    pub(crate) const ROUTINE: u32 = 0x00ff_0000;
    pub(crate) const CONTINUE_NEEDED: u32 = 1;
    pub(crate) const BAD_SIG: u32 = 6 << 16;
    pub(super) const NO_CRED: u32 = 7 << 16;
    pub(crate) const NO_CONTEXT: u32 = 8 << 16;
    pub(super) const DEFECTIVE_TOKEN: u32 = 9 << 16;
    pub(super) const CREDENTIALS_EXPIRED: u32 = 11 << 16;
    /// No error of GSSAPI's own: the minor status says what it is.
    pub(crate) const FAILURE: u32 = 13 << 16;
}

/// Kerberos's codes count from here, in MIT's and in Heimdal's library: first those of RFC 4120 (7.5.9), then the library's
/// own from 128 on.
const KRB5: i32 = -1_765_328_384;

/// Whether there is no ticket cache, or nothing of what was looked for in it.
pub(crate) fn is_missing_cache(code: i32) -> bool {
    matches!(code.wrapping_sub(KRB5), 141 | 195)
}

/// Whether a minor status is an error of the system that may pass, such as a connection that was refused.
fn is_of_the_network(minor: u32) -> bool {
    use std::io::ErrorKind;

    // Kerberos's own codes are negative, and those of GSSAPI's are large.
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
        // A minor status is 32 bits without a sign, and Kerberos's codes are negative.
        let code = (self.minor as i32).wrapping_sub(KRB5);
        match code {
            6 => Cause::UnknownClient,
            7 => Cause::UnknownService,
            // The key has expired, pre-authentication failed, or the KDC's answer cannot be decrypted.
            23 | 24 | 31 | 210 if self.call.starts_with("gss_acquire_cred") => Cause::WrongKey,
            32 => Cause::Expired,
            // Not yet valid, or too great a skew in a ticket or in the KDC's answer.
            33 | 37 | 148 => Cause::ClockSkew,
            // The KDC is busy; none is known for the realm, none answers, none can be resolved.
            29 | 154 | 156 | 220 => Cause::NoKdc,
            // krb5.conf is missing or malformed, has no realm for the host, or no default realm.
            135 | 136 | 217 | 224 => Cause::Configuration,
            // The name of the keytab, its entries, its version and its format.
            179 | 180 | 181 | 182 | 213 | 230 | 235 => Cause::Keytab,
            // Mutual authentication failed, by the service's message or by the KDC's.
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
