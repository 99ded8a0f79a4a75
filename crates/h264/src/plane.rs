//! Memory whose disjoint rectangles several threads read and write. (The other unsafe code is in `recon/kernels.rs` and `lanes.rs`.)
//!
//! A [`Shared`] returns guards of rectangles through `&self`. The caller must ensure that a rectangle held for writing overlaps no other
//! held rectangle; the dependencies between stages (see [`recon`](crate::recon)) ensure it. Builds with debug assertions check it at every
//! guard and panic if it is broken; release builds have no cost. Bounds are checked in every build.
//!
//! `field.rs` of `tanada-workloads` has the same contract for fields of numbers. The code is separate because this crate depends on no
//! other crate of the workspace, and because the inner loops differ: here, guards of a few samples whose parts have lengths known at
//! compile time, in planes with a written border; there, guards of whole tiles with aligned rows in memory that may be uninitialised.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A rectangle of elements: columns `x..x + w` of rows `y..y + h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rect {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) w: usize,
    pub(crate) h: usize,
}

impl Rect {
    fn overlaps(&self, other: &Rect) -> bool {
        self.x < other.x + other.w
            && other.x < self.x + self.w
            && self.y < other.y + other.h
            && other.y < self.y + self.h
    }
}

/// The rectangles that are currently held and whether for writing; only debug builds use the list.
#[derive(Default)]
struct Held(Mutex<Vec<(Rect, bool)>>);

impl Held {
    fn list(&self) -> MutexGuard<'_, Vec<(Rect, bool)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    fn acquire(&self, rect: Rect, mutable: bool) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut list = self.list();
        let clash = |(other, other_mutable): &(Rect, bool)| {
            (mutable || *other_mutable) && other.overlaps(&rect)
        };
        if let Some(other) = list.iter().copied().find(clash) {
            drop(list);
            panic!("{rect:?} (mutable: {mutable}) overlaps {other:?}, which is held");
        }
        list.push((rect, mutable));
    }

    #[inline(always)]
    fn release(&self, rect: Rect, mutable: bool) {
        if cfg!(debug_assertions) {
            let mut list = self.list();
            if let Some(index) = list.iter().position(|held| *held == (rect, mutable)) {
                list.swap_remove(index);
            }
        }
    }
}

/// Elements in rows of `stride`, shared by threads that read and write disjoint rectangles.
pub(crate) struct Shared<T> {
    cells: Vec<UnsafeCell<T>>,
    stride: usize,
    held: Held,
}

// SAFETY: all access through `&self` goes through guards. Overlapping guards of which one is mutable must not be held at the same time (the
// contract of this module, checked in debug builds), so no element is written while another thread accesses it.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T: Copy + Default> Shared<T> {
    /// Returns `rows` rows of `stride` default elements.
    pub(crate) fn new(stride: usize, rows: usize) -> Self {
        let mut cells = Vec::new();
        cells.resize_with(stride * rows, || UnsafeCell::new(T::default()));
        Shared {
            cells,
            stride,
            held: Held::default(),
        }
    }

    /// Returns the distance between two rows in elements.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns all elements; the exclusive borrow proves that no guard is held.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: `UnsafeCell<T>` has the layout of `T`, and `&mut self` excludes every other access.
        unsafe {
            std::slice::from_raw_parts_mut(self.cells.as_mut_ptr().cast::<T>(), self.cells.len())
        }
    }

    /// Appends `n` default elements and returns them.
    pub(crate) fn grow(&mut self, n: usize) -> &mut [T] {
        let old = self.cells.len();
        self.cells
            .resize_with(old + n, || UnsafeCell::new(T::default()));
        &mut self.as_mut_slice()[old..]
    }

    fn check(&self, rect: Rect) -> *mut T {
        let start = rect.y * self.stride + rect.x;
        assert!(
            rect.w > 0 && rect.h > 0 && rect.x + rect.w <= self.stride,
            "rectangle outside the plane"
        );
        assert!(
            start + (rect.h - 1) * self.stride + rect.w <= self.cells.len(),
            "rectangle outside the plane"
        );
        // A pointer from the whole slice, so that it is valid for every row of the rectangle.
        UnsafeCell::raw_get(self.cells.as_ptr()).wrapping_add(start)
    }

    /// Returns a guard that holds a rectangle for reading.
    ///
    /// # Panics
    /// If it is not inside of the plane; in debug builds also if it overlaps a rectangle held for writing.
    #[inline]
    pub(crate) fn read(&self, x: usize, y: usize, w: usize, h: usize) -> Read<'_, T> {
        self.hold(Rect { x, y, w, h })
    }

    /// Returns a guard that holds a rectangle for writing.
    ///
    /// # Panics
    /// If it is not inside of the plane; in debug builds also if it overlaps another held rectangle.
    #[inline]
    pub(crate) fn write(&self, x: usize, y: usize, w: usize, h: usize) -> Write<'_, T> {
        self.hold(Rect { x, y, w, h })
    }

    #[inline(always)]
    fn hold<const MUTABLE: bool>(&self, rect: Rect) -> Guard<'_, T, MUTABLE> {
        let start = self.check(rect);
        self.held.acquire(rect, MUTABLE);
        Guard {
            owner: self,
            start,
            rect,
            exclusive: PhantomData,
        }
    }
}

/// A rectangle held for reading, or if `MUTABLE` for writing.
pub(crate) struct Guard<'a, T, const MUTABLE: bool> {
    owner: &'a Shared<T>,
    start: *mut T,
    rect: Rect,
    exclusive: PhantomData<&'a mut T>,
}

/// A rectangle held for reading.
pub(crate) type Read<'a, T> = Guard<'a, T, false>;

/// A rectangle held for writing.
pub(crate) type Write<'a, T> = Guard<'a, T, true>;

impl<T> Read<'_, T> {
    /// Returns row `y` of the rectangle.
    #[inline(always)]
    pub(crate) fn row(&self, y: usize) -> &[T] {
        assert!(y < self.rect.h);
        // SAFETY: `check` showed that all rows of the rectangle are inside; no thread writes to them while the guard lives.
        unsafe {
            std::slice::from_raw_parts(self.start.wrapping_add(y * self.owner.stride), self.rect.w)
        }
    }

    /// Returns `N` elements of row `y` of the rectangle, from column `x` on.
    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(&self, x: usize, y: usize) -> &[T; N] {
        if y >= self.rect.h || N > self.rect.w || x > self.rect.w - N {
            outside();
        }
        // SAFETY: as for `row`, and the elements are inside of it.
        unsafe { &*self.start.wrapping_add(y * self.owner.stride + x).cast() }
    }

    /// Returns all rows in one slice, `stride` apart. Panics if the rectangle has not the full width.
    #[inline(always)]
    pub(crate) fn contiguous(&self) -> &[T] {
        assert!(self.rect.w == self.owner.stride);
        // SAFETY: the rectangle has the full width, so its rows lie one after the other and all belong to the guard.
        unsafe { std::slice::from_raw_parts(self.start, self.rect.w * self.rect.h) }
    }
}

impl<T, const MUTABLE: bool> Drop for Guard<'_, T, MUTABLE> {
    #[inline(always)]
    fn drop(&mut self) {
        self.owner.held.release(self.rect, MUTABLE);
    }
}

impl<T> Write<'_, T> {
    /// Returns row `y` of the rectangle.
    #[inline(always)]
    pub(crate) fn row(&mut self, y: usize) -> &mut [T] {
        assert!(y < self.rect.h);
        // SAFETY: `check` showed that all rows of the rectangle are inside; by the contract of the module no other guard covers them while
        // this guard lives, and `&mut self` lends one row at a time.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.wrapping_add(y * self.owner.stride),
                self.rect.w,
            )
        }
    }

    /// Returns a part of the rectangle: columns `x..x + w` of its rows `y..y + h`.
    #[inline(always)]
    pub(crate) fn part(&mut self, x: usize, y: usize, w: usize, h: usize) -> Part<'_, T> {
        assert!(w <= self.rect.w && x <= self.rect.w - w);
        assert!(h <= self.rect.h && y <= self.rect.h - h);
        let stride = self.owner.stride;
        Part {
            start: self.start.wrapping_add(y * stride + x),
            stride,
            w,
            h,
            borrowed: PhantomData,
        }
    }

    /// Returns all rows in one slice, `stride` apart. Panics if the rectangle has not the full width.
    #[inline(always)]
    pub(crate) fn contiguous(&mut self) -> &mut [T] {
        assert!(self.rect.w == self.owner.stride);
        // SAFETY: the rectangle has the full width, so its rows lie one behind the other and all belong to the guard, of which this is the
        // only borrow.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.rect.w * self.rect.h) }
    }
}

/// A part of a rectangle held for writing. It is small and has no destructor, so that inner loops keep it in registers.
pub(crate) struct Part<'a, T> {
    start: *mut T,
    stride: usize,
    w: usize,
    h: usize,
    borrowed: PhantomData<&'a mut T>,
}

impl<T> Part<'_, T> {
    /// Returns the number of rows.
    #[inline(always)]
    pub(crate) fn height(&self) -> usize {
        self.h
    }

    /// Returns the first `N` elements of row `y`.
    #[inline(always)]
    pub(crate) fn row<const N: usize>(&mut self, y: usize) -> &mut [T; N] {
        if N > self.w || y >= self.h {
            outside();
        }
        // SAFETY: the part is inside of the rectangle of the guard that it borrows, and `&mut self` lends one row at a time.
        unsafe { &mut *self.start.wrapping_add(y * self.stride).cast() }
    }
}

#[cold]
#[inline(never)]
fn outside() -> ! {
    panic!("outside of the rectangle");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn disjoint_rectangles_are_written_at_once() {
        let plane = Shared::<u8>::new(16, 4);
        let mut left = plane.write(0, 0, 8, 4);
        let mut right = plane.write(8, 0, 8, 4);
        left.row(3).fill(1);
        right.row(3).fill(2);
        drop((left, right));
        assert_eq!(plane.read(6, 3, 4, 1).row(0), [1, 1, 2, 2]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "overlaps")]
    fn overlap_with_a_writer_is_caught() {
        let plane = Shared::<u8>::new(16, 4);
        let _writer = plane.write(0, 0, 8, 4);
        let _reader = plane.read(7, 1, 2, 1);
    }

    #[test]
    #[should_panic(expected = "outside the plane")]
    fn rectangles_outside_are_refused() {
        let plane = Shared::<u8>::new(16, 4);
        let _reader = plane.read(15, 0, 2, 1);
    }

    #[test]
    fn released_rectangles_can_be_taken_again() {
        let plane = Shared::<u8>::new(16, 4);
        drop(plane.write(0, 0, 16, 4));
        let a = plane.read(0, 0, 16, 4);
        let b = plane.read(0, 0, 16, 4);
        assert_eq!(a.contiguous(), b.contiguous());
    }

    #[test]
    fn chunks_are_parts_of_rows() {
        let plane = Shared::<u8>::new(16, 4);
        let mut guard = plane.write(2, 1, 8, 2);
        guard.part(4, 0, 4, 2).row::<4>(1).fill(7);
        drop(guard);
        assert_eq!(plane.read(4, 0, 8, 4).chunk::<6>(1, 2), &[0, 7, 7, 7, 7, 0]);
    }

    /// Returns whether `access` panics with `message`. The plane has rows beyond the rectangle of the guard, so an access that is not
    /// refused would stay inside of the plane.
    fn is_refused(access: impl FnOnce(&Shared<u8>), message: &str) -> bool {
        let plane = Shared::<u8>::new(16, 8);
        let result = catch_unwind(AssertUnwindSafe(|| access(&plane)));
        result.is_err_and(|panic| {
            let literal = panic.downcast_ref::<&str>().copied();
            let text = literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            text.is_some_and(|text| text.contains(message))
        })
    }

    #[test]
    fn rows_outside_of_the_rectangle_are_refused() {
        const MESSAGE: &str = "assertion failed";
        assert!(is_refused(
            |plane| _ = plane.read(4, 0, 8, 4).row(4),
            MESSAGE
        ));
        assert!(is_refused(
            |plane| _ = plane.write(4, 0, 8, 4).row(4),
            MESSAGE
        ));
        assert!(!is_refused(|plane| _ = plane.read(4, 0, 8, 4).row(3), ""));
        assert!(!is_refused(|plane| _ = plane.write(4, 0, 8, 4).row(3), ""));
    }

    #[test]
    fn chunks_outside_of_the_rectangle_are_refused() {
        const MESSAGE: &str = "outside of the rectangle";
        let chunk = |x, y| move |plane: &Shared<u8>| _ = plane.read(4, 0, 8, 4).chunk::<6>(x, y);
        assert!(!is_refused(chunk(2, 3), ""));
        assert!(is_refused(chunk(3, 3), MESSAGE), "right of it");
        assert!(is_refused(chunk(2, 4), MESSAGE), "below it");
        let wide = |plane: &Shared<u8>| _ = plane.read(4, 0, 8, 4).chunk::<9>(0, 0);
        assert!(is_refused(wide, MESSAGE), "wider than it");
    }

    #[test]
    fn parts_outside_of_the_rectangle_are_refused() {
        const MESSAGE: &str = "assertion failed";
        let part =
            |x, y, w, h| move |plane: &Shared<u8>| _ = plane.write(4, 0, 8, 4).part(x, y, w, h);
        assert!(!is_refused(part(6, 2, 2, 2), ""));
        assert!(is_refused(part(7, 2, 2, 2), MESSAGE), "right of it");
        assert!(is_refused(part(6, 3, 2, 2), MESSAGE), "below it");
        assert!(is_refused(part(0, 0, 9, 1), MESSAGE), "wider than it");
        assert!(is_refused(part(0, 0, 1, 5), MESSAGE), "higher than it");
    }

    #[test]
    fn rows_outside_of_a_part_are_refused() {
        const MESSAGE: &str = "outside of the rectangle";
        let two =
            |y| move |plane: &Shared<u8>| _ = plane.write(4, 0, 8, 4).part(3, 1, 2, 2).row::<2>(y);
        assert!(!is_refused(two(1), ""));
        assert!(is_refused(two(2), MESSAGE), "below it");
        let three = |plane: &Shared<u8>| _ = plane.write(4, 0, 8, 4).part(3, 1, 2, 2).row::<3>(0);
        assert!(is_refused(three, MESSAGE), "wider than it");
    }
}
