//! The options of every verb that makes pools of workers.

use crate::ui::{Failure, Outcome};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tanada_harness::rounds::Pools;
use tanada_policy::forks;
use tanada_policy::registry::{self, NotNative};
use tanada_runtime::{Bind, MAX_WORKERS};

#[derive(Debug, clap::Args)]
pub(crate) struct Pooling {
    /// Workers [default: TANADA_WORKERS, else the hardware threads that this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_WORKERS)))]
    workers: Option<u16>,

    /// How workers are bound to hardware threads
    #[arg(long, default_value = "auto", value_parser = binds())]
    bind: Bind,

    /// Seed of the policies' random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

fn binds() -> impl TypedValueParser<Value = Bind> {
    PossibleValuesParser::new(["auto", "cpu", "domain", "off"])
        .map(|name| name.parse().expect("one of the names"))
}

/// Returns the names of the policies that run natively. The error about another policy says where that policy works.
pub(crate) fn policies() -> impl TypedValueParser<Value = String> {
    let values = registry::all()
        .iter()
        .map(|entry| PossibleValue::new(entry.name).hide(entry.needs_prepared));
    PossibleValuesParser::new(values).try_map(|name| match registry::find(&name) {
        Ok(entry) if entry.needs_prepared => Err(NotNative::named(&name)),
        _ => Ok(name),
    })
}

/// What `--policy` is, of a program of nested forks.
pub(crate) const ABOUT_FORKS: &str =
    "Policies, separated by commas [default: random-steal; of a comparison all policies of forks]";

/// Returns the names of the policies that a program of nested forks runs under: those of forks, and those that run natively, each of which
/// has one of forks.
pub(crate) fn policies_of_forks() -> impl TypedValueParser<Value = String> {
    let of_forks = forks::all().iter();
    let tasks = registry::native().into_iter();
    PossibleValuesParser::new(of_forks.chain(tasks).map(|entry| entry.name))
}

impl Pooling {
    /// Returns the number of workers that was asked for: by `--workers`, else by `TANADA_WORKERS`, as for every pool of the runtime.
    fn workers(&self) -> Outcome<Option<u16>> {
        const VARIABLE: &str = "TANADA_WORKERS";
        let Some(value) = std::env::var_os(VARIABLE).filter(|_| self.workers.is_none()) else {
            return Ok(self.workers);
        };
        let value = value.to_string_lossy();
        match value.trim().parse() {
            Ok(workers @ 1..=MAX_WORKERS) => Ok(Some(workers)),
            _ => Err(Failure::Usage(format!(
                "{VARIABLE}={value} is not a number of workers from 1 to {MAX_WORKERS}"
            ))),
        }
    }

    /// Returns how pools are made.
    pub(crate) fn pools(&self) -> Outcome<Pools> {
        Ok(Pools {
            workers: self.workers()?,
            bind: self.bind,
            seed: self.seed,
        })
    }
}
