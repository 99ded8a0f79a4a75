//! What marks say about a task, for all of its parts.

use super::emit::Emitter;
use crate::{NewTask, Sink, TraceError};
use std::rc::Rc;

/// What the marks say about a task.
pub(super) struct About {
    /// Plain T group; 0: none.
    pub(super) t: u32,
    /// Plain S group; 0: none.
    pub(super) s: u32,
    pub(super) depth: u32,
    pub(super) name: Rc<str>,
    pub(super) hints: Vec<(&'static str, String)>,
}

impl About {
    /// Starts the task `id` of the trace: part `number` of this task, which depends on the parts `after`.
    pub(super) fn start(
        &self,
        id: u32,
        number: u32,
        mut after: Vec<u32>,
        to: &mut Emitter<'_, impl Sink>,
    ) -> Result<(), TraceError> {
        let number = number.to_string();
        let hints = self.hints.iter();
        let mut hints: Vec<(&str, &str)> =
            hints.map(|(name, value)| (*name, value.as_str())).collect();
        if number != "1" {
            hints.push(("part", &number));
        }
        to.task(&NewTask {
            id,
            t: self.t,
            s: self.s,
            depth: self.depth,
            name: Some(&self.name),
            groupings: &[],
            hints: &hints,
        })?;
        after.sort_unstable();
        after.dedup();
        after.into_iter().try_for_each(|from| to.edge(from, id))
    }
}
