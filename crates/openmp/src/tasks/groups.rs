//! Reductions of tasks, as gcc's programs describe them.
//!
//! A description is a row of words: `[0]` number of variables, `[1]` bytes a thread, `[2]` in: alignment, out: where the threads' copies
//! begin, `[4]` the next description, `[5]` ours (0 except in the first of a group), `[6]` out: where the copies end; then three words a
//! variable: `[0]` its address, `[1]` where it lies in a thread's copy, `[2]` ours.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// One description, as it was when it was registered.
struct Part {
    words: *mut usize,
}

/// The reductions of a group: its own, then those of the groups around it.
pub(crate) struct Reductions {
    parts: Vec<Part>,
}

const HEAD: usize = 7;

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), align.max(16).next_power_of_two())
        .expect("the reductions of a team fit into memory")
}

/// Registers the chain of descriptions at `first` for `threads` threads; `around` is what the group around has. Memory is taken from
/// `copied` if another thread of a work-sharing construct registered the same.
///
/// # Safety
/// The descriptions are as gcc makes them; `around` and `copied` are null or registered.
pub(crate) unsafe fn register(
    first: *mut usize,
    around: *mut usize,
    copied: *mut usize,
    threads: usize,
) {
    // SAFETY: the caller promises it.
    unsafe {
        let mut parts = Vec::new();
        let (mut at, mut copied) = (first, copied);
        loop {
            if copied.is_null() {
                let (bytes, align) = (*at.add(1) * threads, *at.add(2));
                let layout = layout(bytes, align);
                let start = alloc_zeroed(layout);
                if start.is_null() {
                    handle_alloc_error(layout);
                }
                *at.add(2) = start as usize;
                *at.add(6) = start as usize + bytes;
                // The alignment is needed to give it back, and this word is ours.
                *at.add(3) = layout.align();
            } else {
                *at.add(2) = *copied.add(2);
                *at.add(6) = *copied.add(6);
                *at.add(3) = *copied.add(3);
                copied = *copied.add(4) as *mut usize;
            }
            *at.add(5) = 0;
            parts.push(Part { words: at });
            let next = *at.add(4) as *mut usize;
            if next.is_null() {
                *at.add(4) = around as usize;
                break;
            }
            at = next;
        }
        if let Some(around) = around.as_ref() {
            let around = std::ptr::from_ref(around).add(5).read() as *const Reductions;
            if let Some(around) = around.as_ref() {
                parts.extend(around.parts.iter().map(|part| Part { words: part.words }));
            }
        }
        *first.add(5) = Box::into_raw(Box::new(Reductions { parts })) as usize;
    }
}

/// Forgets what was registered at `first`, and frees the copies if `own`.
///
/// # Safety
/// It was registered, and its copies are no longer used.
pub(crate) unsafe fn unregister(first: *mut usize, own: bool) {
    // SAFETY: the caller promises it.
    unsafe {
        drop(Box::from_raw(*first.add(5) as *mut Reductions));
        if !own {
            return;
        }
        let mut at = first;
        loop {
            let (start, end) = (*at.add(2), *at.add(6));
            dealloc(start as *mut u8, layout(end - start, *at.add(3)));
            at = *at.add(4) as *mut usize;
            if at.is_null() || *at.add(5) != 0 {
                return;
            }
        }
    }
}

/// Replaces each of the `count` addresses at `pointers` by that of the copy of `thread`. Behind them go the original addresses of the first
/// `originals`. Returns the address that no group knows, if there is one.
///
/// # Safety
/// `first` was registered, and `pointers` has room.
pub(crate) unsafe fn remap(
    first: *mut usize,
    count: usize,
    originals: usize,
    pointers: *mut usize,
    thread: usize,
) -> Result<(), usize> {
    // SAFETY: the caller promises it.
    unsafe {
        let reductions = match first.as_ref() {
            Some(_) => &*(*first.add(5) as *const Reductions),
            None if count == 0 => return Ok(()),
            None => return Err(*pointers),
        };
        for i in 0..count {
            let address = *pointers.add(i);
            let found = reductions.parts.iter().find_map(|part| {
                let words = part.words;
                let variables = (0..*words).map(|n| words.add(HEAD + 3 * n));
                let mut variables = variables.map(|variable| (*variable, *variable.add(1)));
                let (bytes, start, end) = (*words.add(1), *words.add(2), *words.add(6));
                let known = variables.clone().find(|&(original, _)| original == address);
                let known = known.or_else(|| {
                    // It may be the address of some thread's copy.
                    let offset = (start..end)
                        .contains(&address)
                        .then(|| (address - start) % bytes)?;
                    let original = variables.find(|&(_, at)| at == offset);
                    Some((original.map_or(0, |(original, _)| original), offset))
                });
                known.map(|(original, offset)| (original, start + thread * bytes + offset))
            });
            let Some((original, copy)) = found else {
                return Err(address);
            };
            *pointers.add(i) = copy;
            if i < originals {
                *pointers.add(count + i) = original;
            }
        }
        Ok(())
    }
}
