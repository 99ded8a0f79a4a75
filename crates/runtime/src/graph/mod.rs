//! The graph layer: tasks with dependency counts (paper 1, section 3), dynamic ([`Scope`]) or built once and run often ([`Template`]).

mod bodies;
mod core;
mod edges;
mod instance;
mod nested;
mod order;
mod run;
mod scope;
pub(crate) mod slab;
mod template;

pub use self::core::Cancel;
pub(crate) use self::core::GraphCore;
pub use instance::Instance;
pub use scope::{Resolver, SGroup, Scope, TGroup, TaskBuilder, Token, TooLate};
pub use template::{NodeId, Template, TemplateBuilder, TemplateTask};
