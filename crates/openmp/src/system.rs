//! What the system offers only by unsafe calls.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Runs when the library is loaded, before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        crate::regions::load();
    }
    start
};

/// Runs when the program ends by `exit` or by returning from `main`.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = {
    extern "C" fn end() {
        crate::regions::finish();
    }
    end
};

/// Maps `words` words of a file that other processes may read; the file is made as long. Returns `None` if that fails.
pub(crate) fn map(path: &Path, words: usize) -> Option<&'static [AtomicU64]> {
    let bytes = words * size_of::<u64>();
    let mut options = std::fs::OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).ok()?;
    // A longer file would hold something else.
    let length = file.metadata().ok()?.len();
    if length != 0 && length != bytes as u64 {
        return None;
    }
    file.set_len(bytes as u64).ok()?;
    // SAFETY: a new mapping of an open file.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping has these words, is aligned to a page, and is never unmapped; other processes only change it by whole words.
    Some(unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), words) })
}

/// A file that is loaded: the program itself, or a library.
pub(crate) struct Module {
    /// Its path; that of the program if it is the program.
    pub(crate) path: PathBuf,
    /// Where it is loaded.
    pub(crate) base: usize,
    /// Whether it has data of its own for each thread.
    pub(crate) thread_data: bool,
}

/// Returns the module whose code is at `address`.
pub(crate) fn module_of(address: usize) -> Option<Module> {
    struct Search {
        address: usize,
        found: Option<Module>,
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader hands out a valid description.
        let info = unsafe { &*info };
        // SAFETY: it is the pointer that was handed to `dl_iterate_phdr`.
        let search = unsafe { &mut *search.cast::<Search>() };
        // SAFETY: the module has these program headers.
        let segments =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let base = info.dlpi_addr as usize;
        let inside = segments.iter().any(|segment| {
            let start = base.wrapping_add(segment.p_vaddr as usize);
            segment.p_type == libc::PT_LOAD
                && (start..start.wrapping_add(segment.p_memsz as usize)).contains(&search.address)
        });
        if !inside {
            return 0;
        }
        // SAFETY: the name ends with a zero byte.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        let path = match name.is_empty() {
            true => std::fs::read_link("/proc/self/exe").unwrap_or_default(),
            false => PathBuf::from(OsStr::from_bytes(name)),
        };
        search.found = Some(Module {
            path,
            base,
            thread_data: segments
                .iter()
                .any(|segment| segment.p_type == libc::PT_TLS && segment.p_memsz > 0),
        });
        1
    }
    let mut search = Search {
        address,
        found: None,
    };
    // SAFETY: the function is called with this pointer before this call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// The code of a module, and where the module keeps the addresses of functions of other modules.
pub(crate) struct Linked {
    /// Where the module is loaded.
    pub(crate) base: usize,
    /// Its readable segments of code, with their addresses. They are valid as long as the module is loaded.
    pub(crate) code: Vec<(usize, &'static [u8])>,
    /// The places of addresses, each with the name of the function.
    pub(crate) places: Vec<(usize, &'static CStr)>,
}

/// Calls `use_module` with each loaded module that refers to a function with one of `names`. The module stays loaded meanwhile. Cost: a
/// walk through the relocations of all modules.
pub(crate) fn linked(names: &[&CStr], mut use_module: impl FnMut(&Linked)) {
    struct Walk<'a> {
        names: &'a [&'a CStr],
        use_module: &'a mut dyn FnMut(&Linked),
    }
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        walk: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader hands out a valid description, and `walk` is the pointer that was handed to `dl_iterate_phdr`.
        let (info, walk) = unsafe { (&*info, &mut *walk.cast::<Walk<'_>>()) };
        // SAFETY: as above.
        if let Some(module) = unsafe { linked_module(info, walk.names) } {
            (walk.use_module)(&module);
        }
        0
    }
    let mut walk = Walk {
        names,
        use_module: &mut use_module,
    };
    // SAFETY: the function is called with this pointer before this call returns. The loader's lock is held until then, so nothing is
    // unloaded.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
}

/// Returns what a module refers to; `None` if it has none of `names`.
///
/// # Safety
/// `info` is the loader's description of a module that is loaded.
unsafe fn linked_module(info: &libc::dl_phdr_info, names: &[&CStr]) -> Option<Linked> {
    // The kinds of entries of the dynamic section that are read (System V ABI, "Dynamic Section").
    const SYMBOLS: u64 = 6;
    const STRINGS: u64 = 5;
    const RELOCATIONS: u64 = 7;
    const RELOCATIONS_SIZE: u64 = 8;
    const JUMPS: u64 = 23;
    const JUMPS_SIZE: u64 = 2;
    let base = info.dlpi_addr as usize;
    // SAFETY: the module has these program headers.
    let segments =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let dynamic = segments
        .iter()
        .find(|segment| segment.p_type == libc::PT_DYNAMIC)?;
    let entries = dynamic.p_memsz as usize / size_of::<[u64; 2]>();
    let start = base.wrapping_add(dynamic.p_vaddr as usize);
    // SAFETY: the segment is loaded, and has pairs of words.
    let entries = unsafe { std::slice::from_raw_parts(start as *const [u64; 2], entries) };
    let entry = |kind| {
        let live = entries.iter().take_while(|entry| entry[0] != 0);
        live.clone()
            .find(|entry| entry[0] == kind)
            .map(|entry| entry[1] as usize)
    };
    // glibc has added the base already, unless the section is read-only.
    let address = |kind| {
        entry(kind).map(|value| {
            if value < base {
                value.wrapping_add(base)
            } else {
                value
            }
        })
    };
    let (symbols, strings) = (address(SYMBOLS)?, address(STRINGS)?);
    let mut places = Vec::new();
    for (start, size) in [(RELOCATIONS, RELOCATIONS_SIZE), (JUMPS, JUMPS_SIZE)] {
        let (Some(start), Some(size)) = (address(start), entry(size)) else {
            continue;
        };
        // SAFETY: the module has a table of this size there: place, number of the symbol in the upper half, addend.
        let table = unsafe {
            std::slice::from_raw_parts(start as *const [u64; 3], size / size_of::<[u64; 3]>())
        };
        for &[place, kind, _] in table {
            let symbol = (kind >> 32) as usize;
            if symbol == 0 {
                continue;
            }
            // SAFETY: relocations name symbols of the module's table, whose entries have 24 bytes.
            let entry = unsafe { (symbols as *const [u32; 6]).add(symbol).read_unaligned() };
            // The section of the symbol: a module that has the function itself is the runtime, or this library.
            if entry[1] >> 16 != 0 {
                continue;
            }
            // SAFETY: it is the place of a name in the module's table of names.
            let name = unsafe {
                CStr::from_ptr((strings as *const std::ffi::c_char).add(entry[0] as usize))
            };
            if names.contains(&name) {
                places.push((base.wrapping_add(place as usize), name));
            }
        }
    }
    if places.is_empty() {
        return None;
    }
    let readable = |segment: &&libc::Elf64_Phdr| {
        let code = libc::PF_X | libc::PF_R;
        segment.p_type == libc::PT_LOAD && segment.p_flags & code == code
    };
    let code = segments.iter().filter(readable).map(|segment| {
        let start = base.wrapping_add(segment.p_vaddr as usize);
        // SAFETY: the segment is loaded, readable, and nobody writes to it.
        let bytes =
            unsafe { std::slice::from_raw_parts(start as *const u8, segment.p_memsz as usize) };
        (start, bytes)
    });
    Some(Linked {
        base,
        code: code.collect(),
        places,
    })
}

/// Returns the time that all threads of this process have been running.
pub(crate) fn time_of_process() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Lets each forked child call `child` before it goes on.
pub(crate) fn on_fork(child: extern "C" fn()) {
    // SAFETY: the function touches only atomics.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Calls `f` while no signal reaches this thread: the threads that `f` starts get none, either.
pub(crate) fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: a set of signals is plain data.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both sets may be written.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let result = f();
    // SAFETY: the set was filled in above.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    result
}

/// Sets a variable of the environment, or removes it. Only for [`START`].
pub(crate) fn set_variable(name: &str, value: Option<&OsStr>) {
    // SAFETY: the loader runs initialisers one after the other, before the program's own code can start a thread.
    unsafe {
        match value {
            Some(value) => std::env::set_var(name, value),
            None => std::env::remove_var(name),
        }
    }
}

/// Returns the hardware threads in this thread's affinity mask; `None` if there are more than 1,024 in the machine.
pub(crate) fn processors() -> Option<Vec<u32>> {
    // SAFETY: a set of processors is plain data.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the size that is named.
    let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    let within = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the numbers are within the set.
    let usable = within.filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) });
    (answer == 0).then(|| usable.map(|cpu| cpu as u32).collect())
}

/// Returns whether the thread `thread` of this process is there.
pub(crate) fn is_alive(thread: i32) -> bool {
    // SAFETY: signal 0 only asks.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            std::process::id() as libc::pid_t,
            thread as libc::pid_t,
            0,
        )
    };
    answer == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Returns the system's number of this thread.
pub(crate) fn this_thread() -> i32 {
    // SAFETY: it has no precondition.
    unsafe { libc::gettid() }
}
