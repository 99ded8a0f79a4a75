//! What a task says of itself to the dispatcher.

/// The hint of one task: the value that its owner attached to it for the dispatcher.
///
/// All fields are advice. A dispatcher uses those that it knows and ignores the rest; a wrong hint costs time, never correctness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// Temporal group (paper 1, section 3): tasks of one T group should run close in time, on any worker. 0 is the exception group.
    pub t: u32,
    /// Spatial group (paper 1, section 3): tasks of one S group should run on one worker. 0 is the exception group.
    pub s: u32,
    /// Depth in a fork tree (paper 5); the root has depth 0.
    pub depth: u32,
    /// Larger is more urgent.
    pub priority: i32,
    /// Bytes that the task is going to touch; 0 where nobody knows.
    pub footprint: u64,
    /// What identifies the task's code: tasks that run the same instructions have the same value, whatever it is (an address, say). 0:
    /// nobody says; then the engine fills in what stands for the task's name.
    pub code: u64,
    /// A value whose meaning is between the user and the user's own policy.
    pub user: u64,
}

impl Hints {
    /// The hint of a task in T group `t` and S group `s`.
    pub const fn groups(t: u32, s: u32) -> Self {
        Hints {
            t,
            s,
            depth: 0,
            priority: 0,
            footprint: 0,
            code: 0,
            user: 0,
        }
    }

    /// What a thief may see of this task before it owns it: T mod 2^16 where the task has a group, else its depth (capped).
    #[inline]
    pub fn digest(&self) -> u16 {
        if self.t != 0 || self.s != 0 {
            (self.t & 0xffff) as u16
        } else {
            self.depth.min(0xffff) as u16
        }
    }
}
