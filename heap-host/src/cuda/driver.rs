//! The driver's library, found when the program runs instead of when it is
//! linked.
//!
//! `cust` declares the functions of `libcuda.so.1` and expects the linker to
//! find them, so a program built with it neither links on a machine without
//! CUDA nor starts on one without a driver. Here these functions are defined:
//! each jumps to where its slot says, with all arguments as they are, and
//! `cuInit`, which has to come first, loads the library and fills the slots.
//! Without the library it returns an error, as it does where there is no card.
//!
//! That satisfies all references, so the linker takes nothing from a
//! `libcuda.so` that it is given, be that the toolkit's or the empty script
//! `link/lib64/libcuda.so`, to which this repository's `.cargo/config.toml`
//! points `cust`'s build script.

use std::ffi::{CStr, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::Library;

/// Where the driver's library is looked for, in this order; the last is where
/// Windows Subsystem for Linux keeps it.
const PLACES: [&str; 3] = [
    "libcuda.so.1",
    "libcuda.so",
    "/usr/lib/wsl/lib/libcuda.so.1",
];

/// `CUDA_ERROR_NOT_INITIALIZED`.
const NOT_INITIALIZED: c_uint = 3;
/// `CUDA_ERROR_SHARED_OBJECT_INIT_FAILED`: there is no driver.
const NO_LIBRARY: c_uint = 303;
/// `CUDA_ERROR_NOT_FOUND`: the driver is older than this function.
const NOT_FOUND: c_uint = 500;

/// What all functions are before `cuInit`.
extern "C" fn not_initialized() -> c_uint {
    NOT_INITIALIZED
}

/// What functions are that the driver does not have.
extern "C" fn not_found() -> c_uint {
    NOT_FOUND
}

/// One function: its name and its slot.
pub(super) struct Forward {
    name: &'static CStr,
    slot: &'static AtomicPtr<()>,
}

impl Forward {
    pub(super) const fn new(name: &'static str, slot: &'static AtomicPtr<()>) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Self { name, slot },
            Err(_) => panic!("a name ends with its only zero byte"),
        }
    }
}

/// A slot before `cuInit`.
pub(super) const fn slot() -> AtomicPtr<()> {
    AtomicPtr::new(not_initialized as *mut ())
}

/// Defines functions of the driver, and a table of their slots.
macro_rules! forward {
    ($($name:ident)*) => {
        /// One slot per function.
        #[allow(non_upper_case_globals)]
        mod slots {
            $(pub(super) static $name: std::sync::atomic::AtomicPtr<()> = super::super::slot();)*
        }

        $(
            /// Jumps to the driver's function of this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name() {
                super::jump!(slots::$name)
            }
        )*

        /// All of them.
        pub(super) static TABLE: &[super::Forward] = &[
            $(super::Forward::new(concat!(stringify!($name), "\0"), &slots::$name),)*
        ];
    };
}

/// A jump to the address in a slot that leaves all arguments alone.
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($slot:path) => {
        std::arch::naked_asm!("jmp qword ptr [rip + {slot}]", slot = sym $slot)
    };
}
/// As above; x16 is the register that calls may destroy on the way.
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($slot:path) => {
        std::arch::naked_asm!(
            "adrp x16, {slot}",
            "ldr x16, [x16, :lo12:{slot}]",
            "br x16",
            slot = sym $slot
        )
    };
}

use {forward, jump};

#[path = "driver_names.rs"]
mod names;

/// The driver's library, or why there is none.
fn library() -> &'static Result<Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut reason = String::new();
        for place in PLACES {
            // SAFETY: the driver's library, whose initialisers run in every
            // program that uses CUDA.
            match unsafe { Library::new(place) } {
                Ok(library) => {
                    fill(&library);
                    return Ok(library);
                }
                Err(error) if reason.is_empty() => reason = error.to_string(),
                Err(_) => {}
            }
        }
        Err(reason)
    })
}

fn fill(library: &Library) {
    for Forward { name, slot } in names::TABLE {
        // SAFETY: only the address is used, by callers that know the type.
        let symbol = unsafe { library.get::<*mut ()>(name.to_bytes_with_nul()) };
        let address = symbol.map_or(not_found as *mut (), |symbol| *symbol);
        // Release, though a jump acquires nothing: whoever calls a function
        // has seen `cuInit` return, which is after this.
        slot.store(address, Ordering::Release);
    }
}

/// Why the driver could not be loaded, if that was tried and failed.
pub(super) fn missing() -> Option<&'static str> {
    library().as_ref().err().map(String::as_str)
}

/// Loads the driver and initialises it: the driver's `cuInit`.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
unsafe extern "C" fn cuInit(flags: c_uint) -> c_uint {
    let Ok(library) = library() else {
        return NO_LIBRARY;
    };
    // SAFETY: the type of the driver's function.
    let real = unsafe {
        library.get::<unsafe extern "C" fn(c_uint) -> c_uint>(c"cuInit".to_bytes_with_nul())
    };
    // SAFETY: as the caller promises.
    real.map_or(NOT_FOUND, |init| unsafe { init(flags) })
}
