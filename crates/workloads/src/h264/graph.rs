//! Declarations of the tasks of a picture: the same for the scope that runs them and for the recorder.
//!
//! The unsafe code is the bodies of [`Native`]'s tasks. What [`Job::run_stage`](tanada_h264::Job::run_stage) asks of its callers holds by
//! the tasks' dependencies, which [`build`](super::build) declares: each pair once, in the order of `recon`, behind the rows of references
//! that are read. The graph layer makes what a task wrote visible to all tasks that wait for it, and the output task, which alone shows
//! frames, waits for all of them.

use super::groups::{Groups, Place};
use super::slot::Slot;
use std::ops::Range;
use tanada_h264::Stage;
use tanada_runtime::{Scope, Token};

/// A task as it is declared.
pub(crate) struct Declared {
    /// What it is called: tasks of one stage alike.
    pub(crate) name: &'static str,
    pub(crate) at: At,
    /// What it does.
    pub(crate) work: Work,
}

/// Where a task is in its picture.
#[derive(Clone, Copy)]
pub(crate) struct At {
    /// See [`phase_of`](crate::workload::phase_of).
    pub(crate) index: u64,
    /// What its groups depend on.
    pub(crate) place: Place,
}

/// What a task does to macroblocks of its picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nothing: others wait for it, which stands for several.
    Nothing,
    /// One stage of each macroblock.
    Stage(Stage, Range<u32>),
    /// Two stages of each macroblock, one macroblock after the other.
    Stages([Stage; 2], Range<u32>),
    /// All front stages of macroblocks of a row.
    Front(Range<u32>),
    /// All rear stages of macroblocks of a row.
    Rear(Range<u32>),
    /// All front stages of a row, and then all rear stages of a few.
    Row {
        /// Macroblocks of a row.
        width: u32,
        /// The row.
        front: u32,
        /// The rows.
        rear: Range<u32>,
    },
}

/// What tasks are declared to.
pub(crate) trait Graph {
    /// Stands for a task that was declared.
    type Token: Copy;

    /// Declares a task that waits for some that were declared before, and returns its token.
    fn register(
        &mut self,
        task: Declared,
        waits: impl IntoIterator<Item = Self::Token>,
    ) -> Self::Token;
}

/// Tasks of the picture in a slot, run by a scope.
pub(super) struct Native<'a, 'scope> {
    pub(super) scope: &'a Scope<'scope>,
    pub(super) slot: &'scope Slot,
    pub(super) groups: Groups,
}

impl Graph for Native<'_, '_> {
    type Token = Token;

    #[inline]
    fn register(&mut self, task: Declared, waits: impl IntoIterator<Item = Token>) -> Token {
        let (t, s) = self.groups.of(task.at.place);
        let slot = self.slot;
        let builder = self.scope.task(task.name).index(task.at.index);
        let builder = builder.groups(t, s).after(waits);
        // A closure for each, so that a task is no larger than what it does needs, and nothing is left to be decided when it runs.
        match task.work {
            Work::Nothing => builder.register(|_| ()),
            Work::Stage(stage, mbs) => builder.register(move |_| {
                // SAFETY: see the module.
                mbs.for_each(|mb| unsafe { slot.job().run_stage(stage, mb) })
            }),
            Work::Stages([first, second], mbs) => builder.register(move |_| {
                for mb in mbs {
                    // SAFETY: see the module.
                    unsafe {
                        slot.job().run_stage(first, mb);
                        slot.job().run_stage(second, mb);
                    }
                }
            }),
            // SAFETY: see the module.
            Work::Front(mbs) => builder.register(move |_| unsafe { slot.job().run_front(mbs) }),
            // SAFETY: see the module.
            Work::Rear(mbs) => builder.register(move |_| unsafe { slot.job().run_rear(mbs) }),
            Work::Row { width, front, rear } => builder.register(move |_| {
                // SAFETY: see the module.
                unsafe { slot.job().run_front(front * width..(front + 1) * width) };
                for row in rear {
                    // SAFETY: see the module.
                    unsafe { slot.job().run_rear(row * width..(row + 1) * width) };
                }
            }),
        }
    }
}
