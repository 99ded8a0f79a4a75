//! OpenMP programs with and without the adapter: `cargo xtask omp-suite` compares verdicts and times of programs that lie anywhere,
//! `cargo xtask omp-table` measures our own programs beside every static choice, alone and beside busy neighbours, `cargo xtask omp-tasks`
//! those with tasks beside the runtimes' own tasks.

pub(crate) mod neighbour;
mod run;
pub(crate) mod suite;
pub(crate) mod table;
pub(crate) mod tasks;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use run::{Outcome, Ran};

/// How programs are run with the adapter.
#[derive(Args)]
pub(crate) struct Adapter {
    /// The adapter [default: the one in target/release, built first]
    #[arg(long = "library", value_name = "FILE.so", conflicts_with = "tanada")]
    file: Option<PathBuf>,
    /// Run programs under this command's `omp`, which may also choose the OpenMP runtime, instead of preloading the adapter
    #[arg(long, value_name = "COMMAND")]
    tanada: Option<PathBuf>,
    /// Further words for `omp`, such as --runtime=llvm
    #[arg(
        long = "word",
        value_name = "WORD",
        requires = "tanada",
        allow_hyphen_values = true
    )]
    words: Vec<String>,
    /// What decides about regions; several are compared
    #[arg(long = "governor", value_name = "NAME", default_values_t = ["predict".to_owned()])]
    governors: Vec<String>,
    /// Tasks run on our dispatchers, too
    #[arg(long)]
    tasks: bool,
    /// The longest time that a program may run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
}

/// One way to run a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Way {
    pub(crate) name: String,
    /// Words before the program's.
    prefix: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Way {
    fn plain(name: &str, environment: &[(&str, &str)]) -> Way {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Way {
            name: name.to_owned(),
            prefix: Vec::new(),
            environment: environment.iter().map(own).collect(),
        }
    }

    /// Runs `words` this way, in `folder`, with more variables.
    fn run(
        &self,
        folder: &Path,
        words: &[String],
        environment: &[(String, String)],
        limit: Duration,
    ) -> Result<Ran, String> {
        let all: Vec<&String> = self.prefix.iter().chain(words).collect();
        let (program, arguments) = all.split_first().ok_or("a program without a name")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        for name in ["LD_PRELOAD", "TANADA_OMP", "TANADA_OMP_TASKS"] {
            command.env_remove(name);
        }
        for (name, value) in environment.iter().chain(&self.environment) {
            command.env(name, value);
        }
        run::run(&mut command, limit)
    }
}

impl Adapter {
    fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    /// Returns the ways with the adapter, one for each governor.
    fn ways(&self, root: &Path) -> Result<Vec<Way>, String> {
        let library = match (&self.tanada, &self.file) {
            (Some(_), _) => None,
            (None, Some(library)) => Some(library.clone()),
            (None, None) => Some(built(root)?),
        };
        let way = |governor: &String| {
            let mut way = Way::plain(governor, &[]);
            let text = |path: &Path| {
                std::path::absolute(path).map(|path| path.to_string_lossy().into_owned())
            };
            if let Some(library) = &library {
                if !library.is_file() {
                    return Err(format!("{} is no file", library.display()));
                }
                let library = text(library).map_err(|error| error.to_string())?;
                way.environment.push(("LD_PRELOAD".into(), library));
                way.environment
                    .push(("TANADA_OMP".into(), format!("governor={governor}")));
                if self.tasks {
                    way.environment
                        .push(("TANADA_OMP_TASKS".into(), "1".into()));
                }
            } else if let Some(tanada) = &self.tanada {
                let tanada = text(tanada).map_err(|error| error.to_string())?;
                way.prefix = [&tanada, "omp", "--quiet", "--governor", governor]
                    .map(str::to_owned)
                    .into();
                way.prefix.extend(self.tasks.then(|| "--tasks".to_owned()));
                way.prefix.extend(self.words.iter().cloned());
                way.prefix.push("--".to_owned());
            }
            if self.tasks {
                way.name.push_str("+tasks");
            }
            Ok(way)
        };
        self.governors.iter().map(way).collect()
    }
}

/// Builds the adapter. Returns its path.
fn built(root: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "-p", "tanada-openmp"]);
    match cargo.current_dir(root).status() {
        Ok(status) if status.success() => Ok(root.join("target/release/libtanada_omp.so")),
        _ => Err("the adapter cannot be built".to_owned()),
    }
}

/// Returns the least and the median of `values`; infinite if there are none.
fn least_and_median(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = sorted.first().copied().unwrap_or(f64::INFINITY);
    let median = match sorted.len() {
        0 => f64::INFINITY,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    };
    (least, median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_and_median_of_few_values() {
        assert_eq!(least_and_median(&[3.0, 1.0, 2.0]), (1.0, 2.0));
        assert_eq!(least_and_median(&[4.0, 1.0]), (1.0, 2.5));
        assert_eq!(least_and_median(&[]), (f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn a_way_sets_its_variables_last() {
        let way = Way::plain("static", &[("TANADA_TEST_A", "2")]);
        let words = ["sh", "-c", "echo $TANADA_TEST_A $TANADA_TEST_B"].map(str::to_owned);
        let environment = [("TANADA_TEST_A", "1"), ("TANADA_TEST_B", "3")]
            .map(|(name, value)| (name.into(), value.into()));
        let ran = way
            .run(
                Path::new("/"),
                &words,
                &environment,
                Duration::from_secs(10),
            )
            .expect("a shell");
        assert_eq!((ran.outcome, ran.output.trim()), (Outcome::Code(0), "2 3"));
    }
}
