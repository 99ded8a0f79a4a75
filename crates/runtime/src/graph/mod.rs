//! The graph layer: tasks with dependency counts (paper 1, section 3), registered while they run ([`Scope`]) or built once and run often
//! ([`Template`]).
//!
//! | module | holds |
//! |---|---|
//! | `core` | the state of one run of one graph: what is active, how it failed, which threads wait |
//! | `context` | the way of a task that became ready, from the graph to the policy |
//! | `scope`, `slab` | dynamic graphs, and the memory of their tasks |
//! | `template` | templates and their instances |
//! | `nested` | graphs that a task runs on its own pool |
//! | `edges`, `order` | dependencies as arrays, and cycles in them |
//! | `shared`, `local` | what a pool and what a worker keep for this layer |
//! | `observer` | the hooks for recordings |

mod context;
#[allow(unsafe_code)]
mod core;
mod edges;
mod local;
#[allow(unsafe_code)]
mod nested;
mod observer;
mod order;
#[allow(unsafe_code)]
mod scope;
#[allow(unsafe_code)]
mod shared;
#[allow(unsafe_code)]
mod slab;
#[allow(unsafe_code)]
mod template;

pub use self::core::Cancel;
pub(crate) use self::core::{CHECKS, GraphCore, LOST_CHECK};
pub(crate) use local::GraphLocal;
pub(crate) use nested::{Entries, Order, Own};
pub(crate) use observer::{GraphObserver, TaskId, Watch};
pub use scope::{Resolver, SGroup, Scope, TGroup, TaskBuilder, Token, TooLate};
pub(crate) use shared::GraphShared;
pub use template::{Instance, NodeId, Template, TemplateBuilder, TemplateTask};
