//! Programs cut into tasks, as every command, benchmark and test runs them.
//!
//! A workload is one module that implements [`Workload`], and one line in [`all`]. `docs/workloads.md` of the repository goes through it.
#![deny(unsafe_code)]

mod barnes;
mod fft;
#[allow(unsafe_code)]
mod field;
pub mod forked;
pub mod h264;
mod hash;
pub mod kernels;
pub mod loops;
mod lu;
mod ocean;
pub mod options;
mod pass;
mod phased;
pub mod pipeline;
mod radix;
pub mod record;
mod reduction;
mod spelling;
pub mod stencil;
pub mod tiles;
#[allow(unsafe_code)]
mod vector;
pub mod workload;

pub use options::{OptionSpec, Purpose, Values};
pub use spelling::{other_spelling, spelled_in};
pub use workload::{Prepared, Site, Way, Workload, recorder_of, values_of};

/// All workloads. The first is the one that `tanada compare` takes if none is named.
static ALL: &[&dyn Workload] = &[
    &h264::H264,
    &tiles::workload::OverTiles::<stencil::Stencil>::NEW,
    &tiles::workload::OverTiles::<pipeline::Pipeline>::NEW,
    &reduction::Reduction,
    &phased::OverPhases::<lu::Lu>::NEW,
    &phased::OverPhases::<fft::Fft>::NEW,
    &phased::OverPhases::<radix::Radix>::NEW,
    &phased::OverPhases::<ocean::Ocean>::NEW,
    &phased::OverPhases::<barnes::Barnes>::NEW,
    &phased::OverPhases::<hash::Hash>::NEW,
    &forked::OverForks::<forked::Matmul>::NEW,
    &forked::OverForks::<forked::Tree>::NEW,
];

/// Returns all workloads.
pub fn all() -> &'static [&'static dyn Workload] {
    ALL
}

/// There is no workload of this name.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload \"{name}\"; there are {}", names().join(", "))]
pub struct UnknownWorkload {
    /// The wrong name.
    pub name: String,
}

impl std::fmt::Debug for UnknownWorkload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns the names of all workloads.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|workload| workload.name()).collect()
}

/// Returns the names of the workloads that can be recorded.
pub fn recordable() -> Vec<&'static str> {
    let recorded = ALL.iter().filter(|workload| workload.recorder().is_some());
    recorded.map(|workload| workload.name()).collect()
}

/// Returns the workload called `name`.
///
/// # Errors
/// There is none; the text of the error lists the names.
pub fn find(name: &str) -> Result<&'static dyn Workload, UnknownWorkload> {
    let found = ALL.iter().find(|workload| workload.name() == name);
    found.copied().ok_or_else(|| UnknownWorkload {
        name: name.to_owned(),
    })
}
