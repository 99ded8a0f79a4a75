//! The nine programs: which regions a step invokes, with the published sizes of class B (IS and MG: class C, as in the paper).

use tanada_sim::regions::{Invocation, Program, Region};

/// The programs, in the order of the tables, with the names of their measured regions.
pub(super) const PROGRAMS: [(&str, &[&str]); 9] = [
    ("ep", &["pairs"]),
    ("cg", &["multiply", "product", "update", "direction"]),
    ("mg", &["residual", "smooth", "restriction", "interpolate"]),
    ("ft", &["evolve", "first", "second", "third"]),
    ("is", &["count", "distribute", "rank"]),
    (
        "sp",
        &[
            "auxiliary",
            "rhs",
            "invert",
            "x_solve",
            "y_solve",
            "z_solve",
            "add",
        ],
    ),
    (
        "bt",
        &["auxiliary", "rhs", "x_solve", "y_solve", "z_solve", "add"],
    ),
    ("lu", &["rhs", "lower", "upper", "add"]),
    ("ua", &["laplacian", "gather", "scatter", "update"]),
];

/// Interior planes of the grid of 102^3 points.
const PLANES: u64 = 100;

fn invoke(region: u32, iterations: u64) -> Invocation {
    Invocation {
        region,
        iterations,
        scale: 1.0,
        steps: 0,
    }
}

/// A V-cycle on 2^9 points a side: restriction down, smoothing on the coarsest grid, and on each finer one interpolation, residual, smoothing; then the
/// residual of the next step. Planes of a coarser grid have fewer points.
fn v_cycle() -> Vec<Invocation> {
    let on = |region, level: u32| Invocation {
        scale: 0.25_f64.powi(9 - level as i32),
        ..invoke(region, 1 << level)
    };
    // The measured units of restriction and interpolation are those of the planes of 2^8 points a side.
    let between = |region, level: u32| Invocation {
        scale: 0.25_f64.powi(8 - level as i32),
        ..invoke(region, 1 << level)
    };
    let mut step: Vec<Invocation> = (1..=8).rev().map(|level| between(2, level)).collect();
    step.push(on(1, 1));
    for level in 2..=9 {
        step.extend([between(3, level - 1), on(0, level), on(1, level)]);
    }
    step.push(on(0, 9));
    step
}

/// Returns what a step of a program invokes, and the number of steps.
fn steps(name: &str) -> (Vec<Invocation>, u64) {
    let pipeline = |region| Invocation {
        steps: PLANES,
        ..invoke(region, PLANES)
    };
    match name {
        // 2^30 pairs, 2^16 an iteration.
        "ep" => (vec![invoke(0, 1 << 14)], 1),
        // 75 steps of 25 iterations and a residual: with four regions each the paper's 7,800.
        "cg" => (
            (0..4).map(|region| invoke(region, 75_000)).collect(),
            75 * 26,
        ),
        "mg" => (v_cycle(), 20),
        "ft" => ([0, 3, 2, 1].map(|region| invoke(region, 256)).to_vec(), 20),
        // 2^27 keys, 1,024 an iteration; 1,024 buckets.
        "is" => (
            vec![invoke(0, 1 << 17), invoke(1, 1 << 17), invoke(2, 1 << 10)],
            10,
        ),
        "sp" => {
            let order = [0, 1, 2, 3, 2, 4, 2, 5, 2, 6];
            (order.map(planes).to_vec(), 400)
        }
        "bt" => ((0..6).map(planes).collect(), 200),
        "lu" => (
            vec![
                invoke(0, PLANES),
                pipeline(1),
                pipeline(2),
                invoke(3, PLANES),
            ],
            250,
        ),
        // Diffusion takes about ten steps of a conjugate gradient.
        _ => (
            [1, 0, 2, 3].map(|region| invoke(region, 8800)).to_vec(),
            200 * 10,
        ),
    }
}

/// The first region works on the border, too.
fn planes(region: u32) -> Invocation {
    invoke(region, PLANES + if region == 0 { 2 } else { 0 })
}

/// Returns a program with its measured regions.
pub(super) fn program(name: &str, regions: Vec<Region>) -> Program {
    let (step, steps) = steps(name);
    Program {
        name: name.to_owned(),
        regions,
        step,
        steps,
    }
}
