//! A [`Program`] over tiles as a [`Workload`].

use super::{Caches, Groups, NoProbe, Options, Plan, Program, Shape, Tile, Turn};
use crate::loops::Loops;
use crate::options::{Kind, OptionSpec, Values};
use crate::record::{RecordedTask, TaskRecorder};
use crate::workload::{
    Description, Done, Facts, Memory, Output, Prepared, RecordError, Recorder, Recording, RunError,
    Site, Way, Workload, go_on,
};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};
use tanada_runtime::{Cancel, GraphError, Instance, NodeId, TemplateBuilder};
use tanada_trace::Sink;

/// Returns the option `--size`: rows and columns of a square field.
pub(crate) const fn size(default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec::new("size", "N", Kind::Count(1, 1 << 20), help)
        .default(default)
        .default_in_recordings("1024")
}

/// Returns the option for the number of times that a field is gone over.
pub(crate) const fn times(
    flag: &'static str,
    default: &'static str,
    recorded: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec::new(flag, "N", Kind::Count(1, 10_000), help)
        .default(default)
        .default_in_recordings(recorded)
}

/// `--groups`. In recordings these are the plain groups; all others are there by name.
pub(crate) const GROUPS: OptionSpec = OptionSpec::new(
    "groups",
    "PATTERN",
    Kind::Named(&Groups::NAMES),
    "How tasks are put into temporal and spatial groups",
)
.default(Groups::Default.name())
.default_in_recordings(Groups::None.name())
.of_tasks();

/// The workload of a program over tiles.
pub(crate) struct OverTiles<P>(PhantomData<fn() -> P>);

impl<P> OverTiles<P> {
    pub(crate) const NEW: OverTiles<P> = OverTiles(PhantomData);
}

impl<P: Program> Workload for OverTiles<P> {
    fn description(&self) -> &'static Description {
        P::DESCRIPTION
    }

    fn prefers_groups(&self) -> bool {
        true
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        let (options, plan) = cut::<P>(values, site)?;
        Ok(Box::new(Tiled::<P>::new(options, plan)?))
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        Some(self)
    }
}

/// The tasks are those that [`Tiled`] runs. They carry the groups `default` by name, and the groups that the options ask for as plain ones.
impl<P: Program> Recorder for OverTiles<P> {
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError> {
        let (options, plan) = cut::<P>(values, site)?;
        let default = Plan::new(plan.shape, plan.workers, plan.caches, Groups::Default);
        let program = P::new(options, plan.caches)?;
        plan.tiles().for_each(|tile| program.fill(Turn(()), tile));
        let mut recorder = TaskRecorder::new(sink, plan.workers);
        plan.declare(|tile: Tile, sweep, waits: &mut dyn Iterator<Item = u32>| {
            let task = RecordedTask {
                name: P::name(sweep, plan.shape.sweeps),
                plain: plan.groups_of(&tile, sweep),
                named: &[(Groups::Default.name(), default.groups_of(&tile, sweep))],
            };
            let id = recorder.task(&task, waits, |seer| {
                program.sweep(Turn(()), tile, sweep, seer)
            })?;
            go_on(seen, recorder.tasks())?;
            Ok::<_, RecordError>(id)
        })?;
        Ok(Recording {
            extent: options.input::<P>(),
            groups: options.groups.name(),
            costs: recorder.costs().to_owned(),
            recorded: recorder.finish(),
            ..Recording::default()
        })
    }
}

/// Returns the options in `values`, and how the work is cut for `site`, whose memory must hold it.
fn cut<P: Program>(values: &Values, site: &Site) -> Result<(Options, Plan), RunError> {
    let options = Options::of::<P>(values);
    let caches = Caches::new(site.own_cache, site.l1d);
    let plan = Tiled::<P>::plan_for(options, site.workers, caches);
    let bytes = plan.field_bytes() + plan.graph_bytes();
    site.require_memory(bytes, "choose a smaller --size")?;
    Ok((options, plan))
}

/// The argument of all tasks.
struct Work<P> {
    program: P,
    done: Done,
}

impl<P: Program> Work<P> {
    fn sweep(&self, tile: Tile, sweep: u32) {
        self.program.sweep(Turn(()), tile, sweep, &mut NoProbe);
        if tile.strip == 0 {
            self.done.add();
        }
    }
}

/// Tasks over the fields of a program.
type Graph<P> = Instance<'static, Work<P>>;

/// A [`Program`] with its memory and its task graph, to be run several times.
pub struct Tiled<P> {
    options: Options,
    work: Work<P>,
    plan: Plan,
    fill: Graph<P>,
    sweeps: Graph<P>,
    today: Option<Graph<P>>,
}

/// Returns the graph that fills the fields: a task a tile, without dependencies. Each is in the S group that works on the tile first, whose
/// worker thereby touches the memory first: so the memory of a tile lies on the NUMA node of that worker.
fn fill<P: Program>(plan: &Plan) -> Result<Graph<P>, GraphError> {
    let mut builder = TemplateBuilder::new();
    for (at, tile) in plan.tiles().enumerate() {
        let fill = move |work: &Work<P>, _| work.program.fill(Turn(()), tile);
        let node = builder.task("fill", at as u64, fill);
        let (t, s) = plan.groups_of(&tile, 0);
        builder.groups(node, t, s);
    }
    Ok(builder.build()?.instance())
}

/// Returns the graph of all sweeps, from the values that the fields have.
fn sweeps<P: Program>(plan: &Plan) -> Result<Graph<P>, GraphError> {
    let mut builder = TemplateBuilder::new();
    plan.declare(|tile, sweep, waits: &mut dyn Iterator<Item = NodeId>| {
        let run = move |work: &Work<P>, _| work.sweep(tile, sweep);
        let index = (u64::from(sweep) << 32) | plan.place(&tile) as u64;
        let node = builder.task(P::name(sweep, plan.shape.sweeps), index, run);
        let (t, s) = plan.groups_of(&tile, sweep);
        builder.groups(node, t, s);
        for earlier in waits {
            builder.edge(earlier, node);
        }
        Ok::<_, GraphError>(node)
    })?;
    Ok(builder.build()?.instance())
}

/// Returns the graph of the program of today: each sweep is a parallel loop over blocks of whole rows.
fn loops<P: Program>(shape: Shape, workers: u16) -> Result<Graph<P>, GraphError> {
    let mut loops = Loops::new(workers);
    // Blocks may be lower than a pass reads: no pass reads the field that others write in its sweep, and a barrier separates the sweeps.
    for sweep in 0..shape.sweeps {
        let block = move |work: &Work<P>, block: Range<usize>| {
            let tile = Tile {
                band: 0,
                strip: 0,
                x: 0,
                y: block.start,
                w: shape.columns,
                h: block.len(),
            };
            work.program.sweep(Turn(()), tile, sweep, &mut NoProbe);
        };
        loops.parallel(P::name(sweep, shape.sweeps), shape.rows, block);
    }
    loops.build()
}

impl<P: Program> Tiled<P> {
    /// Cuts the work for `workers` workers with these caches and returns the plan.
    ///
    /// # Panics
    /// There are no points.
    pub fn plan_for(options: Options, workers: u16, caches: Caches) -> Plan {
        Plan::new(options.shape::<P>(), workers, caches, options.groups)
    }

    /// Builds and returns the graph of `plan`: some 250 bytes a task. The memory of the fields is mapped when they are filled.
    ///
    /// # Errors
    /// The system does not give the memory of the fields. Those of a template come from no plan.
    ///
    /// # Panics
    /// The plan is one of another shape.
    pub fn new(options: Options, plan: Plan) -> Result<Self, RunError> {
        let shape = options.shape::<P>();
        assert_eq!(plan.shape, shape, "a plan for these options");
        Ok(Tiled {
            options,
            work: Work {
                program: P::new(options, plan.caches)?,
                done: Done::default(),
            },
            fill: fill(&plan)?,
            sweeps: sweeps(&plan)?,
            today: None,
            plan,
        })
    }

    /// Returns how the field is cut.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl<P: Program> Prepared for Tiled<P> {
    fn title(&self) -> String {
        P::DESCRIPTION.name.to_owned()
    }

    fn input(&self) -> String {
        self.options.input::<P>()
    }

    /// Sets all points to their initial values.
    fn set_up(&mut self, way: Way<'_>, cancel: &Cancel) -> Result<(), RunError> {
        let pool = match way {
            Way::Tasks(pool) => pool,
            Way::Today(pool) => {
                if self.today.is_none() {
                    self.today = Some(loops(self.plan.shape, pool.workers())?);
                }
                pool
            }
            Way::Sequential => {
                let tiles = self.plan.tiles();
                tiles.for_each(|tile| self.work.program.fill(Turn(()), tile));
                return Ok(());
            }
        };
        Ok(self.fill.run_with_cancel(pool, &self.work, cancel)?)
    }

    /// Runs all sweeps, from the values that `set_up` set or the last run left.
    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        match way {
            Way::Tasks(pool) => self.sweeps.run_with_cancel(pool, &self.work, cancel)?,
            Way::Today(pool) => {
                let loops = self.today.as_mut().expect("`set_up` has built them");
                loops.run_with_cancel(pool, &self.work, cancel)?;
            }
            Way::Sequential => {
                for sweep in 0..self.plan.shape.sweeps {
                    if cancel.is_cancelled() {
                        return Err(GraphError::Cancelled.into());
                    }
                    let tiles = self.plan.tiles();
                    tiles.for_each(|tile| self.work.sweep(tile, sweep));
                }
            }
        }
        Ok(())
    }

    fn result(&mut self, output: &mut dyn Output) {
        let mut bytes = Vec::new();
        self.work.program.visit(Turn(()), &mut |row| {
            bytes.clear();
            bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
            output.begin();
            output.write(&bytes);
        });
    }

    fn part(&self) -> &'static str {
        "row"
    }

    fn facts(&self) -> Facts {
        let plan = &self.plan;
        Facts {
            groups: plan.groups.name(),
            memory: Some(Memory {
                data: plan.field_bytes(),
                group: plan.group_bytes(),
                own_cache: plan.caches.own,
            }),
            ..Facts::default()
        }
    }

    fn done(&self) -> Done {
        self.work.done.clone()
    }

    fn steps(&self) -> Option<u64> {
        Some(self.plan.steps())
    }

    fn step(&self) -> &'static str {
        "bands of all sweeps"
    }
}
