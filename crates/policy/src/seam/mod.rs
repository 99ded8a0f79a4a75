//! What policies and engines know of each other: the traits, and the values that go through them.

mod closures;
mod delivery;
mod dispatcher;
mod fork;
mod governor;
mod hints;
mod prepared;
mod random;
mod region;

pub use closures::{Closure, Closures};
pub use delivery::{ChannelState, Clock, Delivery, DeliverySite, Tell, Time};
pub use dispatcher::{Access, Choice, Dispatcher, Env, Op, Origin, Peeks, Site, Wake, Word};
pub use fork::{Fork, ForkPolicy, Keep, Thief};
pub use governor::{Activity, CacheUse, Governor, GovernorSite, Order, Period, Plan, Why};
pub use hints::Hints;
pub use prepared::Prepared;
pub use random::draw;
pub use region::{
    Decision, Entry, Outcome, Passed, RegionGovernor, RegionId, RegionSite, Shape, Silence, Waiting,
};
