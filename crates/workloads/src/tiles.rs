//! Programs that go over a large field again and again, as tasks: one a tile and sweep.
//!
//! The field is cut into *bands* of rows, and those into *strips* of columns: a tile is band x strip. Sweep s of a tile reads that tile
//! and the rims of its four neighbours as the sweep before left them. So the task (band b, strip c, sweep s) waits for five tasks of the
//! sweep before: (b, c), (b - 1, c), (b + 1, c), (b, c - 1) and (b, c + 1). The same dependencies allow sweeps to write in turn into two
//! (or more) fields: a task that still reads the place that another task overwrites is one of these five, or comes before one of them.
//!
//! # Groups
//!
//! If the sweeps run one after the other, each fetches the whole field from memory. But (b, s) and (b - 1, s + 1) have most of their data
//! in common. So let u = b + s (*time skewing*): a task depends on tasks of the same or a smaller u only. A T group is all tasks of
//! `window` x `lanes` successive u, of all strips and sweeps. Within a T group the tasks of one sweep are `window` neighbouring bands a
//! worker; those of the next sweep are the same bands, moved up by one. So a worker fetches one band a sweep from memory, and finds the
//! other `window - 1` in its cache. The S groups are the strips; if strips would become too narrow, several `lanes` along u share one. Each
//! worker has a part of every T group for itself, and finds in its own cache what it wrote.
//!
//! [`Plan::new`] chooses the numbers from the size of that cache.

pub(crate) mod workload;

use crate::field::{LINE, REACH};
use crate::options::{Values, named};
pub use crate::pass::{NoProbe, Probe, Stretch};
use crate::workload::RunError;
pub use crate::workload::{Description, Done};
use tanada_runtime::{SGroup, TGroup};
pub use workload::Tiled;

/// How tasks are put into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Groups {
    /// T: skewed over sweeps, with as much data as the cache of a worker holds. S: strips of columns.
    Default,
    /// No groups.
    None,
}

named!(
    Groups,
    "grouping",
    Default = "default" | "own",
    None = "none",
);

/// The caches that a worker has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// The cache that a worker can count on for itself; see `Placement::own_cache_bytes`.
    pub own: u64,
    /// Its level-1 data cache.
    pub l1d: u64,
}

impl Caches {
    /// Returns the caches that a topology reports; unknown ones are taken to have 1 MiB and 32 KiB.
    pub fn new(own: Option<u64>, l1d: Option<u64>) -> Self {
        Caches {
            own: own.unwrap_or(1 << 20),
            l1d: l1d.unwrap_or(32 << 10),
        }
    }
}

/// What a program goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the field.
    pub rows: usize,
    /// Columns of the field.
    pub columns: usize,
    /// Passes over the whole field.
    pub sweeps: u32,
    /// Bytes of a point in all fields together.
    pub bytes_per_point: usize,
}

/// What a [`Program`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rows and columns of the field; at least 1.
    pub size: usize,
    /// The number of times that the program goes over the field, in units of [`Program::TIMES`].
    pub times: u32,
    /// How tasks are put into groups.
    pub groups: Groups,
}

impl Options {
    /// Returns the options that values of [`Program::OPTIONS`] express.
    fn of<P: Program>(values: &Values) -> Options {
        Options {
            size: values.count("size") as usize,
            times: values.count(P::TIMES) as u32,
            groups: values.name("groups").parse().expect("a name of the table"),
        }
    }

    /// Returns the options that decide the result, for reports: `size=1024,sweeps=16`.
    fn input<P: Program>(self) -> String {
        format!("size={},{}={}", self.size, P::TIMES, self.times)
    }

    /// Returns the shape that the program goes over.
    fn shape<P: Program>(self) -> Shape {
        Shape {
            rows: self.size,
            columns: self.size,
            sweeps: P::sweeps(self.times),
            bytes_per_point: P::FIELDS * size_of::<f32>(),
        }
    }
}

/// A tile: a rectangle of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Its band, from the top.
    pub band: usize,
    /// Its strip, from the left.
    pub strip: usize,
    /// Its first column.
    pub x: usize,
    /// Its first row.
    pub y: usize,
    /// Its columns.
    pub w: usize,
    /// Its rows.
    pub h: usize,
}

/// How a field is cut into tiles and its tasks into groups.
///
/// If there are several bands, each has at least as many rows as a pass reads beyond its tile; the same holds for strips and columns. Hence
/// a task reads no tile but its neighbours', which [`Tiled`] relies on when it shares memory. That is why [`Plan::new`] alone makes plans,
/// and a plan cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    shape: Shape,
    workers: u16,
    caches: Caches,
    groups: Groups,
    bands: usize,
    strips: usize,
    /// 0: all bands, because the fields fit the workers' caches.
    window: usize,
    lanes: usize,
}

/// Columns of a strip, at least, if its workers can share it by rows: the rims of a strip are read from other workers' caches.
const NARROWEST: usize = 1024;

/// The share of a worker's cache that its part of a T group fills (3/4). Code, stacks, rims and prefetched lines take the rest.
const FILL: (u64, u64) = (3, 4);

/// Bands of a worker's part of a T group, the next band among them; a sweep fetches one of these from memory.
const PARTS: usize = 8;

/// Points of a task, at least and at most: a task with fewer (4 us) pays too much for its start, one with more leaves the dispatcher no
/// choice.
const TASK: (usize, usize) = (16 << 10, 64 << 10);

impl Plan {
    /// Cuts `shape` for `workers` workers with these caches and returns the plan.
    ///
    /// # Panics
    /// The shape is empty.
    pub fn new(shape: Shape, workers: u16, caches: Caches, groups: Groups) -> Plan {
        let Shape { rows, columns, .. } = shape;
        assert!(rows > 0 && columns > 0, "a field has points");
        let workers = usize::from(workers.max(1));
        let most = (columns / NARROWEST).max(1);
        let divides = |strips: &usize| workers.is_multiple_of(*strips) && *strips <= most;
        let strips = (1..=workers).rev().find(divides).unwrap_or(1);
        // Points of all fields that a worker's part of a T group may have.
        let budget = (caches.own * FILL.0 / FILL.1) as usize / shape.bytes_per_point.max(1);
        let width = columns.div_ceil(strips);
        let band = ((budget / PARTS).clamp(TASK.0, TASK.1) / width).max(REACH);
        let bands = (rows / band).max(1);
        let window = (budget * bands * strips / (rows * columns))
            .saturating_sub(1)
            .max(1);
        let fits = rows * columns <= budget * workers;
        let plan = Plan {
            shape,
            workers: workers as u16,
            caches,
            groups,
            bands,
            strips,
            window: if fits { 0 } else { window },
            lanes: workers / strips,
        };
        assert!(
            plan.tiles()
                .all(|tile| (bands == 1 || tile.h >= REACH) && (strips == 1 || tile.w >= REACH)),
            "a pass reads more than the tiles beside its own"
        );
        plan
    }

    /// Returns the number of bands of rows.
    pub fn bands(&self) -> usize {
        self.bands
    }

    /// Returns the number of strips of columns.
    pub fn strips(&self) -> usize {
        self.strips
    }

    /// Returns the number of successive bands of a sweep that one worker has in a T group; `None`: all, because the fields fit the workers'
    /// caches.
    pub fn window(&self) -> Option<usize> {
        (self.window > 0).then_some(self.window)
    }

    /// Returns the number of workers that have parts of one strip.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Returns the number of tasks of a run.
    pub fn tasks(&self) -> u64 {
        (self.bands * self.strips) as u64 * u64::from(self.shape.sweeps)
    }

    /// Returns the number of bands of all sweeps: the steps in which [`Done`] counts a run.
    pub fn steps(&self) -> u64 {
        self.bands as u64 * u64::from(self.shape.sweeps)
    }

    /// Returns the bytes of all fields.
    pub fn field_bytes(&self) -> u64 {
        (self.shape.rows * self.shape.columns * self.shape.bytes_per_point) as u64
    }

    /// Returns the bytes of one tile in all fields.
    fn tile_bytes(&self) -> u64 {
        self.field_bytes() / (self.bands * self.strips) as u64
    }

    /// Returns the bytes of the graph, roughly.
    fn graph_bytes(&self) -> u64 {
        self.tasks() * 256
    }

    /// Returns whether a worker's part of all fields fits its own cache; groups then have nothing to gain.
    pub fn fits(&self) -> bool {
        self.window == 0
    }

    /// Returns the bytes, in all fields, of a worker's part of a T group at a time: its window, and the band that comes next.
    pub fn group_bytes(&self) -> u64 {
        match self.window {
            0 => self.field_bytes().div_ceil(self.workers.into()),
            window => self.tile_bytes() * (window as u64 + 1),
        }
    }

    /// Returns the groups of a task.
    pub fn groups_of(&self, tile: &Tile, sweep: u32) -> (TGroup, SGroup) {
        if self.groups == Groups::None {
            return (TGroup(0), SGroup(0));
        }
        let (t, lane) = match self.window {
            0 => (0, tile.band * self.lanes / self.bands),
            window => {
                let skewed = tile.band + sweep as usize;
                let wide = window * self.lanes;
                (skewed / wide, skewed % wide / window)
            }
        };
        let s = tile.strip + self.strips * lane;
        (TGroup(1 + t as u32), SGroup(1 + s as u32))
    }

    /// Returns all tiles, band by band. Bands and strips have equal sizes up to rounding; strips begin at cache lines.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + use<> {
        let Plan {
            shape,
            bands,
            strips,
            ..
        } = *self;
        let left = move |strip: usize| match shape.columns * strip / strips {
            x if strip < strips => x / LINE * LINE,
            x => x,
        };
        let top = move |band: usize| shape.rows * band / bands;
        (0..bands * strips).map(move |at| {
            let (band, strip) = (at / strips, at % strips);
            let (x, y) = (left(strip), top(band));
            Tile {
                band,
                strip,
                x,
                y,
                w: left(strip + 1) - x,
                h: top(band + 1) - y,
            }
        })
    }

    /// Calls `task` for each task with its tile, its sweep, and what `task` returned for the tasks that it waits for.
    ///
    /// # Errors
    /// The first error of `task`, which is not called again.
    fn declare<N: Copy, E>(
        &self,
        mut task: impl FnMut(Tile, u32, &mut dyn Iterator<Item = N>) -> Result<N, E>,
    ) -> Result<(), E> {
        let tiles: Vec<Tile> = self.tiles().collect();
        let mut before: Vec<N> = Vec::new();
        for sweep in 0..self.shape.sweeps {
            let mut these = Vec::with_capacity(tiles.len());
            for &tile in &tiles {
                let beside = (sweep > 0).then(|| self.beside(&tile));
                let waits = beside.into_iter().flatten().flatten();
                these.push(task(tile, sweep, &mut waits.map(|at| before[at]))?);
            }
            before = these;
        }
        Ok(())
    }

    /// Returns the place of a tile among all tiles.
    fn place(&self, tile: &Tile) -> usize {
        tile.band * self.strips + tile.strip
    }

    /// Returns the places of a tile and of its neighbours, of which there are up to four.
    fn beside(&self, tile: &Tile) -> [Option<usize>; 5] {
        let at = self.place(tile);
        [
            (tile.band > 0).then(|| at - self.strips),
            (tile.strip > 0).then(|| at - 1),
            Some(at),
            (tile.strip + 1 < self.strips).then_some(at + 1),
            (tile.band + 1 < self.bands).then_some(at + self.strips),
        ]
    }
}

/// Shows that a call comes from this module, whose graphs and loops keep what the programs promise to their fields: no tile is used twice
/// at once. Nothing outside can make one, so nothing outside can call [`Program::fill`], [`Program::sweep`] and [`Program::visit`].
#[derive(Clone, Copy, Debug)]
pub struct Turn(());

/// A program of this crate; no other crate can add one, which would get [`Turn`]s and could lend them.
pub(crate) mod sealed {
    pub trait Ours {}
}

/// What is done to the tiles of a field. Only this crate implements it.
pub trait Program: sealed::Ours + Send + Sync + Sized + 'static {
    /// What commands know of the program. Its options are `size`, [`Self::TIMES`] and `groups`.
    const DESCRIPTION: &'static Description;

    /// The option that says how many times the program goes over the field.
    const TIMES: &'static str;

    /// Fields of single-precision numbers, each of the size that the options say.
    const FIELDS: usize;

    /// Returns the number of sweeps of `times` times.
    fn sweeps(times: u32) -> u32 {
        times
    }

    /// Returns the fields; their memory is mapped when they are filled.
    ///
    /// # Errors
    /// The system does not give the memory.
    fn new(options: Options, caches: Caches) -> Result<Self, RunError>;

    /// Returns the name of the tasks of sweep number `sweep`.
    fn name(sweep: u32, sweeps: u32) -> &'static str;

    /// Sets all points of a tile, in all fields, to their initial values.
    fn fill(&self, turn: Turn, tile: Tile);

    /// Goes over a tile, and reports all accesses to `probe`. Outside of the tile it reads at most two points above, below, left and right.
    fn sweep<P: Probe>(&self, turn: Turn, tile: Tile, sweep: u32, probe: &mut P);

    /// Calls `row` for each row of the result.
    fn visit(&self, turn: Turn, row: &mut dyn FnMut(&[f32]));
}
