//! Stencil and pipeline: the same numbers, bit for bit, under every policy, grouping and number of workers, as without tasks; and plans
//! that keep what they promise.

use proptest::prelude::*;
use std::collections::BTreeMap;
use tanada_policy::registry;
use tanada_runtime::{Cancel, GraphError, Pool};
use tanada_workloads::pipeline::Pipeline;
use tanada_workloads::stencil::Stencil;
use tanada_workloads::tiles::{Caches, Groups, Options, Plan, Program, Shape, Tile, Tiled};
use tanada_workloads::workload::{Output, Prepared, RunError, Way};

/// Caches so small that small fields are cut into many tiles and T groups.
const SMALL: Caches = Caches {
    own: 1 << 20,
    l1d: 8 << 10,
};

/// The bytes of a result.
struct Bytes(Vec<u8>);

impl Output for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// The result as bits.
fn bits<P: Program>(tiled: &mut Tiled<P>) -> Vec<u32> {
    let mut all = Bytes(Vec::new());
    tiled.result(&mut all);
    let points = all.0.as_chunks::<4>().0.iter();
    points.map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Sets all points to their initial values, and runs.
fn run<P: Program>(tiled: &mut Tiled<P>, way: Way<'_>) {
    let cancel = Cancel::new();
    tiled.set_up(way, &cancel).expect("it is filled");
    tiled.run(way, &cancel, None).expect("it runs");
}

/// The result without tasks.
fn here<P: Program>(mut tiled: Tiled<P>) -> Vec<u32> {
    run(&mut tiled, Way::Sequential);
    bits(&mut tiled)
}

/// The stencil in its plainest form.
fn obvious(size: usize, sweeps: u32) -> Vec<u32> {
    let initial = |at| Stencil::initial(at % size, at / size);
    let mut now: Vec<f32> = (0..size * size).map(initial).collect();
    for _ in 0..sweeps {
        let point = |x: usize, y: usize| {
            let inside = (1..=size).contains(&x) && (1..=size).contains(&y);
            if inside {
                now[(y - 1) * size + x - 1]
            } else {
                0.0
            }
        };
        let next = |at| {
            let (x, y) = (at % size + 1, at / size + 1);
            let (above, below) = (point(x, y - 1), point(x, y + 1));
            let (left, right) = (point(x - 1, y), point(x + 1, y));
            0.5 * point(x, y) + 0.125 * ((above + below) + (left + right))
        };
        now = (0..size * size).map(next).collect();
    }
    now.into_iter().map(f32::to_bits).collect()
}

/// The pipeline in its plainest form.
fn obvious_pipeline(size: usize, rounds: u32) -> Vec<u32> {
    type Plane = Vec<f32>;
    let at = |plane: &Plane, x: i64, y: i64| {
        let size = size as i64;
        match (0..size).contains(&x) && (0..size).contains(&y) {
            true => plane[(y * size + x) as usize],
            false => 0.0,
        }
    };
    let every = |point: &dyn Fn(i64, i64) -> f32| -> Plane {
        let places = 0..(size * size) as i64;
        places
            .map(|i| point(i % size as i64, i / size as i64))
            .collect()
    };
    let blur = |line: &dyn Fn(i64) -> f32| {
        0.0625 * (line(-2) + line(2)) + 0.25 * (line(-1) + line(1)) + 0.375 * line(0)
    };
    let mut image = every(&|x, y| Pipeline::initial(x as usize, y as usize));
    for _ in 0..rounds {
        let across = every(&|x, y| blur(&|d| at(&image, x + d, y)));
        let blurred = every(&|x, y| blur(&|d| at(&across, x, y + d)));
        let sharp = every(&|x, y| {
            let here = at(&image, x, y);
            (here + 0.5 * (here - at(&blurred, x, y))).max(0.0)
        });
        let gradient = every(&|x, y| {
            let across = at(&sharp, x + 1, y) - at(&sharp, x - 1, y);
            let down = at(&sharp, x, y + 1) - at(&sharp, x, y - 1);
            across * across + down * down
        });
        image = every(&|x, y| {
            let vertical = at(&sharp, x, y - 1) + at(&sharp, x, y + 1);
            let around = vertical + (at(&sharp, x - 1, y) + at(&sharp, x + 1, y));
            let share = 0.2 / (1.0 + 4.0 * at(&gradient, x, y));
            at(&sharp, x, y) + share * (around - 4.0 * at(&sharp, x, y))
        });
    }
    let tone = |light: &f32| light.max(0.0) / (1.0 + light.max(0.0));
    image.iter().map(|light| tone(light).to_bits()).collect()
}

fn stencil(size: usize, sweeps: u32, groups: Groups, workers: u16) -> Tiled<Stencil> {
    let options = Options {
        size,
        times: sweeps,
        groups,
    };
    Tiled::new(options, Tiled::<Stencil>::plan_for(options, workers, SMALL)).expect("a sound graph")
}

fn pipeline(size: usize, rounds: u32, groups: Groups, workers: u16) -> Tiled<Pipeline> {
    let options = Options {
        size,
        times: rounds,
        groups,
    };
    Tiled::new(
        options,
        Tiled::<Pipeline>::plan_for(options, workers, SMALL),
    )
    .expect("a sound graph")
}

#[test]
fn the_stencil_without_tasks_is_the_obvious_one() {
    for (size, sweeps) in [(1, 3), (2, 1), (5, 0), (37, 4), (300, 3), (2051, 2)] {
        let tiled = stencil(size, sweeps, Groups::Default, 1);
        assert!(here(tiled) == obvious(size, sweeps), "{size} x {sweeps}");
    }
}

#[test]
fn the_pipeline_without_tasks_is_the_obvious_one() {
    for (size, rounds) in [(1, 2), (2, 1), (5, 0), (37, 3), (300, 2), (1100, 1)] {
        let tiled = pipeline(size, rounds, Groups::Default, 1);
        let wanted = obvious_pipeline(size, rounds);
        assert!(here(tiled) == wanted, "{size} x {rounds}");
    }
}

/// Runs on pools of every policy, with 1, 2 and 5 workers; each pool runs twice, so that an instance is used again.
fn same_everywhere<P: Program>(make: impl Fn(Groups, u16) -> Tiled<P>, wanted: &[u32]) {
    for entry in registry::native() {
        for workers in [1, 2, 5] {
            let pool = Pool::builder().workers(workers).policy(entry.name);
            let pool = pool.build().expect("a pool");
            for groups in Groups::ALL {
                let mut tiled = make(groups, pool.workers());
                for time in 0..2 {
                    run(&mut tiled, Way::Tasks(&pool));
                    assert!(
                        bits(&mut tiled) == wanted,
                        "{} with {workers} workers, groups {groups}, run {time}",
                        entry.name
                    );
                }
            }
        }
    }
}

#[test]
fn the_stencil_is_the_same_under_every_policy() {
    let make = |groups, workers| stencil(1030, 9, groups, workers);
    assert!(
        !make(Groups::Default, 2).plan().fits(),
        "there are T groups"
    );
    same_everywhere(make, &obvious(1030, 9));
}

#[test]
fn a_wide_stencil_has_strips_and_is_the_same() {
    let make = |groups, workers| stencil(2200, 3, groups, workers);
    assert_eq!(make(Groups::Default, 2).plan().strips(), 2);
    same_everywhere(make, &here(make(Groups::None, 1)));
}

#[test]
fn the_pipeline_is_the_same_under_every_policy() {
    let make = |groups, workers| pipeline(900, 2, groups, workers);
    assert!(
        !make(Groups::Default, 2).plan().fits(),
        "there are T groups"
    );
    let wanted = obvious_pipeline(900, 2);
    let light = |bits: &u32| f32::from_bits(*bits);
    assert!(wanted.iter().map(light).all(|x| (0.0..1.0).contains(&x)));
    assert!(wanted.iter().map(light).any(|x| x > 0.5), "it is not dark");
    same_everywhere(make, &wanted);
}

#[test]
fn tiles_are_never_lower_or_narrower_than_what_a_pass_reads() {
    // Caches so small that a band would have less than a row.
    let caches = Caches {
        own: 1,
        l1d: 1 << 10,
    };
    for (rows, columns) in [(1, 100_000), (3, 100_000), (7, 40_000), (1000, 65_536)] {
        let shape = Shape {
            rows,
            columns,
            sweeps: 2,
            bytes_per_point: 12,
        };
        for workers in [1, 3, 64, 1000] {
            let plan = Plan::new(shape, workers, caches, Groups::Default);
            let (low, narrow) = (plan.bands() > 1, plan.strips() > 1);
            let all = |tile: Tile| (!low || tile.h >= 2) && (!narrow || tile.w >= 2);
            assert!(plan.tiles().all(all), "{plan:?}");
        }
    }
}

#[test]
fn a_run_can_be_stopped() {
    let pool = Pool::builder().workers(2).build().expect("a pool");
    let cancel = Cancel::new();
    cancel.cancel();
    let mut tiled = stencil(100, 2, Groups::Default, 2);
    for way in [Way::Tasks(&pool), Way::Sequential] {
        let stopped = tiled.run(way, &cancel, None);
        assert_eq!(stopped, Err(RunError::Graph(GraphError::Cancelled)));
    }
}

#[test]
fn the_plan_of_a_large_field_uses_the_cache() {
    let shape = Shape {
        rows: 8192,
        columns: 8192,
        sweeps: 32,
        bytes_per_point: 8,
    };
    let caches = Caches {
        own: 2 << 20,
        l1d: 48 << 10,
    };
    let plan = Plan::new(shape, 2, caches, Groups::Default);
    assert_eq!((plan.strips(), plan.lanes()), (2, 1));
    let share = plan.group_bytes() as f64 / caches.own as f64;
    assert!((0.5..=0.75).contains(&share), "{plan:?}");
    // The share of its tiles that a worker fetches: a band of the window a sweep, and the whole window once a T group.
    let window = plan.window().expect("the field does not fit");
    let fetched = 1.0 / window as f64 + 1.0 / f64::from(shape.sweeps);
    assert!(fetched < 0.25, "{plan:?}");
    let many = Plan::new(shape, 64, caches, Groups::Default);
    assert_eq!(
        (many.strips(), many.lanes()),
        (8, 8),
        "no strip below 1024 columns"
    );
    let small = Shape {
        rows: 400,
        columns: 400,
        ..shape
    };
    assert!(Plan::new(small, 1, caches, Groups::Default).fits());
}

proptest! {
    /// Tiles are the field without gap or overlap; groups fit the cache if they can; and T groups can run one after the other.
    #[test]
    fn plans_keep_their_promises(
        (rows, columns) in (1_usize..3000, 1_usize..6000),
        sweeps in 1_u32..40,
        workers in 1_u16..40,
        own in 14_u32..23,
        bytes in prop::sample::select(vec![8_usize, 12]),
    ) {
        let shape = Shape { rows, columns, sweeps, bytes_per_point: bytes };
        let caches = Caches { own: 1 << own, l1d: 32 << 10 };
        let plan = Plan::new(shape, workers, caches, Groups::Default);
        let mut widths: BTreeMap<usize, usize> = BTreeMap::new();
        let mut next = BTreeMap::new();
        for tile in plan.tiles() {
            prop_assert!(tile.w > 0 && tile.h > 0);
            prop_assert!(plan.bands() == 1 || tile.h >= 2, "a pass reads two rows beyond a tile");
            prop_assert!(plan.strips() == 1 || tile.w >= 2);
            prop_assert_eq!(next.insert(tile.strip, tile.y + tile.h).unwrap_or(0), tile.y);
            *widths.entry(tile.band).or_default() += tile.w;
        }
        prop_assert!(widths.values().all(|&width| width == columns));
        prop_assert!(next.values().all(|&below| below == rows));
        prop_assert_eq!(plan.strips() * plan.lanes(), usize::from(workers));
        if plan.window().is_some_and(|window| window > 1) {
            prop_assert!(plan.group_bytes() <= caches.own);
        }
        let tiles: Vec<Tile> = plan.tiles().collect();
        for (at, tile) in tiles.iter().enumerate() {
            let beside = [at.checked_sub(plan.strips()), at.checked_sub(1), Some(at), Some(at + 1), Some(at + plan.strips())];
            for sweep in 1..sweeps.min(5) {
                let (t, s) = plan.groups_of(tile, sweep);
                prop_assert!(t.0 > 0 && (1..=u32::from(workers)).contains(&s.0));
                for other in beside.into_iter().flatten().filter_map(|at| tiles.get(at)) {
                    let near = other.band.abs_diff(tile.band) + other.strip.abs_diff(tile.strip) <= 1;
                    prop_assert!(!near || plan.groups_of(other, sweep - 1).0 <= t);
                }
            }
        }
    }
}
