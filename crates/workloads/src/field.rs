//! A two-dimensional field of numbers whose disjoint rectangles several tasks read and write at once.
//!
//! A [`Field`] hands out guards of rectangles through `&self`. The caller promises that a rectangle that is held for writing overlaps no
//! other that is held at the same time; the dependencies between tasks keep the promise. Builds with debug assertions check it at every
//! guard and panic if the promise is broken; release builds pay nothing. Bounds are checked in every build.
//!
//! `plane.rs` of `tanada-h264` has the same contract for the samples of a picture, and explains why there are two such modules.

use crate::pass::Stretch;
use crate::workload::RunError;
use std::alloc::{Layout, alloc_zeroed};
use std::cell::UnsafeCell;
#[cfg(debug_assertions)]
use std::sync::Mutex;

/// A rectangle of elements: columns `x..x + w` of rows `y..y + h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rect {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) w: usize,
    pub(crate) h: usize,
}

/// Returns whether `length` places from `first` on are below `end`, whatever the numbers are.
fn inside(first: usize, length: usize, end: usize) -> bool {
    first <= end && length <= end - first
}

/// Elements of a cache line of 64 bytes.
pub(crate) const LINE: usize = 16;

/// Elements around a field that its users may read: its border, which stays 0.
pub(crate) const REACH: usize = 2;

/// A field of `rows` x `columns` numbers with a border of [`REACH`] around them, at first 0.
///
/// The memory is mapped when it is first written: the thread that first writes a page decides which NUMA node the page lies on.
pub(crate) struct Field {
    cells: Box<[UnsafeCell<f32>]>,
    /// Place of the first row in `cells`, such that its first element behind the border begins a cache line.
    origin: usize,
    /// Elements from row to row: whole cache lines, and no power of two, so that rows do not compete for the same sets of a cache.
    stride: usize,
    rows: usize,
    columns: usize,
    #[cfg(debug_assertions)]
    held: Mutex<Vec<(Rect, bool)>>,
}

// SAFETY: all access through `&self` goes through guards, and overlapping guards of which one is mutable must not be held at once (the
// contract of this module, checked in debug builds); so no element is written while another thread uses it.
unsafe impl Sync for Field {}

/// Returns `len` zeros, whose memory is not touched: `Vec::try_reserve` would leave that to be done.
fn zeros(len: usize) -> Result<Box<[UnsafeCell<f32>]>, RunError> {
    assert!(len > 0, "a field has a border");
    let layout = Layout::array::<UnsafeCell<f32>>(len).map_err(|_| RunError::no_memory(None))?;
    // SAFETY: the layout has a size, since `len` is not 0.
    let zeros = unsafe { alloc_zeroed(layout) };
    if zeros.is_null() {
        return Err(RunError::no_memory(Some(layout.size())));
    }
    let zeros = std::ptr::slice_from_raw_parts_mut(zeros.cast::<UnsafeCell<f32>>(), len);
    // SAFETY: the memory is of the global allocator and has the layout of these elements, for which zeros are a value; it is ours alone.
    Ok(unsafe { Box::from_raw(zeros) })
}

impl Field {
    /// Returns a field of zeros. Rectangles count from the corner of its border.
    ///
    /// # Errors
    /// The system does not give the memory.
    pub(crate) fn new(rows: usize, columns: usize) -> Result<Self, RunError> {
        let bordered = |points: usize| {
            let points = points.checked_add(2 * REACH);
            points.filter(|points| *points < isize::MAX as usize)
        };
        let sides = bordered(rows).zip(bordered(columns));
        let (rows, columns) = sides.ok_or_else(|| RunError::no_memory(None))?;
        let mut stride = columns.next_multiple_of(LINE) + LINE;
        if (stride / LINE).is_multiple_of(2) {
            stride += LINE;
        }
        let len = rows.checked_mul(stride);
        let len = len.and_then(|len| len.checked_add(3 * LINE));
        let cells = zeros(len.ok_or_else(|| RunError::no_memory(None))?)?;
        let misaligned = cells.as_ptr().addr() / size_of::<f32>() % LINE;
        Ok(Field {
            origin: 2 * LINE - misaligned - REACH,
            cells,
            stride,
            rows,
            columns,
            #[cfg(debug_assertions)]
            held: Mutex::default(),
        })
    }

    fn check(&self, rect: Rect) -> *mut f32 {
        assert!(
            inside(rect.x, rect.w, self.columns) && inside(rect.y, rect.h, self.rows),
            "{rect:?} is not inside the field"
        );
        let start = self.origin + rect.y * self.stride + rect.x;
        // A pointer from the whole field, so that it may be used for every row of the rectangle.
        UnsafeCell::raw_get(self.cells.as_ptr()).wrapping_add(start)
    }

    /// Returns `w` points of row `y`, from column `x` on, as bytes of the field. The offset does not depend on the field's address: it
    /// counts from a cache line, at which the first row begins.
    #[inline(always)]
    pub(crate) fn stretch(&self, x: usize, y: usize, w: usize) -> Stretch {
        const POINT: usize = size_of::<f32>();
        let offset = |y: usize, x: usize| ((y * self.stride + x + LINE - REACH) * POINT) as u64;
        Stretch {
            field: std::ptr::from_ref(self).addr(),
            field_bytes: offset(self.rows - 1, self.columns),
            offset: offset(y, x),
            bytes: (w * POINT) as u32,
        }
    }

    /// Returns a guard that holds a rectangle for reading.
    ///
    /// # Panics
    /// The rectangle is not inside the field; in debug builds also: a part of it is held for writing.
    #[inline]
    pub(crate) fn read(&self, rect: Rect) -> Read<'_> {
        self.hold(rect)
    }

    /// Returns a guard that holds a rectangle for writing.
    ///
    /// # Panics
    /// The rectangle is not inside the field; in debug builds also: a part of it is held.
    #[inline]
    pub(crate) fn write(&self, rect: Rect) -> Write<'_> {
        self.hold(rect)
    }

    #[inline]
    fn hold<const WRITES: bool>(&self, rect: Rect) -> Guard<'_, WRITES> {
        let start = self.check(rect);
        self.acquire(rect, WRITES);
        Guard {
            field: self,
            start,
            rect,
        }
    }

    /// Calls `row` for each row without the border.
    pub(crate) fn visit(&self, row: &mut dyn FnMut(&[f32])) {
        let all = self.read(Rect {
            x: REACH,
            y: REACH,
            w: self.columns - 2 * REACH,
            h: self.rows - 2 * REACH,
        });
        (0..all.rect.h).for_each(|y| row(all.row(y)));
    }

    #[cfg(debug_assertions)]
    fn acquire(&self, rect: Rect, mutable: bool) {
        let overlaps = |other: &Rect| {
            rect.x < other.x + other.w
                && other.x < rect.x + rect.w
                && rect.y < other.y + other.h
                && other.y < rect.y + rect.h
        };
        let mut held = self.held.lock().unwrap_or_else(|held| held.into_inner());
        let clash = held
            .iter()
            .find(|(other, writes)| (mutable || *writes) && overlaps(other))
            .copied();
        if let Some(other) = clash {
            drop(held);
            panic!("{rect:?} (to write: {mutable}) overlaps {other:?}, which is held");
        }
        held.push((rect, mutable));
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    fn acquire(&self, _: Rect, _: bool) {}

    #[inline(always)]
    fn release(&self, _rect: Rect, _mutable: bool) {
        #[cfg(debug_assertions)]
        {
            let mut held = self.held.lock().unwrap_or_else(|held| held.into_inner());
            if let Some(at) = held.iter().position(|held| *held == (_rect, _mutable)) {
                held.swap_remove(at);
            }
        }
    }
}

/// A rectangle that is held for reading, or for writing.
pub(crate) struct Guard<'a, const WRITES: bool> {
    field: &'a Field,
    start: *mut f32,
    rect: Rect,
}

/// A rectangle that is held for reading.
pub(crate) type Read<'a> = Guard<'a, false>;

/// A rectangle that is held for writing.
pub(crate) type Write<'a> = Guard<'a, true>;

impl Read<'_> {
    /// Returns row `y` of the rectangle.
    #[inline(always)]
    pub(crate) fn row(&self, y: usize) -> &[f32] {
        assert!(y < self.rect.h);
        let start = self.start.wrapping_add(y * self.field.stride);
        // SAFETY: `check` showed that all rows of the rectangle are inside; no thread writes them while the guard lives.
        unsafe { std::slice::from_raw_parts(start, self.rect.w) }
    }
}

impl Write<'_> {
    /// Returns row `y` of the rectangle.
    #[inline(always)]
    pub(crate) fn row(&mut self, y: usize) -> &mut [f32] {
        assert!(y < self.rect.h);
        let start = self.start.wrapping_add(y * self.field.stride);
        // SAFETY: `check` showed that all rows of the rectangle are inside; by the contract of the module no thread uses them while
        // the guard lives, and `&mut self` lends out one row at a time.
        unsafe { std::slice::from_raw_parts_mut(start, self.rect.w) }
    }
}

impl<const WRITES: bool> Drop for Guard<'_, WRITES> {
    #[inline(always)]
    fn drop(&mut self) {
        self.field.release(self.rect, WRITES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::AssertUnwindSafe;

    fn rect(x: usize, y: usize, w: usize, h: usize) -> Rect {
        Rect { x, y, w, h }
    }

    #[test]
    fn disjoint_rectangles_are_written_at_once() {
        let field = Field::new(0, 12).unwrap();
        let mut left = field.write(rect(0, 0, 8, 4));
        let mut right = field.write(rect(8, 0, 8, 4));
        left.row(3).fill(1.0);
        right.row(3).fill(2.0);
        drop((left, right));
        assert_eq!(field.read(rect(6, 3, 4, 1)).row(0), [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(field.read(rect(0, 2, 16, 1)).row(0), [0.0; 16]);
    }

    #[test]
    fn rows_begin_cache_lines_behind_the_border() {
        for columns in [1, 15, 16, 17, 8192] {
            let field = Field::new(3, columns).unwrap();
            for y in 0..3 {
                let guard = field.read(rect(REACH, y, 1, 1));
                assert_eq!(guard.row(0).as_ptr().addr() % 64, 0, "{columns} columns");
            }
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "overlaps")]
    fn overlap_with_a_writer_is_caught() {
        let field = Field::new(0, 12).unwrap();
        let _writer = field.write(rect(0, 0, 8, 4));
        let _reader = field.read(rect(7, 1, 2, 1));
    }

    #[test]
    fn no_rectangle_wraps_around() {
        let far = usize::MAX - 7;
        for outside in [
            rect(far, 0, 16, 1),
            rect(0, far, 1, 16),
            rect(1, 0, usize::MAX, 1),
        ] {
            let field = Field::new(8, 8).unwrap();
            let held = std::panic::catch_unwind(AssertUnwindSafe(|| drop(field.write(outside))));
            assert!(held.is_err(), "{outside:?}");
        }
        for points in [usize::MAX, usize::MAX - 2 * REACH, isize::MAX as usize] {
            assert!(Field::new(points, 1).is_err() && Field::new(1, points).is_err());
        }
    }

    #[test]
    fn memory_that_the_system_does_not_give_is_an_error() {
        // More than a process has addresses, and less than `isize::MAX`.
        let error = Field::new(1 << 24, 1 << 24).err().expect("too large");
        let text = error.to_string();
        assert!(text.contains("GB of memory in one piece"), "{text}");
        assert!(text.contains("choose a smaller --size"), "{text}");
    }

    #[test]
    #[should_panic(expected = "not inside")]
    fn rectangles_outside_are_refused() {
        let field = Field::new(0, 12).unwrap();
        let _reader = field.read(rect(15, 0, 2, 1));
    }
}
