//! Functions of the library (RFC 2744) and their argument types, loaded once per process.

use std::ffi::{OsString, c_char, c_void};
use std::sync::OnceLock;

use crate::caches::Caches;
use crate::error::{Failure, GssError, major};

/// Opaque pointer of the library: a name, a credential or a context.
pub(crate) type Handle = *mut c_void;

/// `gss_OID`. The struct behind it is packed in some of macOS's libraries and not in others, so pointers always come
/// from the library itself.
pub(crate) type Oid = *const c_void;

/// `gss_buffer_desc`.
#[repr(C)]
pub(crate) struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    pub(crate) const EMPTY: Self = Self { length: 0, value: std::ptr::null_mut() };

    /// Views `bytes`, for a call that only reads them.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

/// `gss_key_value_element_desc`, for `gss_acquire_cred_from`.
#[repr(C)]
pub(crate) struct KeyValue {
    pub(crate) key: *const c_char,
    pub(crate) value: *const c_char,
}

/// `gss_key_value_set_desc`.
#[repr(C)]
pub(crate) struct KeyValues {
    pub(crate) count: u32,
    pub(crate) elements: *const KeyValue,
}

type AcquireCred = unsafe extern "C" fn(*mut u32, Handle, u32, Handle, i32, *mut Handle, *mut Handle, *mut u32) -> u32;
type AcquireCredFrom = unsafe extern "C" fn(
    *mut u32,
    Handle,
    u32,
    Handle,
    i32,
    *const KeyValues,
    *mut Handle,
    *mut Handle,
    *mut u32,
) -> u32;
type InitSecContext = unsafe extern "C" fn(
    *mut u32,
    Handle,
    *mut Handle,
    Handle,
    Oid,
    u32,
    u32,
    *mut c_void,
    *const Buffer,
    *mut Oid,
    *mut Buffer,
    *mut u32,
    *mut u32,
) -> u32;

/// Functions that every library has.
pub(crate) struct Library {
    pub(crate) import_name: unsafe extern "C" fn(*mut u32, *const Buffer, Oid, *mut Handle) -> u32,
    pub(crate) release_name: unsafe extern "C" fn(*mut u32, *mut Handle) -> u32,
    pub(crate) create_empty_oid_set: unsafe extern "C" fn(*mut u32, *mut Handle) -> u32,
    pub(crate) add_oid_set_member: unsafe extern "C" fn(*mut u32, Oid, *mut Handle) -> u32,
    pub(crate) release_oid_set: unsafe extern "C" fn(*mut u32, *mut Handle) -> u32,
    pub(crate) acquire_cred: AcquireCred,
    pub(crate) release_cred: unsafe extern "C" fn(*mut u32, *mut Handle) -> u32,
    pub(crate) init_sec_context: InitSecContext,
    pub(crate) delete_sec_context: unsafe extern "C" fn(*mut u32, *mut Handle, *mut Buffer) -> u32,
    pub(crate) wrap: unsafe extern "C" fn(*mut u32, Handle, i32, u32, *const Buffer, *mut i32, *mut Buffer) -> u32,
    pub(crate) unwrap: unsafe extern "C" fn(*mut u32, Handle, *const Buffer, *mut Buffer, *mut i32, *mut u32) -> u32,
    pub(crate) release_buffer: unsafe extern "C" fn(*mut u32, *mut Buffer) -> u32,
    pub(crate) display_status: unsafe extern "C" fn(*mut u32, u32, i32, Oid, *mut u32, *mut Buffer) -> u32,
    /// Extension of MIT's, which Heimdal has from version 8 on.
    pub(crate) acquire_cred_from: Option<AcquireCredFrom>,
    /// Functions for caches, if the library exports them.
    pub(crate) caches: Option<Caches>,
    /// Mechanism 1.2.840.113554.1.2.2.
    pub(crate) kerberos: Oid,
    /// Name type 1.2.840.113554.1.2.1.4, for `kafka@host`.
    pub(crate) host_based_service: Oid,
    /// Name type 1.2.840.113554.1.2.2.1, for `anna@REALM`.
    pub(crate) principal: Oid,
    /// Keeps the library loaded, so that the functions stay valid.
    _library: libloading::Library,
}

// SAFETY: functions may be called from any thread, and the object identifiers are constants of the library.
unsafe impl Send for Library {}
// SAFETY: both families of libraries support calls from several threads at once.
unsafe impl Sync for Library {}

/// The environment variable that names the library to load instead of the system's.
const LIBRARY_VARIABLE: &str = "MONEDULA_GSSAPI_LIBRARY";

#[cfg(target_vendor = "apple")]
const NAMES: &[&str] = &[
    "/System/Library/Frameworks/GSS.framework/GSS",
    "/opt/homebrew/opt/krb5/lib/libgssapi_krb5.dylib",
    "/usr/local/opt/krb5/lib/libgssapi_krb5.dylib",
];
#[cfg(all(unix, not(target_vendor = "apple")))]
const NAMES: &[&str] = &["libgssapi_krb5.so.2", "libgssapi.so.3"];
#[cfg(not(unix))]
const NAMES: &[&str] = &[];

/// Returns the library, which the first caller loads. A failure is not remembered: the library may be installed later.
pub(crate) fn library() -> Result<&'static Library, GssError> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let loaded = load(std::env::var_os(LIBRARY_VARIABLE)).map_err(GssError::NoLibrary)?;
    Ok(LIBRARY.get_or_init(|| loaded))
}

/// Loads the named library, or else the system's. The error lists the candidates.
fn load(named: Option<OsString>) -> Result<Library, String> {
    let candidates: Vec<OsString> = match named.filter(|name| !name.is_empty()) {
        Some(name) => vec![name],
        None => NAMES.iter().map(OsString::from).collect(),
    };
    if candidates.is_empty() {
        return Err("this platform has none that is known".into());
    }
    let mut problems = Vec::new();
    for candidate in candidates {
        // SAFETY: the initialisers belong to a Kerberos library of the system, or to the one named in the environment
        // by whoever started the process; neither relies on anything of this process.
        match unsafe { libloading::Library::new(&candidate) }.and_then(Library::of) {
            Ok(library) => return Ok(library),
            Err(error) => problems.push(system_text(&error, &candidate.to_string_lossy())),
        }
    }
    Err(problems.join("; "))
}

/// Error message of the system (the error's source), with the library's name.
fn system_text(error: &libloading::Error, name: &str) -> String {
    let words = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    if words.contains(name) { words } else { format!("{name}: {words}") }
}

impl Library {
    fn of(library: libloading::Library) -> Result<Self, libloading::Error> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field's type is the function's type in RFC 2744, or in the header of the extension.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }?
            };
        }
        Ok(Self {
            import_name: function!("gss_import_name"),
            release_name: function!("gss_release_name"),
            create_empty_oid_set: function!("gss_create_empty_oid_set"),
            add_oid_set_member: function!("gss_add_oid_set_member"),
            release_oid_set: function!("gss_release_oid_set"),
            acquire_cred: function!("gss_acquire_cred"),
            release_cred: function!("gss_release_cred"),
            init_sec_context: function!("gss_init_sec_context"),
            delete_sec_context: function!("gss_delete_sec_context"),
            wrap: function!("gss_wrap"),
            unwrap: function!("gss_unwrap"),
            release_buffer: function!("gss_release_buffer"),
            display_status: function!("gss_display_status"),
            // SAFETY: same as above.
            acquire_cred_from: unsafe { library.get(b"gss_acquire_cred_from\0") }.ok().map(|function| *function),
            caches: Caches::of(&library),
            kerberos: oid(&library, b"gss_mech_krb5\0", b"__gss_krb5_mechanism_oid_desc\0")?,
            host_based_service: oid(
                &library,
                b"GSS_C_NT_HOSTBASED_SERVICE\0",
                b"__gss_c_nt_hostbased_service_oid_desc\0",
            )?,
            principal: oid(&library, b"GSS_KRB5_NT_PRINCIPAL_NAME\0", b"__gss_krb5_nt_principal_name_oid_desc\0")?,
            _library: library,
        })
    }

    /// Checks the status of a call.
    pub(crate) fn check(&self, call: &'static str, major: u32, minor: u32) -> Result<(), GssError> {
        if major & major::ERRORS == 0 {
            return Ok(());
        }
        let own = if minor == 0 { String::new() } else { self.text(minor, OF_MECHANISM) };
        let message = match major & major::ROUTINE {
            major::FAILURE if !own.is_empty() => own,
            _ if own.is_empty() => self.text(major, OF_GSSAPI),
            _ => format!("{}: {own}", self.text(major, OF_GSSAPI)),
        };
        Err(GssError::Failed(Failure { call, major, minor, message }))
    }

    fn text(&self, status: u32, of: i32) -> String {
        // One status may have several texts; the limit guards against a library that never ends.
        const MOST: usize = 8;
        let (mut more, mut texts) = (0, Vec::new());
        for _ in 0..MOST {
            let (mut minor, mut output) = (0, Buffer::EMPTY);
            // SAFETY: all pointers are to local values, which the library does not keep; it allocates the output, which
            // `take` releases.
            let shown = unsafe { (self.display_status)(&mut minor, status, of, self.kerberos, &mut more, &mut output) };
            let text = self.take(output);
            if shown & major::ERRORS != 0 {
                break;
            }
            texts.push(String::from_utf8_lossy(&text).trim().to_owned());
            if more == 0 {
                break;
            }
        }
        texts.join(", ")
    }

    /// Copies a buffer that the library has filled, and releases it.
    pub(crate) fn take(&self, mut buffer: Buffer) -> Vec<u8> {
        if buffer.value.is_null() {
            return Vec::new();
        }
        // SAFETY: the library guarantees this many bytes, which are only read before they are released.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length) }.to_vec();
        // SAFETY: the buffer belongs to the library, and is not used after this.
        unsafe { (self.release_buffer)(&mut 0, &mut buffer) };
        bytes
    }

    /// Imports a name. `kind` is one of this library's object identifiers.
    pub(crate) fn import(&self, name: &str, kind: Oid) -> Result<Name<'_>, GssError> {
        let (mut minor, input, mut handle) = (0, Buffer::of(name.as_bytes()), std::ptr::null_mut());
        // SAFETY: the library copies the name; the other pointers are to local values.
        let major = unsafe { (self.import_name)(&mut minor, &input, kind, &mut handle) };
        self.check("gss_import_name", major, minor)?;
        Ok(Name { library: self, handle })
    }
}

/// `GSS_C_GSS_CODE` and `GSS_C_MECH_CODE`.
const OF_GSSAPI: i32 = 1;
const OF_MECHANISM: i32 = 2;

/// A name of the library, released when dropped.
pub(crate) struct Name<'l> {
    library: &'l Library,
    pub(crate) handle: Handle,
}

impl Drop for Name<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle belongs to this value.
        unsafe { (self.library.release_name)(&mut 0, &mut self.handle) };
    }
}

/// Object identifier: MIT exports a pointer to it, Heimdal the struct itself under another name.
fn oid(library: &libloading::Library, pointer: &[u8], thing: &[u8]) -> Result<Oid, libloading::Error> {
    // SAFETY: only the address of the symbol is taken.
    if let Ok(symbol) = unsafe { library.get::<*const c_void>(thing) } {
        return Ok(*symbol);
    }
    // SAFETY: the symbol is a variable of the type `gss_OID`.
    let symbol = unsafe { library.get::<*const Oid>(pointer) }?;
    // SAFETY: the library has set the variable when it was loaded, and never changes it.
    Ok(unsafe { **symbol })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_named_in_the_error() {
        let error = load(Some("/nowhere/libgssapi.so".into())).err().expect("there is none");
        assert!(error.contains("/nowhere/libgssapi.so"), "{error}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_without_the_functions_is_refused_by_the_name_of_the_first() {
        let error = load(Some("libc.so.6".into())).err().expect("it is another library");
        assert!(error.contains("gss_import_name"), "{error}");
    }

    #[test]
    fn codes_of_the_library_have_words() {
        // Nothing to test on systems without a library.
        let Ok(library) = load(None) else { return };
        // KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN.
        let error =
            library.check("gss_init_sec_context", 13 << 16, (-1_765_328_377_i32) as u32).expect_err("it failed");
        assert_eq!(error.cause(), crate::Cause::UnknownService);
        assert!(error.to_string().contains("gss_init_sec_context") && error.to_string().len() > 30, "{error}");
    }
}
