//! What policies and engines know of each other: the traits, and the values that go through them.

mod dispatcher;
mod hints;
mod prepared;
mod random;

pub use dispatcher::{Access, Dispatcher, Env, Op, Origin, Site, Wake};
pub use hints::Hints;
pub use prepared::Prepared;
pub use random::draw;
