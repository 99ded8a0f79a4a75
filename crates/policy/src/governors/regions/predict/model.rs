//! A model of a region's time by the shape of its team.
//!
//! The time is `rounds x iteration(threads on a core)`. A loop of `n` iterations on `p` threads takes `ceil(n / p)` rounds: time over
//! threads is a sawtooth, and all shapes between two steps do the same rounds. The time of an iteration depends on how many threads share
//! a core: proportional to `k^e`. With e = 0 siblings do not disturb each other; with e = 1 they share a resource that is used up (the
//! core's issue slots, or the bandwidth of the memory), and further threads bring nothing; beyond that they disturb. `e` is fitted from
//! shapes with different `k`, and what happens with fewer cores likewise.

use crate::Shape;

/// How the time of an iteration grows with threads on a core, and with cores, if nothing is known: between no disturbance and a used-up
/// resource.
const USUAL: f64 = 0.6;

/// The exponent for the cores: cores disturb each other only in the memory.
const CORES: f64 = 0.1;

/// What is expected of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// The likely time.
    pub(super) likely: f64,
    /// The time if the siblings that go did not disturb at all, and the loop is the worst for so many threads.
    pub(super) worst: f64,
}

/// One measured shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) shape: Shape,
    pub(super) threads: u32,
    pub(super) time: f64,
}

/// The fit of one region's measured shapes.
#[derive(Clone, Debug)]
pub(super) struct Model {
    iterations: Option<u64>,
    points: Vec<Point>,
    /// Exponents of the time of an iteration: over threads on a core, over cores.
    siblings: f64,
    cores: f64,
}

impl Model {
    /// Returns the model of shapes that were measured; there must be one.
    pub(super) fn fit(iterations: Option<u64>, points: Vec<Point>) -> Model {
        let mut model = Model {
            iterations,
            points,
            siblings: USUAL,
            cores: CORES,
        };
        let slope = |over: fn(&Active) -> f64, same: fn(&Active) -> f64| {
            let mut best: Option<(f64, f64)> = None;
            for (i, a) in model.points.iter().enumerate() {
                for b in &model.points[..i] {
                    let (one, two) = (
                        model.active(a.shape, a.threads),
                        model.active(b.shape, b.threads),
                    );
                    let distance = (over(&one) / over(&two)).ln();
                    // Of two shapes that differ in both, nothing follows for one of them unless the other differs little.
                    let other = (same(&one) / same(&two)).ln().abs();
                    if distance.abs() < 0.05 || other > 0.5 {
                        continue;
                    }
                    let slope = (a.time / one.rounds / (b.time / two.rounds)).ln() / distance;
                    // The closest pair says most of what comes next.
                    if best.is_none_or(|(least, _)| distance.abs() + other < least) {
                        best = Some((distance.abs() + other, slope));
                    }
                }
            }
            best.map(|(_, slope)| slope.clamp(-0.5, 2.5))
        };
        let siblings = slope(|one| one.per_core, |one| one.cores);
        let cores = slope(|one| one.cores, |one| one.per_core);
        model.siblings = siblings.unwrap_or(USUAL);
        model.cores = cores.unwrap_or(CORES);
        model
    }

    fn active(&self, shape: Shape, threads: u32) -> Active {
        let threads = f64::from(threads);
        match self.iterations {
            None => Active {
                rounds: 1e6 / threads,
                per_core: threads / f64::from(shape.cores),
                cores: f64::from(shape.cores),
            },
            Some(iterations) => {
                let iterations = iterations.max(1) as f64;
                let busy = threads.min(iterations);
                // Teams are placed core by core: if there are fewer iterations than threads, whole cores have none.
                let per_core = (threads / f64::from(shape.cores)).min(busy);
                Active {
                    rounds: (iterations / threads).ceil(),
                    per_core,
                    cores: busy / per_core,
                }
            }
        }
    }

    /// Returns what is expected of a shape: scaled from the measured shape that is most like it.
    pub(super) fn expect(&self, shape: Shape, threads: u32) -> Expected {
        let to = self.active(shape, threads);
        let likeness = |point: &Point| {
            let from = self.active(point.shape, point.threads);
            (from.per_core / to.per_core).ln().abs() + (from.cores / to.cores).ln().abs()
        };
        let near = self
            .points
            .iter()
            .min_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let near = near.expect("a model has a point");
        let from = self.active(near.shape, near.threads);
        let rounds = near.time * to.rounds / from.rounds;
        let scaled = |siblings: f64, cores: f64| {
            rounds
                * (to.per_core / from.per_core).powf(siblings)
                * (to.cores / from.cores).powf(cores)
        };
        // Fewer threads are never expected to make an iteration slower, more are expected to share a used-up resource.
        let (up, wide) = (to.per_core > from.per_core, to.cores > from.cores);
        Expected {
            likely: scaled(self.siblings, self.cores),
            worst: self.most_rounds(near.threads, threads)
                * scaled(f64::from(u8::from(up)), f64::from(u8::from(wide))),
        }
    }

    /// Returns how many times as many rounds `to` threads may need as is expected of them if the number of iterations is not known: a
    /// loop of as many iterations as `from` threads takes two rounds with one thread less.
    fn most_rounds(&self, from: u32, to: u32) -> f64 {
        match self.iterations {
            None if to < from => f64::from(from.div_ceil(to)) * f64::from(to) / f64::from(from),
            _ => 1.0,
        }
    }

    /// Returns the fewest cores that do the loop in as many rounds as `cores` do; `cores` if the number of iterations is unknown.
    pub(super) fn tight(&self, cores: u16, threads_per_core: u16) -> u16 {
        let Some(iterations) = self.iterations else {
            return cores;
        };
        let threads = u64::from(cores) * u64::from(threads_per_core);
        let rounds = iterations.max(1).div_ceil(threads.max(1));
        let needed = iterations.max(1).div_ceil(rounds);
        let cores_needed = needed.div_ceil(u64::from(threads_per_core.max(1)));
        cores_needed.clamp(1, u64::from(cores)) as u16
    }
}

/// How a team works on a loop.
struct Active {
    rounds: f64,
    /// Threads with iterations on a core, and cores with such threads.
    per_core: f64,
    cores: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(cores: u16, threads_per_core: u16) -> Shape {
        Shape {
            cores,
            threads_per_core,
        }
    }

    fn point(cores: u16, threads_per_core: u16, time: f64) -> Point {
        let shape = shape(cores, threads_per_core);
        Point {
            shape,
            threads: shape.threads(),
            time,
        }
    }

    #[test]
    fn steps_of_published_loops() {
        // FT, class B: 256 iterations are two rounds with 60x4, and with 43x3. SP: 102 are one round with 51x2.
        let ft = Model::fit(Some(256), vec![point(60, 4, 100.0)]);
        assert_eq!((ft.tight(60, 4), ft.tight(60, 3)), (32, 43));
        let sp = Model::fit(Some(102), vec![point(60, 4, 100.0)]);
        assert_eq!((sp.tight(60, 2), sp.tight(60, 1)), (51, 51));
        let unknown = Model::fit(None, vec![point(60, 4, 100.0)]);
        assert_eq!(unknown.tight(60, 3), 60);
    }

    #[test]
    fn as_many_rounds_with_fewer_siblings_cost_nothing() {
        let ft = Model::fit(Some(256), vec![point(60, 4, 100.0)]);
        let expected = ft.expect(shape(43, 3), 129);
        assert!(
            expected.worst <= 100.0 && expected.likely < 90.0,
            "{expected:?}"
        );
        // One more core does not change that, one less needs a third round.
        assert!(ft.expect(shape(42, 3), 126).worst > 120.0);
    }

    #[test]
    fn the_exponent_of_siblings_is_fitted() {
        // Without a known number of iterations: 4 on a core take as long as 2 on a core, so an iteration takes twice as long.
        let model = Model::fit(None, vec![point(60, 4, 100.0), point(60, 2, 100.0)]);
        assert!((model.siblings - 1.0).abs() < 1e-9);
        assert!((model.expect(shape(60, 3), 180).likely - 100.0).abs() < 1e-6);
    }
}
