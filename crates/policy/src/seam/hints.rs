//! What a task says of itself to the dispatcher.

/// The hint of one task: the value that the program attached to it for the dispatcher.
///
/// All fields are advice. A dispatcher uses those that it knows and ignores the rest; a wrong hint costs time, never correctness.
///
/// ```
/// # use tanada_policy::Hints;
/// let hints = Hints::groups(3, 1).with_depth(2);
/// assert_eq!((hints.t, hints.s, hints.depth, hints.code), (3, 1, 2, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Hints {
    /// Temporal group (paper 1, section 3): tasks of one T group should run close in time, on any worker. 0 is the exception group.
    pub t: u32,
    /// Spatial group (paper 1, section 3): tasks of one S group should run on one worker. 0 is the exception group.
    pub s: u32,
    /// Depth in a fork tree (paper 5); the root has depth 0.
    pub depth: u32,
    /// Larger is more urgent. **No registered policy reads it.** It is carried because recordings keep what a program said (`h:priority=`),
    /// so that a policy that reads it can be simulated on recordings made before.
    pub priority: i32,
    /// Bytes that the task is going to touch; 0 if unknown. **No registered policy reads it**; carried as [`Hints::priority`] is.
    pub footprint: u64,
    /// What identifies the task's code: tasks that run the same instructions have the same value, whatever it is (an address, say). 0:
    /// unknown; the engine then fills in a number that stands for the task's name.
    pub code: u64,
    /// A value whose meaning is between the user and the user's own policy.
    pub user: u64,
}

impl Hints {
    /// Returns the hint of a task in T group `t` and S group `s`.
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

    /// Returns these hints with [`Hints::depth`].
    #[must_use]
    pub const fn with_depth(self, depth: u32) -> Self {
        Hints { depth, ..self }
    }

    /// Returns these hints with [`Hints::priority`].
    #[must_use]
    pub const fn with_priority(self, priority: i32) -> Self {
        Hints { priority, ..self }
    }

    /// Returns these hints with [`Hints::footprint`], in bytes.
    #[must_use]
    pub const fn with_footprint(self, footprint: u64) -> Self {
        Hints { footprint, ..self }
    }

    /// Returns these hints with [`Hints::code`].
    #[must_use]
    pub const fn with_code(self, code: u64) -> Self {
        Hints { code, ..self }
    }

    /// Returns these hints with [`Hints::user`].
    #[must_use]
    pub const fn with_user(self, user: u64) -> Self {
        Hints { user, ..self }
    }

    /// Returns the 16 bits that a thief may see of this task before it owns it: T mod 2^16 if the task has a T or S group, else its depth
    /// (at most 65,535).
    #[inline]
    pub fn digest(&self) -> u16 {
        if self.t != 0 || self.s != 0 {
            (self.t & 0xffff) as u16
        } else {
            self.depth.min(0xffff) as u16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Hints;

    #[test]
    fn each_method_sets_its_own_field() {
        let hints = Hints::groups(1, 2)
            .with_depth(3)
            .with_priority(-4)
            .with_footprint(5)
            .with_code(6)
            .with_user(7);
        let expected = Hints {
            t: 1,
            s: 2,
            depth: 3,
            priority: -4,
            footprint: 5,
            code: 6,
            user: 7,
        };
        assert_eq!(hints, expected);
    }

    #[test]
    fn a_digest_is_of_the_group_else_of_the_depth() {
        let deep = |t, s| Hints::groups(t, s).with_depth(70_000).digest();
        assert_eq!(deep(0, 0), 0xffff);
        assert_eq!(deep(0x1_0002, 0), 2);
        assert_eq!(deep(0, 9), 0, "it has a group, and T is 0");
        assert_eq!(Hints::default().with_depth(5).digest(), 5);
    }
}
