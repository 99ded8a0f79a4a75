//! A [`Program`] over tiles as a [`Workload`].

use super::{Caches, Groups, Options, Program, Tiled, record};
use crate::options::{OptionSpec, Values};
use crate::workload::{
    Done, Facts, Memory, Output, PrepareError, Prepared, RecordError, Recorder, Recording,
    RunError, Site, Way, Workload,
};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use tanada_runtime::{Cancel, GraphError};
use tanada_trace::Sink;

/// `--size`: rows and columns of a square field.
pub(crate) const fn size(default: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec::count("size", "N", (1, 1 << 20), help)
        .default(default)
        .default_in_recordings("1024")
}

/// How often a field is gone over.
pub(crate) const fn times(
    flag: &'static str,
    default: &'static str,
    recorded: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec::count(flag, "N", (1, 10_000), help)
        .default(default)
        .default_in_recordings(recorded)
}

/// `--groups`. In recordings these are the plain groups; all others are there by name.
pub(crate) const GROUPS: OptionSpec = OptionSpec::named(
    "groups",
    "PATTERN",
    &Groups::NAMES,
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
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn about(&self) -> &'static str {
        P::ABOUT
    }

    fn details(&self) -> &'static str {
        P::DETAILS
    }

    fn options(&self) -> &'static [OptionSpec] {
        P::OPTIONS
    }

    fn test_options(&self) -> &'static [(&'static str, &'static str)] {
        P::TEST_OPTIONS
    }

    fn prefers_groups(&self) -> bool {
        true
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, PrepareError> {
        let options = Options::of::<P>(values);
        let caches = Caches::new(site.own_cache, site.l1d);
        let plan = Tiled::<P>::plan_for(options, site.workers, caches);
        let bytes = plan.field_bytes() + plan.graph_bytes();
        site.require_memory(bytes, "choose a smaller --size")?;
        let tiled = Tiled::<P>::new(options, plan)
            .map_err(|error| PrepareError::Input(error.to_string()))?;
        Ok(Box::new(Field {
            input: options.input::<P>(),
            tiled,
        }))
    }

    fn recorder(&self) -> Option<&dyn Recorder> {
        Some(self)
    }
}

impl<P: Program> Recorder for OverTiles<P> {
    fn record(
        &self,
        values: &Values,
        site: &Site,
        sink: &mut dyn Sink,
        seen: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Recording, RecordError> {
        let options = Options::of::<P>(values);
        let caches = Caches::new(site.own_cache, site.l1d);
        record::tiles::<P, _>(options, site.workers, caches, sink, seen)
    }
}

/// A field with the program that goes over it.
struct Field<P> {
    input: String,
    tiled: Tiled<P>,
}

impl<P: Program> Prepared for Field<P> {
    fn title(&self) -> String {
        P::NAME.to_owned()
    }

    fn input(&self) -> String {
        self.input.clone()
    }

    fn set_up(&mut self, way: Way<'_>, cancel: &Cancel) -> Result<(), RunError> {
        match way {
            Way::Tasks(pool) => self.tiled.fill(pool, cancel)?,
            Way::Today(pool) => {
                self.tiled.build_today(pool.workers())?;
                self.tiled.fill(pool, cancel)?;
            }
            Way::Sequential => self.tiled.fill_here(),
        }
        Ok(())
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _output: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        let ran: Result<(), GraphError> = match way {
            Way::Tasks(pool) => self.tiled.run(pool, cancel),
            Way::Today(pool) => self.tiled.run_today(pool, cancel),
            Way::Sequential => self.tiled.run_here(cancel),
        };
        Ok(ran?)
    }

    fn result(&mut self, output: &mut dyn Output) {
        let mut bytes = Vec::new();
        self.tiled.visit(&mut |row| {
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
        let plan = self.tiled.plan();
        Facts {
            groups: plan.groups().name(),
            memory: Some(Memory {
                data: plan.field_bytes(),
                group: plan.group_bytes(),
                own_cache: plan.caches().own,
            }),
            ..Facts::default()
        }
    }

    fn done(&self) -> Done {
        self.tiled.done()
    }

    fn steps(&self) -> Option<u64> {
        Some(self.tiled.plan().steps())
    }

    fn step(&self) -> &'static str {
        "bands of all sweeps"
    }
}
