//! Tasks of OpenMP on this project's dispatchers.
//!
//! The threads of a parallel region are the workers of a dispatcher (`tanada_policy`), and run tasks wherever the standard lets them: at
//! the end of the region's code, at barriers, in `taskwait`, at the end of a `taskgroup`, in `taskyield`, at the creation of a task. No
//! thread is added, and nothing of a runtime is looked into.
//!
//! | file | has |
//! |---|---|
//! | `task` | what is known of one task |
//! | `memory` | the memory of tasks |
//! | `lock` | a lock for a few instructions |
//! | `depend` | the table of `depend`'s addresses, and who waits for whom |
//! | `engine` | the dispatcher of a team |
//! | `count` | how many tasks are open |
//! | `team` | threads: creating, running, waiting, counting |
//! | `sleep`, `futex` | threads that find nothing |
//! | `sync` | the atomics of the lock-free parts, which are also loom's |
//! | `region` | the threads of a parallel region become a team |
//! | `groups`, `reductions` | reductions of tasks, of gcc and of clang |
//! | `marks` | what a recorder is told of tasks |
//! | `program` | whether this program's tasks are taken over |

mod count;
#[allow(unsafe_code)]
mod depend;
#[allow(unsafe_code)]
mod engine;
#[allow(unsafe_code)]
mod futex;
#[allow(unsafe_code)]
pub(crate) mod groups;
#[allow(unsafe_code)]
mod lock;
#[allow(unsafe_code)]
mod marks;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod program;
#[allow(unsafe_code)]
pub(crate) mod reductions;
#[allow(unsafe_code)]
mod region;
mod sleep;
mod sync;
#[allow(unsafe_code)]
mod task;
#[allow(unsafe_code)]
mod team;

pub(crate) use depend::Kind;
pub(crate) use program::{active, policy, priority, throttles};
pub(crate) use region::Region;
pub(crate) use task::{KmpData, Task, flags};
pub(crate) use team::{
    Member, begin_serial, end_serial, fulfill, gave_lock, keep_settings, me, me_or_alone, took_lock,
};
