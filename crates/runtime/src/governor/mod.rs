//! Pools that run fewer workers than they have, as a [`Governor`] decides.
//!
//! Whether a pool has a governor is a type parameter of its builder, and of the worker loop: a pool without one does nothing for it.

#[cfg(feature = "counters")]
mod counters;
mod decision;
mod meter;
mod shared;

pub use decision::Decision;
pub(crate) use meter::Meter;
pub(crate) use shared::{Blocked, Governed};

use crate::error::BuildError;
use meter::Metered;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tanada_policy::{CacheUse, Governor, GovernorSite, governors};

/// Counts of all workers of a pool since the last call; `None` if nothing was counted.
type Read = Box<dyn FnMut() -> Option<CacheUse> + Send>;

/// Opens cache counters of this thread and of those that it starts from now on.
#[cfg(feature = "counters")]
fn open_counters() -> io::Result<Read> {
    let mut counters = counters::Counters::open()?;
    Ok(Box::new(move || counters.take()))
}

#[cfg(not(feature = "counters"))]
fn open_counters() -> io::Result<Read> {
    let why = "built without the feature `counters`";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// The time from one call of a governor to the next unless [`PoolBuilder::governor_period`](crate::PoolBuilder) says otherwise.
const PERIOD: Duration = Duration::from_millis(2);

/// Whether the pools of a [`PoolBuilder`](crate::PoolBuilder) have a governor: [`Ungoverned`] or [`Chosen`].
pub trait Governing: sealed::Sealed {}

pub(crate) mod sealed {
    use super::{BuildError, Governed, Meter};
    use std::fmt;
    use std::sync::Arc;

    pub trait Sealed: Clone + fmt::Debug {
        type Meter: Meter;

        /// Returns the governor of a pool of so many workers.
        fn start(&self, workers: u16, at_once: u16) -> Result<Option<Arc<Governed>>, BuildError>;

        /// Returns what worker `me` counts with. `governed` is what `start` returned.
        fn meter(governed: &Option<Arc<Governed>>, me: usize) -> Self::Meter;
    }
}

/// The pool has no governor: all its workers are always active.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ungoverned;

impl Governing for Ungoverned {}

impl sealed::Sealed for Ungoverned {
    type Meter = ();

    fn start(&self, _workers: u16, _at_once: u16) -> Result<Option<Arc<Governed>>, BuildError> {
        Ok(None)
    }

    fn meter(_governed: &Option<Arc<Governed>>, _me: usize) {}
}

/// The pool has a governor.
#[derive(Clone)]
pub struct Chosen {
    which: Which,
    period: Duration,
}

/// What makes a governor of the user's own.
type Make = dyn Fn(&GovernorSite) -> Box<dyn Governor> + Send + Sync;

#[derive(Clone)]
enum Which {
    Named(String),
    Own(Arc<Make>),
}

impl Chosen {
    pub(crate) fn named(name: &str) -> Self {
        Chosen {
            which: Which::Named(name.to_owned()),
            period: PERIOD,
        }
    }

    pub(crate) fn own(
        make: impl Fn(&GovernorSite) -> Box<dyn Governor> + Send + Sync + 'static,
    ) -> Self {
        Chosen {
            which: Which::Own(Arc::new(make)),
            period: PERIOD,
        }
    }

    pub(crate) fn with_period(self, period: Duration) -> Self {
        Chosen { period, ..self }
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.which {
            Which::Named(name) => name,
            Which::Own(_) => "(own)",
        };
        f.debug_struct("Chosen")
            .field("governor", &name)
            .field("period", &self.period)
            .finish()
    }
}

impl Governing for Chosen {}

impl sealed::Sealed for Chosen {
    type Meter = Metered;

    fn start(&self, workers: u16, at_once: u16) -> Result<Option<Arc<Governed>>, BuildError> {
        let site = GovernorSite {
            threads: usize::from(workers),
            at_once: usize::from(at_once.min(workers)),
            period: u64::try_from(self.period.as_nanos())
                .unwrap_or(u64::MAX)
                .max(1),
        };
        let (governor, needs) = match &self.which {
            Which::Own(make) => (make(&site), None),
            Which::Named(name) => {
                let entry = governors::find(name).map_err(BuildError::UnknownGovernor)?;
                let needs = entry.needs_counters.then_some(entry.name);
                ((entry.make)(&site), needs)
            }
        };
        // Before the workers start, since threads inherit counters.
        let counters = match governor.reads_counters() {
            true => Some(open_counters()),
            false => None,
        };
        if let (Some(governor), Some(Err(why))) = (needs, &counters) {
            let why = why.to_string();
            return Err(BuildError::NeedsCounters { governor, why });
        }
        Ok(Some(Arc::new(Governed::new(governor, &site, counters))))
    }

    fn meter(governed: &Option<Arc<Governed>>, me: usize) -> Metered {
        let governed = governed.as_ref().expect("`start` made one");
        Metered::new(Arc::clone(governed), me)
    }
}
