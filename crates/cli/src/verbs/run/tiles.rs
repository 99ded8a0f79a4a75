//! `tanada run stencil` and `tanada run pipeline`: programs that go over a field again and again.

use super::{Closing, Engine, Running, Workload};
use crate::ui::{self, Failure, Outcome, Progress, at_fault};
use crate::verbs::pooling::Pooling;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use md5::{Digest as _, Md5};
use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tanada_harness::host;
use tanada_report::{Memory, RunResult};
use tanada_runtime::{Cancel, GraphError};
use tanada_topology::Topology;
use tanada_workloads::tiles::{Caches, Done, Groups, Plan, Program, Tiled};
use tanada_workloads::{pipeline, stencil};

/// Iterate a five-point stencil over a square field (Jacobi's method)
///
/// Every sweep sets each point to a weighted mean of itself and its four neighbours. The field is cut into tiles and the tasks into
/// groups by the caches of this machine. Of several policies each has its row in the table.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada run stencil --policy fcfs,ts --repeat 5\n  \
    tanada run stencil --size 2048 --sweeps 100 --groups none --json"
)]
pub(in crate::verbs::run) struct Stencil {
    /// Rows and columns of the field
    #[arg(long, value_name = "N", default_value_t = stencil::Options::default().size as u32, value_parser = size())]
    size: u32,

    /// Sweeps over the field
    #[arg(long, value_name = "N", default_value_t = stencil::Options::default().sweeps, value_parser = times())]
    sweeps: u32,

    #[command(flatten)]
    tiled: TiledArgs,
}

/// Pass over a large image: blur, sharpen, gradient, smooth, tone curve
///
/// Each round is five passes over an image of floating-point samples, and a tone curve ends it. The image is cut into tiles and the
/// tasks into groups by the caches of this machine. Of several policies each has its row in the table.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tanada run pipeline --policy fcfs,ts --repeat 5\n  tanada run pipeline --size 8192 --rounds 2 --md5"
)]
pub(in crate::verbs::run) struct Pipeline {
    /// Rows and columns of the image
    #[arg(long, value_name = "N", default_value_t = pipeline::Options::default().size as u32, value_parser = size())]
    size: u32,

    /// Rounds of five passes
    #[arg(long, value_name = "N", default_value_t = pipeline::Options::default().rounds, value_parser = times())]
    rounds: u32,

    #[command(flatten)]
    tiled: TiledArgs,
}

#[derive(Debug, clap::Args)]
struct TiledArgs {
    /// How tasks are put into temporal and spatial groups
    #[arg(long, value_name = "PATTERN", default_value_t = Groups::Own, value_parser = groups())]
    groups: Groups,

    /// Print the MD5 of the result (rows of 32-bit numbers, as they lie in memory)
    #[arg(long)]
    md5: bool,

    /// Run without tasks, on one thread
    #[arg(long, conflicts_with_all = ["policy", "workers", "groups", "bind", "seed", "trace_events"])]
    sequential: bool,

    #[command(flatten)]
    running: Running,

    #[command(flatten)]
    pooling: Pooling,
}

pub(crate) fn size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 20)
}

pub(crate) fn times() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000)
}

pub(crate) fn groups() -> impl clap::builder::TypedValueParser<Value = Groups> {
    PossibleValuesParser::new(Groups::ALL.map(Groups::name))
        .map(|name| name.parse().expect("one of the names"))
}

pub(in crate::verbs::run) fn stencil(args: &Stencil) -> Outcome {
    let options = stencil::Options {
        size: args.size as usize,
        sweeps: args.sweeps,
        groups: args.tiled.groups,
    };
    let input = format!("size={},sweeps={}", args.size, args.sweeps);
    drive::<stencil::Stencil>(&args.tiled, "stencil", input, options)
}

pub(in crate::verbs::run) fn pipeline(args: &Pipeline) -> Outcome {
    let options = pipeline::Options {
        size: args.size as usize,
        rounds: args.rounds,
        groups: args.tiled.groups,
    };
    let input = format!("size={},rounds={}", args.size, args.rounds);
    drive::<pipeline::Pipeline>(&args.tiled, "pipeline", input, options)
}

fn drive<P: Program>(
    args: &TiledArgs,
    name: &'static str,
    input: String,
    options: P::Options,
) -> Outcome {
    let topology = Topology::detect().map_err(|error| at_fault("this machine", error))?;
    let workers = match args.sequential {
        true => 1,
        false => args
            .pooling
            .workers()?
            .unwrap_or_else(|| topology.default_workers()),
    };
    let plan = Tiled::<P>::plan_for(options, workers, caches(&topology, workers));
    enough_memory(&plan)?;
    // A large field takes seconds to lay out: Ctrl-C meanwhile is answered at the end of that.
    let cancel = ui::interruptible();
    let tiled = Tiled::<P>::new(options, plan).map_err(stopped)?;
    if cancel.is_cancelled() {
        return Err(Failure::Interrupted);
    }
    let pooling = (!args.sequential).then_some(&args.pooling);
    super::drive(
        &args.running,
        pooling,
        &mut Field {
            name,
            input,
            md5: args.md5,
            tiled,
        },
        &cancel,
    )
}

fn caches(topology: &Topology, workers: u16) -> Caches {
    let placement = topology.place(workers);
    Caches::new(placement.own_cache_bytes(), placement.l1d_bytes())
}

/// Refuses what would end with the system ending this process (or others).
fn enough_memory(plan: &Plan) -> Outcome {
    let needed = plan.field_bytes() + plan.graph_bytes();
    match host::free_memory() {
        Some(free) if needed > free => {
            let gigabytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            Err(Failure::Input(format!(
                "this takes {:.1} GB of memory and {:.1} are free; choose a smaller --size",
                gigabytes(needed),
                gigabytes(free)
            )))
        }
        _ => Ok(()),
    }
}

/// A field with a program that goes over it.
struct Field<P> {
    name: &'static str,
    input: String,
    md5: bool,
    tiled: Tiled<P>,
}

impl<P: Program> Workload for Field<P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn input(&self) -> String {
        self.input.clone()
    }

    fn title(&self) -> String {
        format!("{}: {}", self.name, self.input)
    }

    fn progress(&self, runs: u64) -> Progress {
        let mut progress = Progress::new(Some(runs * self.tiled.plan().steps()));
        progress.says("bands of all sweeps");
        progress
    }

    fn prepare(&mut self, engine: &Engine, cancel: &Cancel) -> Outcome {
        match engine {
            Engine::Pool(pool) => self.tiled.fill(pool, cancel).map_err(stopped),
            Engine::Here => {
                self.tiled.fill_here();
                Ok(())
            }
        }
    }

    fn run(&mut self, engine: &Engine, cancel: &Cancel, progress: &mut Progress) -> Outcome {
        let done = self.tiled.done();
        let ran = watched(&done, progress, || match engine {
            Engine::Pool(pool) => self.tiled.run(pool, cancel),
            Engine::Here => self.tiled.run_here(cancel),
        });
        ran.map_err(stopped)
    }

    fn describe(&self, run: &mut RunResult, engine: &Engine) {
        let plan = self.tiled.plan();
        if let Engine::Pool(_) = engine {
            run.groups = plan.groups().to_string();
            run.memory = Some(Memory {
                data: plan.field_bytes(),
                group: plan.group_bytes(),
                own_cache: plan.caches().own,
            });
        }
    }

    fn close(&mut self) -> Outcome<Closing> {
        let md5 = self.md5.then(|| {
            let mut md5 = Md5::new();
            let mut bytes = Vec::new();
            self.tiled.visit(&mut |row| {
                bytes.clear();
                bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
                md5.update(&bytes);
            });
            super::hex(md5)
        });
        Ok(Closing {
            md5,
            stdout_taken: false,
        })
    }
}

fn stopped(error: GraphError) -> Failure {
    match error {
        GraphError::Cancelled => Failure::Interrupted,
        other => Failure::Input(other.to_string()),
    }
}

/// Does the work while another thread, where there is somebody to look at it, shows how far it is.
fn watched<T>(done: &Done, progress: &mut Progress, work: impl FnOnce() -> T) -> T {
    const LOOK: Duration = Duration::from_millis(200);
    if !io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|s| {
        let (over, ended) = channel::<()>();
        s.spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                progress.at(done.steps());
            }
        });
        let result = work();
        drop(over);
        result
    })
}
