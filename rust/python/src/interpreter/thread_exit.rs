//! Threads that the interpreter ends while they are in this extension.
//!
//! Until 3.13, CPython ends a thread that wants the GIL of an interpreter that ends by `pthread_exit`, wherever in
//! Python's API: in a call, in `str()`, where an object's last reference is dropped. With glibc that unwinds the stack,
//! and Rust's frames cannot be unwound so: one that catches panics aborts the process, and destructors would touch
//! objects that are gone. So a thread parks before its first frame is unwound, as CPython itself has it from 3.14 on.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) use glibc::park_instead;

/// Other C libraries end a thread without unwinding it.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn park_instead() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::cell::{Cell, OnceCell};
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;
    use std::sync::OnceLock;

    use crate::runtime::{is_ending, park_for_ever};

    /// `struct _pthread_cleanup_buffer` of pthread.h.
    #[repr(C)]
    struct CleanupBuffer {
        routine: Option<unsafe extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Self,
    }

    type Routine = unsafe extern "C" fn(*mut c_void);
    type Push = unsafe extern "C" fn(*mut CleanupBuffer, Routine, *mut c_void);

    thread_local! {
        static PARKS: Cell<bool> = const { Cell::new(false) };
        static BUFFER: OnceCell<Box<CleanupBuffer>> = const { OnceCell::new() };
    }

    /// Has this thread park where the interpreter, as it ends, would end it.
    ///
    /// Before each frame that it unwinds, glibc calls the routines of those buffers that lie outside of the rest of the
    /// stack. One on the heap always does.
    #[inline]
    pub(crate) fn park_instead() {
        if !PARKS.get() {
            register();
        }
    }

    #[cold]
    fn register() {
        PARKS.set(true);
        let Some(push) = push() else { return };
        // Nothing is pushed in a thread that runs its last destructors.
        let _ = BUFFER.try_with(|buffer| {
            let empty = || CleanupBuffer { routine: None, argument: null_mut(), cancel_type: 0, previous: null_mut() };
            let address = std::ptr::from_ref::<CleanupBuffer>(buffer.get_or_init(|| Box::new(empty()))).cast_mut();
            // SAFETY: the buffer lives as long as the thread runs code that could end it, is glibc's from here on, and
            // has its layout.
            unsafe { push(address, park, null_mut()) };
        });
    }

    unsafe extern "C" fn park(_: *mut c_void) {
        // A thread that ends itself may.
        if is_ending() {
            park_for_ever();
        }
    }

    /// `_pthread_cleanup_push`, looked up: linked with, it would ask for the version of glibc that this was built with.
    fn push() -> Option<Push> {
        static PUSH: OnceLock<Option<Push>> = OnceLock::new();
        *PUSH.get_or_init(|| {
            // SAFETY: the name ends with a zero.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_pthread_cleanup_push".as_ptr()) };
            // SAFETY: glibc's function of this name, since 2.0, has this type.
            (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Push>(found) })
        })
    }
}
