//! Where recordings put code and data: an address space of a few dozen megabytes, as a small machine has it.

use super::tape::{Code, LINE, STACK_ROOM};
use tanada_h264::Region as Buffer;

/// A named range of a recording's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What lies there: `code`, `tables`, `stack 0`, `descriptors`, `frame 1`, `syntax 2`...
    pub name: String,
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Tasks use it as their worker's own: which worker runs a task is not known when it is recorded, so what they read there is what they
    /// wrote themselves.
    pub private: bool,
}

/// Where code begins.
pub(crate) const CODE: u64 = 0x10_0000;
/// Bytes from one stack to the next: no power of two, because a real process does not align its stacks to cache sets either.
const STACK_DISTANCE: u64 = STACK_ROOM as u64 + 5 * LINE;
/// Address of the first task's descriptor.
const DESCRIPTORS: u64 = 0x4000_0000;
/// Data that does not fit below [`DESCRIPTORS`] begins here, after the room for the descriptors of 2^32 tasks.
const LARGE_DATA: u64 = 1 << 40;
/// Bytes of all tables of the decoder, rounded up.
const TABLE_BYTES: u64 = 0x1000;
/// What buffers are aligned to.
const ALIGNMENT: u64 = 256;

/// Assigns addresses in the order of first use.
#[derive(Debug)]
pub(crate) struct Layout {
    regions: Vec<Region>,
    /// Where the next buffer lies.
    next: u64,
    stacks: u64,
    /// The decoder's buffers that have a place: which, where, and how long.
    buffers: Vec<(Buffer, u64, u64)>,
    /// The last one that was looked for in `buffers`: mostly the next, too.
    last: usize,
    descriptors: u64,
    /// Places of fields, by number.
    fields: Vec<(usize, u64)>,
}

impl Layout {
    pub(crate) fn new(code: Code, workers: u16) -> Self {
        let mut layout = Layout {
            regions: Vec::new(),
            next: CODE,
            stacks: 0,
            buffers: Vec::new(),
            last: 0,
            descriptors: 0,
            fields: Vec::new(),
        };
        layout.take("code".to_owned(), code.len(), false);
        layout.stacks = layout.next;
        for worker in 0..workers {
            layout.take(format!("stack {worker}"), STACK_DISTANCE, true);
        }
        layout
    }

    /// Allocates a region and returns its start.
    fn take(&mut self, name: String, bytes: u64, private: bool) -> u64 {
        if self.next < DESCRIPTORS && bytes > DESCRIPTORS - self.next {
            self.next = LARGE_DATA;
        }
        let start = self.next;
        self.next = (start + bytes).next_multiple_of(if private { LINE } else { ALIGNMENT });
        self.regions.push(Region {
            name,
            start,
            end: start + bytes,
            private,
        });
        start
    }

    /// Returns the stack of a task: those of successive tasks take turns.
    pub(crate) fn stack(&self, task: u32, workers: u16) -> u64 {
        self.stacks + u64::from(task % u32::from(workers)) * STACK_DISTANCE
    }

    /// Returns the descriptor of a task.
    pub(crate) fn descriptor(&mut self, task: u32) -> u64 {
        self.descriptors = self.descriptors.max(u64::from(task) + 1);
        DESCRIPTORS + u64::from(task) * LINE
    }

    /// Returns the address at which a field begins; the field is allocated the first time.
    pub(crate) fn field(&mut self, field: usize, bytes: u64) -> u64 {
        if let Some(&(_, start)) = self.fields.iter().find(|known| known.0 == field) {
            return start;
        }
        let start = self.take(format!("field {field}"), bytes, false);
        self.fields.push((field, start));
        start
    }

    /// Says how long the buffers of a picture are, before they are used.
    pub(crate) fn reserve(&mut self, buffer: Buffer, bytes: u64) {
        let place = self.buffers.iter().position(|known| known.0 == buffer);
        if place.is_some_and(|at| self.buffers[at].2 >= bytes) {
            return;
        }
        let name = match buffer {
            Buffer::Tables => "tables".to_owned(),
            Buffer::Frame(number) => format!("frame {number}"),
            Buffer::Job(number) => format!("syntax {number}"),
        };
        let start = self.take(name, bytes, false);
        match place {
            // A larger buffer is another one, as in an allocator.
            Some(at) => self.buffers[at] = (buffer, start, bytes),
            None => self.buffers.push((buffer, start, bytes)),
        }
    }

    /// Returns the address in the recording of an address that the decoder reported to its probe.
    #[inline]
    pub(crate) fn place(&mut self, address: u64) -> u64 {
        let (buffer, offset) = tanada_h264::locate(address);
        let is_it = |known: &(Buffer, u64, u64)| known.0 == buffer;
        if !self.buffers.get(self.last).is_some_and(is_it) {
            let place = self.buffers.iter().position(is_it);
            self.last = place.unwrap_or_else(|| {
                debug_assert_eq!(buffer, Buffer::Tables, "every other one was reserved");
                self.reserve(buffer, TABLE_BYTES);
                self.buffers.len() - 1
            });
        }
        let (_, start, bytes) = self.buffers[self.last];
        debug_assert!(offset < bytes, "{buffer:?} at {offset} of {bytes}");
        start + offset
    }

    /// Returns all regions that were used.
    pub(crate) fn regions(mut self) -> Vec<Region> {
        if self.descriptors > 0 {
            self.regions.push(Region {
                name: "descriptors".to_owned(),
                start: DESCRIPTORS,
                end: DESCRIPTORS + self.descriptors * LINE,
                private: false,
            });
        }
        self.regions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_data_does_not_overlap_descriptors() {
        let mut layout = Layout::new(Code(CODE, CODE + 64), 2);
        layout.descriptor(u32::MAX);
        for (field, bytes) in [(0, 1 << 29), (1, 1 << 30), (2, 1 << 33), (3, 8)] {
            layout.field(field, bytes);
        }
        let mut regions = layout.regions();
        regions.sort_by_key(|region| region.start);
        for pair in regions.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
    }
}
