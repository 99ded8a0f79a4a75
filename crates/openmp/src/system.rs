//! What the system offers only by unsafe calls.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
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

/// What a module refers to in other modules: its dynamic section (System V ABI, "Dynamic Section"), of a module that is loaded.
pub(crate) struct Dynamic {
    base: usize,
    symbols: usize,
    strings: usize,
    /// Symbols that the table of symbols has at least, as far as a table of hashes says it.
    symbols_least: u32,
    /// Whether the table of symbols has no more than these.
    is_all: bool,
    /// Addresses and entries of the tables of relocations.
    relocations: [(usize, usize); 2],
}

impl Dynamic {
    /// Returns the dynamic section of a module; `None` if it has none that can be read.
    ///
    /// # Safety
    /// `info` is the loader's description of a module that stays loaded as long as the result is used.
    pub(crate) unsafe fn of(info: &libc::dl_phdr_info) -> Option<Dynamic> {
        const JUMPS_SIZE: u64 = 2;
        const HASH: u64 = 4;
        const STRINGS: u64 = 5;
        const SYMBOLS: u64 = 6;
        const RELOCATIONS: u64 = 7;
        const RELOCATIONS_SIZE: u64 = 8;
        const JUMPS: u64 = 23;
        const GNU_HASH: u64 = 0x6fff_fef5;
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
            let mut live = entries.iter().take_while(|entry| entry[0] != 0);
            live.find(|entry| entry[0] == kind)
                .map(|entry| entry[1] as usize)
        };
        // glibc has added the base already, unless the section is read-only.
        let address = |kind| {
            entry(kind).map(|value| match value < base {
                true => value.wrapping_add(base),
                false => value,
            })
        };
        let table = |start, size| match (address(start), entry(size)) {
            (Some(start), Some(size)) => (start, size / size_of::<libc::Elf64_Rela>()),
            _ => (0, 0),
        };
        // Symbols that a file lacks come first in its table: those that it has, and only those, are in the GNU table of hashes. If it has
        // none, that table does not say where they would begin. Its second word is the number of the first; the older table's is the
        // number of all.
        let (hash, gnu) = (address(HASH), address(GNU_HASH));
        let least = hash.or(gnu).map_or(0, |table| {
            // SAFETY: both tables begin with more than two words of 32 bits.
            unsafe { *(table as *const u32).add(1) }
        });
        Some(Dynamic {
            base,
            symbols: address(SYMBOLS)?,
            strings: address(STRINGS)?,
            symbols_least: least,
            is_all: hash.is_some(),
            relocations: [
                table(RELOCATIONS, RELOCATIONS_SIZE),
                table(JUMPS, JUMPS_SIZE),
            ],
        })
    }

    /// Returns all relocations that name a symbol: where they write, and the number of the symbol.
    fn relocations(&self) -> impl Iterator<Item = (usize, u32)> {
        let tables = self.relocations.iter().filter(|(_, count)| *count > 0);
        let tables = tables.map(|&(start, count)| {
            // SAFETY: the module has a table of this size there.
            unsafe { std::slice::from_raw_parts(start as *const libc::Elf64_Rela, count) }
        });
        tables.flatten().filter_map(|one| {
            let symbol = (one.r_info >> 32) as u32;
            (symbol != 0).then(|| (self.base.wrapping_add(one.r_offset as usize), symbol))
        })
    }

    /// Returns the name of symbol `number`, if the module lacks it and `wanted` holds for the name's first byte.
    fn lacks(&self, number: u32, wanted: impl Fn(u8) -> bool) -> Option<&'static CStr> {
        // SAFETY: the table has this symbol, and its name is in the module's table of names, where a zero byte ends it.
        unsafe {
            let symbol = (self.symbols as *const libc::Elf64_Sym)
                .add(number as usize)
                .read_unaligned();
            let name = (self.strings as *const std::ffi::c_char).add(symbol.st_name as usize);
            (symbol.st_shndx == 0 && symbol.st_name != 0 && wanted(*name.cast::<u8>()))
                .then(|| CStr::from_ptr(name))
        }
    }

    /// Returns the names of OpenMP runtimes that the module asks for and does not have: those that begin as theirs do.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &'static CStr> {
        let most = match self.is_all {
            true => None,
            false => self.relocations().map(|(_, symbol)| symbol + 1).max(),
        };
        let count = self.symbols_least.max(most.unwrap_or(0));
        (0..count).filter_map(|number| self.lacks(number, is_runtimes))
    }
}

/// Returns whether names of functions of OpenMP runtimes begin like this: `GOMP_`, `__kmpc_`, `__tgt_`, `omp`.
fn is_runtimes(first: u8) -> bool {
    matches!(first, b'G' | b'_' | b'o')
}

/// A module's constant parts, and where the module keeps the addresses of functions of other modules.
pub(crate) struct Linked {
    /// Where the module is loaded.
    pub(crate) base: usize,
    /// Its readable segments of code, with their addresses. They are valid as long as the module is loaded.
    pub(crate) code: Vec<(usize, &'static [u8])>,
    /// Its data that nobody writes to any more, likewise.
    pub(crate) data: Vec<(usize, &'static [u8])>,
    /// The table of its functions (`.eh_frame_hdr`), likewise.
    pub(crate) functions: Option<(usize, &'static [u8])>,
    /// The places of addresses, each with the name of the function.
    pub(crate) places: Vec<(usize, &'static CStr)>,
}

/// Calls `use_module` with each loaded module that refers to a function of another module for whose name `is_wanted` holds; it is
/// asked for names that may be those of OpenMP runtimes. The module stays loaded meanwhile. Cost: a walk through the relocations of all
/// modules.
pub(crate) fn linked(
    mut is_wanted: impl FnMut(&CStr) -> bool,
    mut use_module: impl FnMut(&Linked),
) {
    struct Walk<'a> {
        is_wanted: &'a mut dyn FnMut(&CStr) -> bool,
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
        if let Some(module) = unsafe { linked_module(info, walk.is_wanted) } {
            (walk.use_module)(&module);
        }
        0
    }
    let mut walk = Walk {
        is_wanted: &mut is_wanted,
        use_module: &mut use_module,
    };
    // SAFETY: the function is called with this pointer before this call returns. The loader's lock is held until then, so nothing is
    // unloaded.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
}

/// Returns what a module refers to; `None` if no name is wanted.
///
/// # Safety
/// `info` is the loader's description of a module that is loaded.
unsafe fn linked_module(
    info: &libc::dl_phdr_info,
    is_wanted: &mut dyn FnMut(&CStr) -> bool,
) -> Option<Linked> {
    // SAFETY: as this function's.
    let dynamic = unsafe { Dynamic::of(info) }?;
    // A module that has the function itself is the runtime, or this library.
    let places = dynamic.relocations().filter_map(|(place, symbol)| {
        let name = dynamic.lacks(symbol, is_runtimes)?;
        is_wanted(name).then_some((place, name))
    });
    let places: Vec<_> = places.collect();
    if places.is_empty() {
        return None;
    }
    let base = info.dlpi_addr as usize;
    // SAFETY: the module has these program headers.
    let segments =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let is_readable =
        |segment: &libc::Elf64_Phdr| segment.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
    let is_code = |segment: &libc::Elf64_Phdr| segment.p_flags & libc::PF_X != 0;
    let constant = |is_wanted: &dyn Fn(&libc::Elf64_Phdr) -> bool| {
        let wanted = segments
            .iter()
            .filter(|segment| is_readable(segment) && is_wanted(segment));
        let parts = wanted.map(|segment| {
            let start = base.wrapping_add(segment.p_vaddr as usize);
            // SAFETY: the segment is loaded, readable, and nobody writes to it.
            let bytes =
                unsafe { std::slice::from_raw_parts(start as *const u8, segment.p_memsz as usize) };
            (start, bytes)
        });
        parts.collect::<Vec<_>>()
    };
    Some(Linked {
        base,
        code: constant(&|one| one.p_type == libc::PT_LOAD && is_code(one)),
        data: constant(&|one| match one.p_type {
            libc::PT_LOAD => !is_code(one),
            // What the loader has written to, and then made read-only.
            kind => kind == libc::PT_GNU_RELRO,
        }),
        functions: constant(&|one| one.p_type == libc::PT_GNU_EH_FRAME).pop(),
        places,
    })
}

/// Returns the time that all threads of this process have been running.
pub(crate) fn time_of_process() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the time that the calling thread has been running.
pub(crate) fn time_of_thread() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure may be written.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the processor's counter of ticks; `None` if this kind of processor has none that is known.
#[inline]
pub(crate) fn ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the instruction has no precondition in programs of Linux, which lets them use it.
        Some(unsafe { std::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
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

/// Starts this process's program again, with the same arguments, in place of itself; with its environment as it is now. Returns if that
/// cannot be done. Only before the program's own code runs.
pub(crate) fn start_again() {
    let Ok(line) = std::fs::read("/proc/self/cmdline") else {
        return;
    };
    let words: Result<Vec<&CStr>, _> = line
        .split_inclusive(|&byte| byte == 0)
        .map(CStr::from_bytes_with_nul)
        .collect();
    let Some(words) = words.ok().filter(|words| !words.is_empty()) else {
        return;
    };
    let mut arguments: Vec<*const std::ffi::c_char> =
        words.iter().map(|word| word.as_ptr()).collect();
    arguments.push(std::ptr::null());
    // By its own path if there still is one: the kernel names the process after it.
    let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    if let Ok(path) = CString::new(path.into_os_string().into_encoded_bytes()) {
        // SAFETY: the texts end with a zero byte, and their list with a null pointer.
        unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
    }
    // SAFETY: as above.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr()) };
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
