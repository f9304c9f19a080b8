//! Ticket caches, through libkrb5, since GSSAPI has no functions for them.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use crate::error::is_missing_cache;
use crate::library::Handle;

/// Functions of libkrb5, on which the GSSAPI library depends. Without them a cache in memory is kept until the process
/// ends.
pub(crate) struct Caches {
    init_context: unsafe extern "C" fn(*mut Handle) -> i32,
    free_context: unsafe extern "C" fn(Handle),
    resolve: unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> i32,
    default: unsafe extern "C" fn(Handle, *mut Handle) -> i32,
    close: unsafe extern "C" fn(Handle, Handle) -> i32,
    destroy: unsafe extern "C" fn(Handle, Handle) -> i32,
    get_principal: unsafe extern "C" fn(Handle, Handle, *mut Handle) -> i32,
    get_error_message: unsafe extern "C" fn(Handle, i32) -> *const c_char,
    free_error_message: unsafe extern "C" fn(Handle, *const c_char),
    free_principal: unsafe extern "C" fn(Handle, Handle),
}

impl Caches {
    pub(crate) fn of(library: &libloading::Library) -> Option<Self> {
        // SAFETY: the types are declared in krb5.h under these names. The functions are found in the libraries on which
        // this one depends.
        unsafe {
            Some(Self {
                init_context: *library.get(b"krb5_init_context\0").ok()?,
                free_context: *library.get(b"krb5_free_context\0").ok()?,
                resolve: *library.get(b"krb5_cc_resolve\0").ok()?,
                default: *library.get(b"krb5_cc_default\0").ok()?,
                close: *library.get(b"krb5_cc_close\0").ok()?,
                destroy: *library.get(b"krb5_cc_destroy\0").ok()?,
                get_principal: *library.get(b"krb5_cc_get_principal\0").ok()?,
                get_error_message: *library.get(b"krb5_get_error_message\0").ok()?,
                free_error_message: *library.get(b"krb5_free_error_message\0").ok()?,
                free_principal: *library.get(b"krb5_free_principal\0").ok()?,
            })
        }
    }

    pub(crate) fn destroy(&self, name: &CStr) {
        self.with_context(|context| {
            let mut cache = null_mut();
            // SAFETY: the context is initialised, and the cache is used only if it was resolved. Destroying closes it
            // as well.
            unsafe {
                if (self.resolve)(context, name.as_ptr(), &mut cache) == 0 {
                    (self.destroy)(context, cache);
                }
            }
        });
    }

    /// Reason why the process's ticket cache cannot be read; `None` if it can be, or does not exist.
    ///
    /// Checked here because MIT 1.20 frees an uninitialised pointer if the cache is no cache or may not be read
    /// (`krb5_cccol_have_content`), which sometimes crashes the process. In these cases the library is not called.
    pub(crate) fn problem_of_default(&self) -> Option<String> {
        self.with_context(|context| {
            let (mut cache, mut principal) = (null_mut(), null_mut());
            // SAFETY: each function gets the result of the one before, and only if that succeeded.
            let code = unsafe {
                let code = (self.default)(context, &mut cache);
                if code != 0 {
                    return Some(self.words(context, code));
                }
                let code = (self.get_principal)(context, cache, &mut principal);
                if code == 0 {
                    (self.free_principal)(context, principal);
                }
                (self.close)(context, cache);
                code
            };
            (code != 0 && !is_missing_cache(code)).then(|| self.words(context, code))
        })
    }

    fn words(&self, context: Handle, code: i32) -> String {
        // SAFETY: the context is initialised; the text belongs to the library, ends with a NUL, and is copied before it
        // is freed.
        unsafe {
            let text = (self.get_error_message)(context, code);
            if text.is_null() {
                return format!("error {code}");
            }
            let words = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free_error_message)(context, text);
            words
        }
    }

    fn with_context<T: Default>(&self, call: impl FnOnce(Handle) -> T) -> T {
        let mut context = null_mut();
        // SAFETY: the pointer is to a local value; the context is freed once, after its last use.
        unsafe {
            if (self.init_context)(&mut context) != 0 {
                return T::default();
            }
            let result = call(context);
            (self.free_context)(context);
            result
        }
    }
}
