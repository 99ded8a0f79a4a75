//! The graph layer: tasks with dependency counts (paper 1, section 3), dynamic ([`Scope`]) or built once and run often ([`Template`]).

mod core;
mod nested;
mod order;
mod scope;
mod template;

pub use self::core::Cancel;
pub(crate) use self::core::GraphCore;
pub use scope::{Resolver, S, Scope, T, TaskBuilder, Token, TooLate};
pub use template::{Instance, NodeId, Template, TemplateBuilder, TemplateTask};
