//! Reproductions of papers: published figures beside those that are simulated here.
//!
//! A paper is a folder (its data, its parameters, its claim) and one line in [`all`]. What papers share lies beside the folders:
//! published tables (`published`), statistics, rows and bars of a claim ([`Item`], [`Bar`]), charts, and [`Reproduction`], which makes
//! JSON, text and a page of them.
//!
//! To add a paper:
//!
//! 1. Make a folder with its published tables as CSV and a module that implements [`Paper`]. Options are a table of
//!    [`OptionSpec`]; the command line makes its subcommand, help and checks of it.
//! 2. In [`Paper::reproduce`] run the simulations ([`tanada_harness::batch`] uses all threads), report progress, and look at the
//!    [`Cancel`] handle. Return a [`Reproduction`]: an [`Item`] for every published figure, a [`Bar`] for every figure of the claim, and in
//!    words what did not come out.
//! 3. Add a line to [`all`] and a page to `docs/`.
#![forbid(unsafe_code)]

mod chart;
mod manycore;
mod matmul;
mod messages;
mod page;
mod published;
mod reproduction;
mod smt;
mod statistics;
mod toshiba;

pub use page::{Figure, Layout};
pub use reproduction::{Bar, Item, Reproduction, Table};

use std::ops::ControlFlow;
use std::path::PathBuf;
use tanada_harness::batch;
use tanada_runtime::Cancel;
use tanada_sim::{Machine, SimError, machines};
use tanada_workloads::options::{OptionSpec, Values};

/// A paper whose figures can be reproduced.
pub trait Paper: Sync {
    /// Returns the name by which the command line calls the paper: one word.
    fn name(&self) -> &'static str;

    /// Returns what the paper is about and which of its tables are reproduced: one line.
    fn about(&self) -> &'static str;

    /// Returns the options of this paper, besides those of [`Request`].
    fn options(&self) -> &'static [OptionSpec];

    /// Returns the arguments after `tanada reproduce NAME` that help shows as examples.
    fn examples(&self) -> &'static [&'static str];

    /// Returns the files, and the folders of files, that [`Paper::reproduce`] reads if it has these values.
    fn inputs(&self, values: &Values) -> Vec<PathBuf>;

    /// Returns the flags of those options with which [`Paper::reproduce`] returns [`Found::Json`], of which there is no page.
    fn without_page(&self) -> &'static [&'static str] {
        &[]
    }

    /// Simulates what the paper's figures need and returns what was found. `progress` is called at least ten times a second while
    /// simulations run.
    ///
    /// # Errors
    /// If an option or an input is wrong, or if `cancel` stopped the work.
    fn reproduce(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
    ) -> Result<Found, Error>;
}

/// Returns all papers: a new one adds its line here.
pub fn all() -> &'static [&'static dyn Paper] {
    &[
        &toshiba::Toshiba,
        &smt::Smt,
        &manycore::Manycore,
        &messages::Messages,
        &matmul::Matmul,
    ]
}

/// What is asked of a paper.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whether a smaller sample is enough.
    pub quick: bool,
    /// Threads on which simulations run.
    pub threads: usize,
    /// The values of [`Paper::options`].
    pub values: Values,
    /// The command `tanada`, which records programs; `None`: no program can be recorded.
    pub tanada: Option<PathBuf>,
}

impl Request {
    /// Returns the shipped machine `name` with the values of `--set`.
    fn machine(&self, name: &str) -> Result<Machine, Error> {
        let shipped = machines::find(name).expect("the machine is part of the program");
        let machine = shipped.overridden(self.values.texts("set"));
        machine.map_err(|error| Error::Usage(error.to_string()))
    }

    /// Returns the results of pieces 0 to `count` - 1, in this order, and reports how many have ended. `of` says of what.
    ///
    /// # Errors
    /// That of the first piece that failed, after which no other begins; [`Error::Cancelled`].
    fn all<R: Send, E: Send + Into<Error>>(
        &self,
        count: usize,
        of: &str,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
        one: impl Fn(usize) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, Error> {
        let (mut done, what) = (0, format!("of {count} {of}"));
        let results = batch::collect(count, self.threads, one, |ended| {
            done += usize::from(ended.is_some());
            progress(Progress { what: &what, done });
            match cancel.is_cancelled() || matches!(ended, Some((_, Err(_)))) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        // Behind a piece that failed, pieces may not have begun.
        let each = results.into_iter().flatten();
        let all: Result<Vec<R>, Error> = each.map(|one| one.map_err(Into::into)).collect();
        all.and_then(|all| match all.len() == count {
            true => Ok(all),
            false => Err(Error::Cancelled),
        })
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done.
    pub what: &'a str,
    /// Pieces of it that have ended.
    pub done: usize,
}

/// What [`Paper::reproduce`] found.
#[derive(Debug)]
pub enum Found {
    /// Published figures and ours.
    Figures(Box<Reproduction>),
    /// What another job of the paper found, such as a search for its parameters: one line of JSON.
    Json(String),
}

/// Why there is no reproduction.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option has a wrong value.
    #[error("{0}")]
    Usage(String),
    /// An input is at fault.
    #[error("{0}")]
    Input(String),
    /// The work was cancelled.
    #[error("stopped before the end")]
    Cancelled,
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<SimError> for Error {
    fn from(error: SimError) -> Error {
        match error {
            SimError::Cancelled => Error::Cancelled,
            error => Error::Input(error.to_string()),
        }
    }
}
