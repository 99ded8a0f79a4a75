//! What the engine writes on the [`crate::board`]. Without one, nothing.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::board::{self, head, region, size};
use crate::system;
use tanada_policy::Waiting;

static BOARD: OnceLock<&'static [AtomicU64]> = OnceLock::new();

/// Opens the file of the board. Returns whether that worked.
pub(super) fn open(path: &Path) -> bool {
    system::map(path, board::WORDS).is_some_and(|words| BOARD.set(words).is_ok())
}

/// Writes a word of the head.
pub(super) fn set(at: usize, value: u64) {
    put(at, value);
}

/// Adds to a word of the head, from any thread.
pub(super) fn add(at: usize, more: u64) {
    if let Some(word) = BOARD.get().and_then(|board| board.get(at)) {
        word.fetch_add(more, Ordering::Relaxed);
    }
}

/// Says what went wrong.
pub(super) fn trouble(text: &str) {
    put_text(head::TROUBLE, text);
}

/// Names a module.
pub(super) fn module(number: usize, path: &str) {
    let at = board::AT_MODULES + number * board::MODULE;
    put_text(at..at + board::MODULE, path);
    put(head::MODULES, number as u64 + 1);
}

fn put(at: usize, value: u64) {
    if let Some(word) = BOARD.get().and_then(|board| board.get(at)) {
        word.store(value, Ordering::Relaxed);
    }
}

fn get(at: usize) -> u64 {
    let word = BOARD.get().and_then(|board| board.get(at));
    word.map_or(0, |word| word.load(Ordering::Relaxed))
}

/// Writes as much of a text as fits, and a zero byte behind it.
fn put_text(words: std::ops::Range<usize>, text: &str) {
    let most = words.len() * 8 - 1;
    let mut bytes = text.bytes().take(most);
    for at in words {
        let mut word = [0; 8];
        word.iter_mut()
            .for_each(|byte| *byte = bytes.next().unwrap_or(0));
        put(at, u64::from_ne_bytes(word));
    }
}

/// The record of a region.
#[derive(Clone, Copy)]
pub(super) struct Record(usize);

impl Record {
    pub(super) fn new(number: u32) -> Record {
        if get(head::REGIONS) <= u64::from(number) {
            put(head::REGIONS, u64::from(number) + 1);
        }
        Record(board::AT_REGIONS + number as usize * board::REGION)
    }

    pub(super) fn set(self, at: usize, value: u64) {
        put(self.0 + at, value);
    }

    pub(super) fn why(self, text: &str) {
        let words = region::WHY;
        put_text(self.0 + words.start..self.0 + words.end, text);
    }

    /// Adds an invocation by `threads` threads that took `time`.
    pub(super) fn measured(self, threads: u32, time: u64) {
        self.passed(threads, 1, time);
    }

    /// Adds `count` invocations by `threads` threads that took `time` each.
    pub(super) fn passed(self, threads: u32, count: u64, time: u64) {
        let all = count * time;
        put(self.0 + region::TIME, get(self.0 + region::TIME) + all);
        let sizes = (0..board::SIZES).map(|i| self.0 + region::SIZES + i * size::WORDS);
        for at in sizes {
            let known = get(at + size::THREADS);
            if known == 0 {
                put(at + size::THREADS, u64::from(threads));
                put(at + size::LEAST, u64::MAX);
            } else if known != u64::from(threads) {
                continue;
            }
            put(at + size::COUNT, get(at + size::COUNT) + count);
            put(at + size::SUM, get(at + size::SUM) + all);
            put(at + size::LEAST, get(at + size::LEAST).min(time));
            return;
        }
    }
}

/// An event of the time line.
#[derive(Clone, Copy)]
pub(super) struct Event(usize);

impl Event {
    /// Returns a new event; `None` if there is no room.
    pub(super) fn new(region: u32, threads: u32, waiting: Waiting, start: u64) -> Option<Event> {
        let number = get(head::EVENTS) as usize;
        if number >= board::EVENTS {
            put(head::EVENTS_LOST, get(head::EVENTS_LOST) + 1);
            return None;
        }
        let at = board::AT_EVENTS + number * board::EVENT;
        put(at + board::event::REGION, region.into());
        put(at + board::event::THREADS, threads.into());
        put(at + board::event::WAITING, word(waiting));
        put(at + board::event::START, start);
        put(at + board::event::END, start);
        put(head::EVENTS, number as u64 + 1);
        Some(Event(at))
    }

    /// Adds an invocation that took `time` and ended at `now`.
    pub(super) fn add(self, time: u64, now: u64, neighbours: Option<f64>) {
        self.passed(1, time);
        put(self.0 + board::event::END, now);
        let neighbours = neighbours.unwrap_or(-1.0).to_bits();
        put(self.0 + board::event::NEIGHBOURS, neighbours);
    }

    /// Adds `count` invocations that took `time` each, and ended before the last one that was added, or soon after it.
    pub(super) fn passed(self, count: u64, time: u64) {
        let (counts, sum) = (self.0 + board::event::COUNT, self.0 + board::event::SUM);
        put(counts, get(counts) + count);
        put(sum, get(sum) + count * time);
    }
}

/// Returns how waiting is written.
pub(super) fn word(waiting: Waiting) -> u64 {
    match waiting {
        Waiting::AsIs => 0,
        Waiting::Spin => 1,
        Waiting::Delay(time) => 2 + 4 * u64::from(time),
        Waiting::Sleep(time) => 3 + 4 * u64::from(time),
    }
}
