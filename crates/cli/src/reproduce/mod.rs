//! Published tables beside ours.
//!
//! Paper 1's tables: [`toshiba`] records sampled pictures of each stream with one table of costs, simulates every row of Table 2 on the
//! board's model and Table 3 on the authors', and holds what comes out against what was printed.

mod calibrate;
mod chart;
mod page;
mod published;
mod recording;
mod rows;
mod set;
mod simulating;
mod statistics;
mod summary;
mod text;
mod toshiba;

pub(crate) use calibrate::{calibrate, searched};
pub(crate) use page::page;
pub(crate) use recording::{sources, usual_folder};
pub(crate) use rows::{Item, rows};
pub(crate) use set::Set;
pub(crate) use summary::{Summary, summary};
pub(crate) use text::text;
pub(crate) use toshiba::{Effort, Step, ToshibaError, toshiba};
