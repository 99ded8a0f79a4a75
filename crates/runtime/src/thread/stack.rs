//! Stacks: the memory of lightweight threads.
//!
//! A *slot* is the memory of one thread: a guard page, the stack, and at its upper end the thread's [`Header`] and whatever has a type that
//! only the creator knows (its hint, its result). Slots of one size are cut from large mappings and are never given back to the system:
//! a header is at the same place for ever, so a thread that wakes another one may look at a header whose thread has ended meanwhile.
//! What a slot holds goes back to the system once too many slots are free.
//!
//! The guard page is one that the kernel marks in the page table (`MADV_GUARD_INSTALL`, Linux 6.13). Before that, it is a mapping of its
//! own, of which a process may have some 65,000 (`vm.max_map_count`), so about 32,000 threads.
//!
//! Headers of neighbouring slots lie at different distances from a page's end: with all at one, threads would meet in the same few sets of
//! a cache (the reason of the page and a line between the stacks of paper 2's threads).

use super::record::Header;
use super::valgrind;
use crate::process::{PerProcess, map_memory};
use parking_lot::Mutex;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Bytes of a page, at most.
const PAGE: usize = if cfg!(target_arch = "x86_64") {
    4 << 10
} else {
    64 << 10
};

/// The least stack, in bytes.
pub(super) const LEAST: usize = 4 * PAGE;

/// The stack of a thread whose builder names no other size, in bytes: address space, of which a thread takes what it touches.
pub(super) const USUAL: usize = 256 << 10;

/// [`class_of`] the usual size.
pub(super) const USUAL_CLASS: usize = (USUAL / LEAST).trailing_zeros() as usize;

/// Sizes of slots: powers of two from [`LEAST`].
const SIZES: usize = (MOST / LEAST).trailing_zeros() as usize + 1;

/// The largest stack, in bytes.
pub(super) const MOST: usize = 256 << 20;

/// Bytes of one mapping, unless a slot is larger.
const MAPPING: usize = 32 << 20;

/// The most mappings of a process.
const MAPPINGS: usize = 1 << 14;

/// How many distances from a page's end headers have.
const COLOURS: usize = 8;

/// Bytes between two such distances: two cache lines, because some machines fetch pairs.
const COLOUR: usize = 128;

/// Free slots of one size that keep their memory.
const WARM: usize = 4096;

/// Free slots that a worker keeps for itself; it takes half as many from the process at once.
pub(super) const CACHE: usize = 128;

/// The free slots of a process, by size.
fn free_slots(class: usize) -> &'static Mutex<Free> {
    static FREE: PerProcess<[Mutex<Free>; SIZES]> = PerProcess::new();
    &FREE.get(Default::default)[class]
}

/// Where the mappings of stacks are: for the handler of page faults, too, which may take no lock. It is 0 throughout when it is made.
struct Mappings {
    each: [Mapping; MAPPINGS],
    made: AtomicUsize,
}

/// The free slots of one size.
#[derive(Default)]
struct Free {
    /// Their memory was used before, and is kept.
    warm: Vec<NonNull<Header>>,
    /// They have no memory.
    cold: Vec<NonNull<Header>>,
    /// The rest of the last mapping: address and number of slots.
    rest: (usize, usize),
}

// SAFETY: a free slot belongs to the list that it is in.
unsafe impl Send for Free {}

struct Mapping {
    base: AtomicPtr<u8>,
    slots: AtomicUsize,
    class: AtomicUsize,
}

/// Null until the first stack is made; never freed. The memory is mapped and no variable, which would part the variables before it from
/// those behind it by a hundred pages: a program without threads would touch a page more at its start.
static ALL: AtomicPtr<Mappings> = AtomicPtr::new(std::ptr::null_mut());

impl Mappings {
    /// Returns those of this process, if there are any.
    fn all() -> Option<&'static Mappings> {
        // SAFETY: what is stored there is never freed.
        unsafe { ALL.load(Acquire).as_ref() }
    }

    /// As [`Mappings::all`], but makes them if there are none.
    ///
    /// # Errors
    /// If the system has no more memory or mappings.
    fn make() -> io::Result<&'static Mappings> {
        if let Some(all) = Mappings::all() {
            return Ok(all);
        }
        let bytes = size_of::<Mappings>().next_multiple_of(PAGE);
        let new = map(bytes, PAGE)?.cast::<Mappings>();
        let first = ALL.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire);
        let all = first.map_or_else(
            |other| {
                // SAFETY: it was mapped just now, and no other thread has seen it.
                unsafe { libc::munmap(new.cast(), bytes) };
                other
            },
            |_| new,
        );
        // SAFETY: as in `all`; new memory is 0, which is a null pointer and numbers.
        Ok(unsafe { &*all })
    }

    /// Returns those that were begun.
    fn begun(&self) -> &[Mapping] {
        &self.each[..self.made.load(Acquire).min(MAPPINGS)]
    }
}

/// Returns which size of slots has stacks of at least `bytes`, `None` if none has.
#[inline]
pub(super) fn class_of(bytes: usize) -> Option<usize> {
    if bytes == USUAL {
        return Some(USUAL_CLASS);
    }
    let size = bytes.max(LEAST).checked_next_power_of_two()?;
    let class = (size / LEAST).trailing_zeros() as usize;
    (class < SIZES).then_some(class)
}

/// Returns the bytes of a slot.
pub(super) const fn size_of_class(class: usize) -> usize {
    LEAST << class
}

/// Appends `number` free slots to `into`.
///
/// # Errors
/// If the system has no more memory or mappings.
pub(super) fn take(class: usize, number: usize, into: &mut Vec<NonNull<Header>>) -> io::Result<()> {
    let mut free = free_slots(class).lock();
    for _ in 0..number {
        let slot = match free.warm.pop().or_else(|| free.cold.pop()) {
            Some(slot) => slot,
            None => match new_slot(class, &mut free.rest) {
                Ok(slot) => slot,
                Err(error) if into.is_empty() => return Err(error),
                Err(_) => return Ok(()),
            },
        };
        into.push(slot);
    }
    Ok(())
}

/// Takes free slots back.
pub(super) fn give_back(class: usize, slots: impl Iterator<Item = NonNull<Header>>) {
    let mut free = free_slots(class).lock();
    for slot in slots {
        if free.warm.len() < WARM {
            free.warm.push(slot);
            continue;
        }
        let (base, size) = (base_of(slot, class), size_of_class(class));
        // SAFETY: the memory is a free slot's, which is initialised anew before it is used, except for its header's atomic words: stale
        // readers take 0 for a thread that nobody waits for.
        let _ = unsafe { libc::madvise(base.cast(), size, libc::MADV_DONTNEED) };
        free.cold.push(slot);
    }
}

/// Returns the lowest address of the slot.
fn base_of(slot: NonNull<Header>, class: usize) -> *mut u8 {
    // Mappings are aligned to the size of their slots.
    slot.as_ptr()
        .cast::<u8>()
        .map_addr(|address| address & !(size_of_class(class) - 1))
}

/// Returns the stack of the slot below `top`, which lies in it: its lowest usable address.
pub(super) fn limit_of(slot: NonNull<Header>, class: usize) -> usize {
    base_of(slot, class).addr() + PAGE
}

/// Returns the address of the header of slot `index` of a mapping at `base`.
fn header_at(base: *mut u8, index: usize, class: usize) -> NonNull<Header> {
    let end = (index + 1) * size_of_class(class);
    let offset = end - size_of::<Header>().next_multiple_of(64) - (index % COLOURS) * COLOUR;
    // SAFETY: it lies in the mapping.
    unsafe { NonNull::new_unchecked(base.add(offset)).cast() }
}

/// Makes a slot out of `rest` of a mapping, or of a new one.
fn new_slot(class: usize, rest: &mut (usize, usize)) -> io::Result<NonNull<Header>> {
    let size = size_of_class(class);
    let all = Mappings::make()?;
    if rest.1 == 0 {
        install_handler();
        let slots = (MAPPING / size).max(1);
        let base = map(slots * size, size)?;
        let index = all.made.fetch_add(1, Relaxed);
        let Some(mapping) = all.each.get(index) else {
            all.made.store(MAPPINGS, Relaxed);
            // SAFETY: it was mapped just now.
            unsafe { libc::munmap(base.cast(), slots * size) };
            return Err(io::Error::other("too many stacks"));
        };
        mapping.slots.store(slots, Relaxed);
        mapping.class.store(class, Relaxed);
        mapping.base.store(base, Release);
        *rest = (index, slots);
    }
    let (mapping, left) = *rest;
    let mapping = &all.each[mapping];
    let base = mapping.base.load(Relaxed);
    let index = mapping.slots.load(Relaxed) - left;
    // SAFETY: it lies in the mapping.
    let slot = unsafe { base.add(index * size) };
    guard(slot)?;
    rest.1 -= 1;
    let header = header_at(base, index, class);
    let lowest = slot.wrapping_add(PAGE).cast_const();
    valgrind::announce(lowest..header.as_ptr().cast_const().cast());
    Ok(header)
}

/// Maps `bytes` bytes at a multiple of `align`, a power of two.
fn map(bytes: usize, align: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    let all = bytes + align;
    // SAFETY: a new mapping touches no other memory.
    let start = unsafe { map_memory(std::ptr::null_mut(), all, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = start.cast::<u8>();
    let before = start.addr().next_multiple_of(align) - start.addr();
    // SAFETY: both parts are of the new mapping, and are not used. Huge pages would give each thread 2 MiB.
    unsafe {
        let base = start.add(before);
        if before > 0 {
            libc::munmap(start.cast(), before);
        }
        if align > before {
            libc::munmap(base.add(bytes).cast(), align - before);
        }
        libc::madvise(base.cast(), bytes, libc::MADV_NOHUGEPAGE);
        // Threads find what is theirs by their addresses.
        let _ = base.expose_provenance();
        Ok(base)
    }
}

/// Makes the page at `page`, which nothing has touched, one that faults.
fn guard(page: *mut u8) -> io::Result<()> {
    /// Linux 6.13.
    const MADV_GUARD_INSTALL: libc::c_int = 102;
    static REFUSED: AtomicBool = AtomicBool::new(false);
    if !REFUSED.load(Relaxed) {
        // SAFETY: the page is the lowest of a slot that nothing uses.
        if unsafe { libc::madvise(page.cast(), PAGE, MADV_GUARD_INSTALL) } == 0 {
            return Ok(());
        }
        REFUSED.store(true, Relaxed);
    }
    // SAFETY: as above.
    match unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the mappings that were begun.
fn mappings() -> &'static [Mapping] {
    Mappings::all().map_or(&[], Mappings::begun)
}

/// Calls `look` with the header of every slot that was ever used when this began to look at those of its size, and perhaps of others.
pub(super) fn for_each(mut look: impl FnMut(&'static Header)) {
    for class in 0..SIZES {
        // Not locked meanwhile: a worker that needs slots would wait until it has looked at a million.
        let rest = free_slots(class).lock().rest;
        for (number, mapping) in mappings().iter().enumerate() {
            let base = mapping.base.load(Acquire);
            if base.is_null() || mapping.class.load(Relaxed) != class {
                continue;
            }
            let left = if number == rest.0 { rest.1 } else { 0 };
            let made = mapping.slots.load(Relaxed) - left;
            for index in 0..made {
                // SAFETY: headers are at their places for ever.
                look(unsafe { header_at(base, index, class).as_ref() });
            }
        }
    }
}

/// Returns the mapping that has the address: where it begins, the class of its slots, and the distance of the address. Takes no lock.
fn mapping_of(address: usize) -> Option<(*mut u8, usize, usize)> {
    mappings().iter().find_map(|mapping| {
        let base = mapping.base.load(Acquire);
        let (slots, class) = (mapping.slots.load(Relaxed), mapping.class.load(Relaxed));
        let offset = address.wrapping_sub(base.addr());
        let is_inside = !base.is_null() && offset < slots * size_of_class(class);
        is_inside.then_some((base, class, offset))
    })
}

/// Returns the header of the slot whose guard page has the address, and the bytes of its stack. Takes no lock.
fn overflown(address: usize) -> Option<(NonNull<Header>, usize)> {
    let (base, class, offset) = mapping_of(address)?;
    let size = size_of_class(class);
    (offset % size < PAGE).then(|| (header_at(base, offset / size, class), size))
}

/// Returns the stack of the slot that has the address: what is neither its guard page nor above its header.
#[cfg(sanitized)]
pub(super) fn around(address: usize) -> Option<std::ops::Range<usize>> {
    let (base, class, offset) = mapping_of(address)?;
    let slot = offset / size_of_class(class);
    let top = header_at(base, slot, class).addr().get();
    Some(base.addr() + slot * size_of_class(class) + PAGE..top)
}

/// What was to handle the faults before.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Lets page faults in guard pages end the process with a message that names the thread.
fn install_handler() {
    // No lock: a child of `fork(2)` could find it locked for ever.
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, AcqRel) || cfg!(miri) {
        return;
    }
    // SAFETY: the handler does only what a signal handler may do. The old action is written before the handler can run, and never freed.
    unsafe {
        let before = Box::into_raw(Box::new(std::mem::zeroed::<libc::sigaction>()));
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), before);
        BEFORE.store(before, Release);
        // Its mask is empty: a set of signals is an array of bits.
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
    }
}

/// Gives this OS thread a stack for signal handlers, unless it has one: without, a fault of a lightweight thread that has no stack left
/// could not be reported. The memory is kept for ever.
pub(super) fn ensure_signal_stack() {
    const BYTES: usize = 64 << 10;
    if cfg!(miri) {
        return;
    }
    // SAFETY: asks for, and perhaps sets, this thread's signal stack; the new one is memory of its own, which is never freed.
    unsafe {
        let mut now: libc::stack_t = std::mem::zeroed();
        if libc::sigaltstack(std::ptr::null(), &mut now) != 0
            || now.ss_flags & libc::SS_DISABLE == 0
        {
            return;
        }
        if let Ok(base) = map(BYTES, PAGE) {
            let new = libc::stack_t {
                ss_sp: base.cast(),
                ss_flags: 0,
                ss_size: BYTES,
            };
            libc::sigaltstack(&new, std::ptr::null_mut());
        }
    }
}

/// Handles a page fault.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid pointer.
    let address = unsafe { (*info).si_addr() }.addr();
    if let Some((slot, bytes)) = overflown(address) {
        // SAFETY: headers are at their places for ever; the thread that overflowed is the one that this OS thread runs.
        unsafe { slot.as_ref() }.report_overflow(bytes);
        std::process::abort();
    }
    // SAFETY: the old action was read from the system, and is called as the system would.
    unsafe {
        let before = BEFORE.load(Acquire).as_ref();
        match before.map(|before| (before.sa_sigaction, before.sa_flags)) {
            Some((handler, flags)) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
                if flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(
                        libc::c_int,
                        *mut libc::siginfo_t,
                        *mut libc::c_void,
                    ) = std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
            _ => {
                // The instruction runs again, and the fault ends the process as it would have without us.
                let mut usual: libc::sigaction = std::mem::zeroed();
                usual.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(libc::SIGSEGV, &usual, std::ptr::null_mut());
            }
        }
    }
}
