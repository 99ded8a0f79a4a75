//! Clause C.4: the order in which pictures are shown, and how early.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::frame::Frame;

/// Decoded pictures that are not shown yet ("bumping", C.4.5.3).
#[derive(Debug, Default)]
pub(crate) struct Output {
    waiting: Vec<Arc<Frame>>,
    ready: VecDeque<Arc<Frame>>,
}

impl Output {
    /// Returns the next frame to show.
    pub(crate) fn next(&mut self) -> Option<Arc<Frame>> {
        self.ready.pop_front()
    }

    /// Returns the frames that wait for output.
    pub(crate) fn waiting(&self) -> &[Arc<Frame>] {
        &self.waiting
    }

    /// Outputs all waiting pictures: before an IDR picture or one that resets the picture order count, and at the end.
    pub(crate) fn flush(&mut self) {
        while self.bump() {}
    }

    /// Outputs the waiting picture that is first in output order. Returns false if none waits.
    pub(crate) fn bump(&mut self) -> bool {
        let first = (0..self.waiting.len()).min_by_key(|&at| self.waiting[at].poc);
        self.ready.extend(first.map(|at| self.waiting.remove(at)));
        first.is_some()
    }

    /// Adds a decoded picture, then outputs until at most `reorder` pictures wait.
    pub(crate) fn add(&mut self, frame: Arc<Frame>, reorder: usize) {
        self.waiting.push(frame);
        while self.waiting.len() > reorder {
            self.bump();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(output: &mut Output) -> Vec<i32> {
        std::iter::from_fn(|| output.next())
            .map(|frame| frame.poc)
            .collect()
    }

    fn frame(poc: i32) -> Arc<Frame> {
        let mut frame = Frame::new(1, 1, 0);
        frame.poc = poc;
        Arc::new(frame)
    }

    #[test]
    fn pictures_wait_for_earlier_ones() {
        let mut output = Output::default();
        for poc in [0, 8, 4, 2, 6] {
            output.add(frame(poc), 1);
        }
        assert_eq!(shown(&mut output), [0, 4, 2, 6]);
        output.flush();
        assert_eq!(shown(&mut output), [8]);
        let mut output = Output::default();
        for poc in [0, 8, 4, 2, 6] {
            output.add(frame(poc), 2);
        }
        output.flush();
        assert_eq!(shown(&mut output), [0, 2, 4, 6, 8]);
    }
}
