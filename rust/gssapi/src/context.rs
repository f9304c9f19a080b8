//! Security contexts: the initiator's side of an exchange with one service.

use std::ptr::null_mut;
use std::sync::Arc;

use crate::credential::Credential;
use crate::error::{Failure, GssError, major};
use crate::library::{Buffer, Handle, Library, library};

/// `GSS_C_MUTUAL_FLAG`: the service proves who it is.
const MUTUAL: u32 = 2;
/// `GSS_C_INTEG_FLAG`: messages can be wrapped.
const INTEGRITY: u32 = 32;

/// Result of [`Context::initiate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initiated {
    /// Token for the other side; may be empty.
    pub token: Vec<u8>,
    /// True if the context is established: both sides have proved their identity.
    pub is_complete: bool,
}

/// The context of one exchange with one service.
pub struct Context {
    library: &'static Library,
    handle: Handle,
    target: Handle,
    credential: Arc<Credential>,
    is_complete: bool,
}

// SAFETY: the handles belong to this value alone, and the library permits any thread to use them, one at a time; every
// method that calls it takes `&mut self`.
unsafe impl Send for Context {}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

impl Context {
    /// A context for `service` at `host`, such as `kafka` at `broker.example`.
    ///
    /// # Errors
    /// Failure of the library to make a name of the two.
    pub fn new(credential: Arc<Credential>, service: &str, host: &str) -> Result<Self, GssError> {
        let library = library()?;
        let mut name = library.import(&format!("{service}@{host}"), library.host_based_service)?;
        // Ownership of the name moves to this value, which releases it.
        let target = std::mem::replace(&mut name.handle, null_mut());
        Ok(Self { library, handle: null_mut(), target, credential, is_complete: false })
    }

    /// Processes the other side's token, empty in the first call, and makes the next token for it. The first call may
    /// request a ticket from the KDC.
    ///
    /// # Errors
    /// Error of the library, such as that the KDC does not know the service, or that the other side is not the service.
    pub fn initiate(&mut self, token: &[u8]) -> Result<Initiated, GssError> {
        let (mut minor, input, mut output, mut flags) = (0, Buffer::of(token), Buffer::EMPTY, 0);
        // SAFETY: all pointers are to local values or handles of this value; the library keeps only the context, and
        // allocates the output, which `take` releases.
        let status = unsafe {
            (self.library.init_sec_context)(
                &mut minor,
                self.credential.handle,
                &mut self.handle,
                self.target,
                self.library.kerberos,
                MUTUAL | INTEGRITY,
                0,
                null_mut(),
                &input,
                null_mut(),
                &mut output,
                &mut flags,
                null_mut(),
            )
        };
        let token = self.library.take(output);
        self.library.check("gss_init_sec_context", status, minor)?;
        let is_complete = status & major::CONTINUE_NEEDED == 0;
        if is_complete && flags & (MUTUAL | INTEGRITY) != MUTUAL | INTEGRITY {
            let message = "the service did not prove who it is".to_owned();
            let call = "gss_init_sec_context";
            return Err(GssError::Failed(Failure { call, major: major::BAD_SIG, minor: 0, message }));
        }
        self.is_complete = is_complete;
        Ok(Initiated { token, is_complete })
    }

    /// Unwraps a message of the other side.
    ///
    /// # Errors
    /// Message of another context, or one that was changed on the way.
    pub fn unwrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.check_complete("gss_unwrap")?;
        let (mut minor, input, mut output) = (0, Buffer::of(message), Buffer::EMPTY);
        // SAFETY: same as in `initiate`; null is permitted for outputs that are not needed.
        let status =
            unsafe { (self.library.unwrap)(&mut minor, self.handle, &input, &mut output, null_mut(), null_mut()) };
        let content = self.library.take(output);
        self.library.check("gss_unwrap", status, minor)?;
        Ok(content)
    }

    /// Wraps a message for the other side: protected against change, but readable.
    ///
    /// # Errors
    /// Context that is not established.
    pub fn wrap(&mut self, content: &[u8]) -> Result<Vec<u8>, GssError> {
        self.check_complete("gss_wrap")?;
        let (mut minor, input, mut output) = (0, Buffer::of(content), Buffer::EMPTY);
        // SAFETY: same as in `initiate`.
        let status = unsafe { (self.library.wrap)(&mut minor, self.handle, 0, 0, &input, null_mut(), &mut output) };
        let message = self.library.take(output);
        self.library.check("gss_wrap", status, minor)?;
        Ok(message)
    }

    /// Guards against Heimdal, which aborts the process if a context is used for messages before it is established.
    fn check_complete(&self, call: &'static str) -> Result<(), GssError> {
        if self.is_complete {
            return Ok(());
        }
        let message = "the context does not stand yet".to_owned();
        Err(GssError::Failed(Failure { call, major: major::NO_CONTEXT, minor: 0, message }))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the handles belong to this value, and null handles are ignored.
        unsafe {
            if !self.handle.is_null() {
                (self.library.delete_sec_context)(&mut 0, &mut self.handle, null_mut());
            }
            (self.library.release_name)(&mut 0, &mut self.target);
        }
    }
}
