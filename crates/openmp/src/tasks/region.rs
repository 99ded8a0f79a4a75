//! A parallel region whose threads run tasks.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::groups;
use super::team::{Team, enter, me};

/// What the threads of a region are handed in place of the program's data.
#[repr(C)]
pub(crate) struct Region {
    /// The description of the region's reductions of tasks, if it has any.
    pub(crate) reductions: *mut usize,
    /// The program's function, and what it is called with.
    pub(crate) run: usize,
    pub(crate) data: *mut c_void,
    pub(crate) count: usize,
    team: AtomicPtr<Team>,
    locked: AtomicBool,
}

impl Region {
    /// Returns the region that calls `run` with `data`.
    pub(crate) fn new(run: usize, data: *mut c_void, count: usize) -> Region {
        Region {
            reductions: null_mut(),
            run,
            data,
            count,
            team: AtomicPtr::new(null_mut()),
            locked: AtomicBool::new(false),
        }
    }

    /// Returns the region's team, of `size` threads. All of them call this.
    fn team(&self, size: u16) -> &'static Team {
        loop {
            let team = self.team.load(Ordering::Acquire);
            if !team.is_null() {
                // SAFETY: teams are never freed.
                return unsafe { &*team };
            }
            if !self.locked.swap(true, Ordering::Acquire) {
                let team = Team::of(size, false);
                if !self.reductions.is_null() {
                    // SAFETY: what gcc's code handed to the start of the region.
                    unsafe {
                        groups::register(self.reductions, null_mut(), null_mut(), size.into())
                    };
                }
                self.team
                    .store(std::ptr::from_ref(team).cast_mut(), Ordering::Release);
                return team;
            }
            std::thread::yield_now();
        }
    }

    /// Runs `body` as the thread `index` of `size`, which the runtime calls `number`, and then tasks until none is open.
    pub(crate) fn take_part(&self, size: c_int, index: c_int, number: c_int, body: impl FnOnce()) {
        let size = u16::try_from(size.max(1)).unwrap_or(u16::MAX - 2);
        let team = self.team(size);
        enter(team, index.max(0) as usize, number, || {
            if self.reductions.is_null() {
                body();
            } else if let Some(me) = me() {
                me.begin_group(0).data.set(self.reductions.cast());
                body();
                me.end_group();
            }
        });
    }
}

impl Region {
    /// Returns the number of threads that ran it; 0 if none did.
    pub(crate) fn size(&self) -> usize {
        let team = self.team.load(Ordering::Acquire);
        // SAFETY: teams are never freed.
        unsafe { team.as_ref() }.map_or(0, Team::size)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let team = self.team.load(Ordering::Acquire);
        if !team.is_null() {
            // SAFETY: teams are never freed.
            unsafe { &*team }.put_back();
        }
    }
}
