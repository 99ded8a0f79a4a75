//! All simulations of a program: static shapes, single regions, `oracle`, `predict`, and the kinds of waiting.

use super::programs::PROGRAMS;
use super::published::AXIS;
use std::collections::BTreeMap;
use tanada_policy::governors::regions::{Class, Measured, Profile, Settings, find};
use tanada_policy::{Decision, RegionGovernor, RegionId, Shape, Waiting};
use tanada_sim::Machine;
use tanada_sim::regions::{Invocation, Machinery, Program, Switch};

/// A region of a program, at the size of its largest invocation.
#[derive(Clone, Debug)]
pub(super) struct OfRegion {
    pub(super) name: &'static str,
    /// Times as fast as with 60x4 in the best static shape of the program, and in its own best one.
    pub(super) in_static: f64,
    pub(super) in_own: f64,
    pub(super) own: Shape,
    /// What `predict` held at the end, and why.
    pub(super) predicted: Shape,
    pub(super) why: String,
}

/// What was found of a program.
#[derive(Clone, Debug)]
pub(super) struct OfProgram {
    pub(super) name: &'static str,
    /// Seconds with all threads.
    pub(super) seconds: f64,
    /// Times as fast as one thread on one core, by shape.
    pub(super) speeds: BTreeMap<Shape, f64>,
    /// The best shape among the cores of fig. 1's axis, and among all cores that were simulated.
    pub(super) on_axis: Shape,
    pub(super) best: Shape,
    pub(super) regions: Vec<OfRegion>,
    /// Percent over all threads.
    pub(super) gain_static: f64,
    pub(super) gain_oracle: f64,
    pub(super) gain_predict: f64,
    /// The part of `predict`'s time that switching takes, in percent.
    pub(super) switching: f64,
    /// With 60x1: times as fast as without waiting threads if the others spin, and if they pause 1,000 cycles.
    pub(super) spinning: f64,
    pub(super) delayed: f64,
}

fn governor(name: &str, machinery: &Machinery<'_>, settings: &Settings) -> Box<dyn RegionGovernor> {
    let entry = find(name).expect("it is registered");
    (entry.make)(&machinery.site(), settings)
}

fn shapes(cores: &[u16], threads_per_core: u16) -> Vec<Shape> {
    let each = cores.iter().flat_map(|&cores| {
        (1..=threads_per_core).map(move |threads_per_core| Shape {
            cores,
            threads_per_core,
        })
    });
    each.collect()
}

fn fastest(times: impl IntoIterator<Item = (Shape, f64)>) -> (Shape, f64) {
    let best = times
        .into_iter()
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.threads().cmp(&b.0.threads())));
    best.expect("there are shapes")
}

/// Simulates a program. `quick`: only with the cores of fig. 1's axis.
pub(super) fn simulate(machine: &Machine, program: &Program, quick: bool) -> OfProgram {
    let (name, names) = *PROGRAMS
        .iter()
        .find(|(name, _)| *name == program.name)
        .expect("it is one of them");
    let mut machinery = Machinery::new(machine, program).expect("the machine runs regions");
    let site = machinery.site();
    let every: Vec<u16> = match quick {
        true => AXIS.to_vec(),
        false => (1..=site.cores).collect(),
    };
    let all = site.all();
    let base = machinery.fixed(all);
    let one = machinery.fixed(Shape {
        cores: 1,
        threads_per_core: 1,
    });
    let mut times = BTreeMap::new();
    for shape in shapes(&every, site.threads_per_core)
        .into_iter()
        .chain(shapes(&AXIS, site.threads_per_core))
    {
        times.entry(shape).or_insert_with(|| machinery.fixed(shape));
    }
    let of = |shapes: Vec<Shape>| fastest(shapes.into_iter().map(|shape| (shape, times[&shape])));
    let (on_axis, axis_time) = of(shapes(&AXIS, site.threads_per_core));
    let (best, _) = of(times.keys().copied().collect());

    let mut ran = governor("predict", &machinery, &Settings::default());
    let predicted = machinery.run(ran.as_mut(), |_| ());
    let (profile, regions) = oracle(&mut machinery, program, names, &times, on_axis);
    let regions =
        regions
            .into_iter()
            .zip(&predicted.regions)
            .enumerate()
            .map(|(number, (region, held))| OfRegion {
                predicted: held.2.shape,
                why: ran.why(RegionId(number as u32)).to_string(),
                ..region
            });
    let regions = regions.collect();
    let settings = Settings {
        profile,
        ..Settings::default()
    };
    let mut oracle = governor("oracle", &machinery, &settings);
    let known = machinery.run(oracle.as_mut(), |_| ());
    let percent = |time: f64| 100.0 * (base / time - 1.0);
    let alone = waiting(&mut machinery, program, Waiting::Sleep(0));
    OfProgram {
        name,
        seconds: base / (site.microsecond * 1e6),
        speeds: times
            .iter()
            .map(|(&shape, &time)| (shape, one / time))
            .collect(),
        on_axis,
        best,
        regions,
        gain_static: percent(axis_time),
        gain_oracle: percent(known.cycles),
        gain_predict: percent(predicted.cycles),
        switching: 100.0 * predicted.switching / predicted.cycles,
        spinning: alone / waiting(&mut machinery, program, Waiting::Spin),
        delayed: alone / waiting(&mut machinery, program, Waiting::Delay(1000)),
    }
}

/// Returns the time of a step with one thread on each core, if the other threads wait in this way.
fn waiting(machinery: &mut Machinery<'_>, program: &Program, waiting: Waiting) -> f64 {
    let shape = Shape {
        cores: machinery.site().cores,
        threads_per_core: 1,
    };
    let decision = Decision {
        waiting,
        ..Decision::full(shape)
    };
    program
        .step
        .iter()
        .map(|one| machinery.time(one, decision))
        .sum()
}

/// Returns what an oracle knows: for each region and number of iterations the best shape, if it wins more than the switch there and back;
/// and each region's speeds.
fn oracle(
    machinery: &mut Machinery<'_>,
    program: &Program,
    names: &[&'static str],
    times: &BTreeMap<Shape, f64>,
    static_shape: Shape,
) -> (Profile, Vec<OfRegion>) {
    let all = machinery.site().all();
    let mut profile = Profile::default();
    let mut seen: Vec<Invocation> = Vec::new();
    let mut regions: BTreeMap<u32, (f64, OfRegion)> = BTreeMap::new();
    for invocation in &program.step {
        if seen.contains(invocation) {
            continue;
        }
        seen.push(*invocation);
        let base = machinery.time(invocation, Decision::full(all));
        let each: Vec<(Shape, f64)> = times
            .keys()
            .map(|&shape| (shape, machinery.time(invocation, Decision::full(shape))))
            .collect();
        let (own, time) = fastest(each);
        let there_and_back =
            2.0 * machinery.switch(own.threads(), all.threads(), Switch::Waiting(Waiting::AsIs));
        let chosen = if time + there_and_back < base {
            own
        } else {
            all
        };
        profile.measured.push(Measured {
            region: RegionId(invocation.region),
            class: Class::of(Some(invocation.iterations)),
            decision: Decision::full(chosen),
            count: 1,
            mean: time,
        });
        let in_static = machinery.time(invocation, Decision::full(static_shape));
        let found = OfRegion {
            name: names[invocation.region as usize],
            in_static: base / in_static,
            in_own: base / time,
            own,
            predicted: all,
            why: String::new(),
        };
        let largest = regions
            .entry(invocation.region)
            .or_insert_with(|| (base, found.clone()));
        if base > largest.0 {
            *largest = (base, found);
        }
    }
    (
        profile,
        regions.into_values().map(|(_, region)| region).collect(),
    )
}
