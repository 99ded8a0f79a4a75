//! Reductions of tasks, as clang's programs describe them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A variable that is reduced.
#[derive(Clone, Copy)]
pub(crate) struct Variable {
    /// Its address in the code that reduces it, and that of what a copy is made from.
    pub(crate) shared: usize,
    pub(crate) original: usize,
    pub(crate) size: usize,
    /// Makes a copy: called with it and the original. None: a copy is of zeros.
    pub(crate) begin: Option<unsafe extern "C-unwind" fn(usize, usize)>,
    /// Destroys a copy.
    pub(crate) end: Option<unsafe extern "C-unwind" fn(usize)>,
    /// Adds the second to the first.
    pub(crate) combine: unsafe extern "C-unwind" fn(usize, usize),
}

/// What one group knows of its variables: their addresses in its thread's code, and the copies.
pub(crate) struct Reduces {
    shared: Vec<usize>,
    copies: *mut Reductions,
}

struct Copies {
    variable: Variable,
    /// Bytes from a thread's copy to the next thread's.
    stride: usize,
    first: usize,
}

/// The copies of variables, one a thread: of one group, or of one a thread of a work-sharing construct or region.
pub(crate) struct Reductions {
    copies: Vec<Copies>,
    threads: usize,
    /// Groups that have not ended: one, or one a thread of a work-sharing construct.
    groups: AtomicUsize,
}

impl Copies {
    fn layout(&self, threads: usize) -> Layout {
        Layout::from_size_align(self.stride * threads, 128).expect("copies fit into memory")
    }
}

impl Reductions {
    /// Returns the copies for `threads` threads, to be ended by `groups` groups.
    ///
    /// # Safety
    /// The functions are clang's.
    pub(crate) unsafe fn new(
        variables: &[Variable],
        threads: usize,
        groups: usize,
    ) -> *mut Reductions {
        let copies = variables.iter().map(|&variable| {
            let stride = variable.size.max(1).next_multiple_of(128);
            let mut copies = Copies {
                variable,
                stride,
                first: 0,
            };
            // SAFETY: the size is not 0; the functions are called with copies.
            unsafe {
                copies.first = alloc_zeroed(copies.layout(threads)) as usize;
                if copies.first == 0 {
                    handle_alloc_error(copies.layout(threads));
                }
                if let Some(begin) = variable.begin {
                    (0..threads).for_each(|thread| {
                        begin(copies.first + thread * stride, variable.original)
                    });
                }
            }
            copies
        });
        Box::into_raw(Box::new(Reductions {
            copies: copies.collect(),
            threads,
            groups: AtomicUsize::new(groups),
        }))
    }
}

impl Reduces {
    /// Returns what a group has whose thread knows the variables of `copies` at the addresses `shared`.
    pub(crate) fn new(shared: Vec<usize>, copies: *mut Reductions) -> *mut Reduces {
        Box::into_raw(Box::new(Reduces { shared, copies }))
    }

    /// Returns the copy of `thread` of the variable that is at `address`, or that has a copy there.
    pub(crate) fn find(&self, address: usize, thread: usize) -> Option<*mut c_void> {
        // SAFETY: the copies live as long as a group has them.
        let all = unsafe { &*self.copies };
        let found = all
            .copies
            .iter()
            .zip(&self.shared)
            .find(|(copies, shared)| {
                let range = copies.first..copies.first + copies.stride * all.threads;
                **shared == address || range.contains(&address)
            });
        found.map(|(copies, _)| (copies.first + thread * copies.stride) as *mut c_void)
    }

    /// The group has ended. The last of those with the same copies adds these up, in the variables as its thread knows them.
    ///
    /// # Safety
    /// The group's tasks have ended, and the group does not use this afterwards.
    pub(crate) unsafe fn end(this: *mut Reduces) {
        // SAFETY: the caller promises it; the functions are clang's.
        unsafe {
            let group = Box::from_raw(this);
            if (*group.copies).groups.fetch_sub(1, Ordering::AcqRel) > 1 {
                return;
            }
            let this = Box::from_raw(group.copies);
            for (copies, &shared) in this.copies.iter().zip(&group.shared) {
                for thread in 0..this.threads {
                    let copy = copies.first + thread * copies.stride;
                    (copies.variable.combine)(shared, copy);
                    if let Some(end) = copies.variable.end {
                        end(copy);
                    }
                }
                dealloc(copies.first as *mut u8, copies.layout(this.threads));
            }
        }
    }
}
