//! Credentials: the identity that logs in, and the source of its tickets.

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::caches::Caches;
use crate::error::{GssError, is_missing_cache};
use crate::library::{Handle, KeyValue, KeyValues, Library, Name, library};

/// `GSS_C_INITIATE`.
const INITIATE: i32 = 1;
/// `GSS_C_INDEFINITE`.
const INDEFINITE: u32 = u32::MAX;

/// Identity that logs in, and its tickets. By default, the process's ticket cache and its principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Principal; `None` for the principal of the ticket cache, or the first one of the keytab.
    pub principal: Option<String>,
    /// Keytab by which tickets are obtained. These stay in memory, apart from the user's tickets.
    pub keytab: Option<PathBuf>,
    /// Ticket cache, in Kerberos's notation; `None` for the process's (`KRB5CCNAME`). Ignored with a keytab.
    pub cache: Option<String>,
}

/// Tickets of one principal, or the right to get them. Several threads may use it at once.
pub struct Credential {
    library: &'static Library,
    pub(crate) handle: Handle,
    lifetime: Option<Duration>,
    /// Cache in memory that belongs to this value.
    _cache: Option<OwnCache>,
}

// SAFETY: the library permits any thread to use a credential.
unsafe impl Send for Credential {}
// SAFETY: the library permits concurrent use: both families of libraries lock a credential to change it, and this type
// never changes one.
unsafe impl Sync for Credential {}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl Credential {
    /// Acquires a credential: with a keytab by requesting a ticket from the KDC, else from the ticket cache.
    ///
    /// # Errors
    /// Missing library, or no ticket and no way to obtain one.
    pub fn acquire(identity: &Identity) -> Result<Self, GssError> {
        let library = library()?;
        let name = identity.principal.as_ref().map(|name| library.import(name, library.principal)).transpose()?;
        let mechanisms = Mechanisms::kerberos(library)?;
        let name = name.as_ref();
        match (&identity.keytab, &identity.cache) {
            (Some(keytab), _) => {
                let shown = keytab.display();
                // Checked here, because the library has no error message for this.
                std::fs::File::open(keytab)
                    .map_err(|error| GssError::Keytab(format!("{shown} cannot be read: {error}")))?;
                let mut prefixed = b"FILE:".to_vec();
                prefixed.extend_from_slice(keytab.as_os_str().as_encoded_bytes());
                let cache = OwnCache::new(library);
                let store = [(c"client_keytab", text(prefixed)?), (c"ccache", cache.name.clone())];
                Self::from(library, name, &mechanisms, &store, Some(cache)).map_err(|error| match error {
                    // A missing cache is what the library reports last, after the keytab was of no use.
                    GssError::Failed(failure) if is_missing_cache(failure.minor as i32) => {
                        let whose = identity.principal.as_deref().unwrap_or("anybody");
                        GssError::Keytab(format!("{shown} has no key of {whose}, or is no keytab"))
                    }
                    error => error,
                })
            }
            (None, Some(cache)) => {
                Self::from(library, name, &mechanisms, &[(c"ccache", text(cache.as_bytes().to_vec())?)], None)
            }
            (None, None) => Self::of_process(library, name, &mechanisms),
        }
    }

    /// Remaining validity of the ticket when it was acquired; `None` if it is unlimited or unknown.
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    fn of_process(
        library: &'static Library,
        name: Option<&Name<'_>>,
        mechanisms: &Mechanisms,
    ) -> Result<Self, GssError> {
        if let Some(problem) = library.caches.as_ref().and_then(Caches::problem_of_default) {
            return Err(GssError::Cache(problem));
        }
        let (mut minor, mut handle, mut seconds) = (0, null_mut(), 0);
        // SAFETY: all pointers are to local values or handles that outlive the call; the library copies their contents.
        let major = unsafe {
            (library.acquire_cred)(
                &mut minor,
                name.map_or(null_mut(), |name| name.handle),
                INDEFINITE,
                mechanisms.handle,
                INITIATE,
                &mut handle,
                null_mut(),
                &mut seconds,
            )
        };
        library.check("gss_acquire_cred", major, minor)?;
        Ok(Self { library, handle, lifetime: lifetime(seconds), _cache: None })
    }

    fn from(
        library: &'static Library,
        name: Option<&Name<'_>>,
        mechanisms: &Mechanisms,
        store: &[(&CStr, CString)],
        cache: Option<OwnCache>,
    ) -> Result<Self, GssError> {
        let Some(acquire) = library.acquire_cred_from else {
            let what = "it lacks gss_acquire_cred_from, by which a keytab or a ticket cache is named";
            return Err(GssError::NotSupported(what.into()));
        };
        let elements: Vec<KeyValue> =
            store.iter().map(|(key, value)| KeyValue { key: key.as_ptr(), value: value.as_ptr() }).collect();
        // Two elements at most.
        let store = KeyValues { count: elements.len() as u32, elements: elements.as_ptr() };
        let (mut minor, mut handle, mut seconds) = (0, null_mut(), 0);
        // SAFETY: same as in `of_process`; `store` and its texts outlive the call, too.
        let major = unsafe {
            acquire(
                &mut minor,
                name.map_or(null_mut(), |name| name.handle),
                INDEFINITE,
                mechanisms.handle,
                INITIATE,
                &store,
                &mut handle,
                null_mut(),
                &mut seconds,
            )
        };
        library.check("gss_acquire_cred_from", major, minor)?;
        Ok(Self { library, handle, lifetime: lifetime(seconds), _cache: cache })
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this value. Its cache is destroyed after it.
        unsafe { (self.library.release_cred)(&mut 0, &mut self.handle) };
    }
}

fn lifetime(seconds: u32) -> Option<Duration> {
    (seconds != INDEFINITE).then(|| Duration::from_secs(seconds.into()))
}

fn text(bytes: Vec<u8>) -> Result<CString, GssError> {
    CString::new(bytes).map_err(|_| GssError::NotSupported("a name of a file cannot contain a NUL character".into()))
}

/// Set of mechanisms with Kerberos alone. Without it, the library would look for credentials of all its mechanisms.
struct Mechanisms {
    library: &'static Library,
    handle: Handle,
}

impl Mechanisms {
    fn kerberos(library: &'static Library) -> Result<Self, GssError> {
        let (mut minor, mut handle) = (0, null_mut());
        // SAFETY: the pointers are to local values.
        let major = unsafe { (library.create_empty_oid_set)(&mut minor, &mut handle) };
        library.check("gss_create_empty_oid_set", major, minor)?;
        let mut this = Self { library, handle };
        // SAFETY: the set was made by the library, which copies the object identifier, a constant of its own.
        let major = unsafe { (library.add_oid_set_member)(&mut minor, library.kerberos, &mut this.handle) };
        library.check("gss_add_oid_set_member", major, minor)?;
        Ok(this)
    }
}

impl Drop for Mechanisms {
    fn drop(&mut self) {
        // SAFETY: the set belongs to this value.
        unsafe { (self.library.release_oid_set)(&mut 0, &mut self.handle) };
    }
}

/// A ticket cache in this process's memory, destroyed when dropped. Each credential of a keytab has its own: while a
/// shared cache is refilled, it is empty for a moment, and a login at that moment would find no ticket.
struct OwnCache {
    library: &'static Library,
    name: CString,
}

impl OwnCache {
    fn new(library: &'static Library) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("MEMORY:monedula-{number}")).unwrap_or_default();
        Self { library, name }
    }
}

impl Drop for OwnCache {
    fn drop(&mut self) {
        if let Some(caches) = &self.library.caches {
            caches.destroy(&self.name);
        }
    }
}
