//! An irregular tree: leaves that update data of their own, under forks whose parts have very unequal work.
//!
//! A node with n leaves gives its first part a share of them that is drawn from the node's place: of n leaves at least one, and in most
//! nodes a small part. So branches differ in depth and size, and equal numbers of forks are far from equal work. Leaves are the same in
//! each iteration.

use super::workload::{CLOSURES, ITERATIONS, Registered};
use super::{Forked, Part, Touches};
use crate::options::{Kind, OptionSpec, Values};
use crate::phased::SEED;
use crate::workload::Description;

/// Elements of a leaf's data: 4 KiB.
const ELEMENTS: usize = 1024;

/// Bytes of a leaf's data.
const BYTES: u64 = (ELEMENTS * size_of::<f32>()) as u64;

/// Elements that a leaf updates at a time.
const STEP: usize = 128;

/// Thousandths of cycles that the update of an element computes.
const MILLIS: u64 = 2000;

const LEAVES: OptionSpec = OptionSpec::new(
    "leaves",
    "N",
    Kind::Count(1, 1 << 22),
    "Leaves, each of which updates 4 KiB of its own",
)
.default("16384")
.default_in_recordings("2048");

/// The program.
#[derive(Debug)]
pub struct Tree {
    leaves: usize,
    seed: u64,
}

impl Tree {
    /// Returns a tree with `leaves` leaves, at least one, whose shape is drawn by `seed`.
    pub fn new(leaves: usize, seed: u64) -> Tree {
        Tree {
            leaves: leaves.max(1),
            seed,
        }
    }
}

fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Registered for Tree {
    const DESCRIPTION: &'static Description = &Description {
        name: "tree",
        about: "Irregular tree of updates, as nested forks",
        details: "Forks whose parts have very unequal work, so that equal numbers of forks are far from equal work. \
        Leaves update the same data in each iteration: what counts is that they meet the core that has them.",
        options: &[LEAVES, SEED, ITERATIONS, CLOSURES],
        test_options: &[("leaves", "100"), ("iterations", "2")],
    };
    const PART: &'static str = "leaf";

    fn bytes(values: &Values) -> u64 {
        2 * values.count(LEAVES.flag) * size_of::<<Tree as Forked>::Item>() as u64
    }

    fn new(values: &Values) -> Self {
        Tree::new(values.count(LEAVES.flag) as usize, values.count(SEED.flag))
    }

    fn input(values: &Values) -> String {
        let (leaves, seed) = (values.count(LEAVES.flag), values.count(SEED.flag));
        format!("leaves={leaves},{}={seed}", SEED.flag)
    }

    fn result(&self, items: &[Self::Item]) -> (Vec<f32>, usize) {
        let all: Vec<f32> = items.as_flattened().to_vec();
        (all, size_of::<Self::Item>() / size_of::<f32>())
    }
}

impl Forked for Tree {
    /// The first leaf, and the first one behind the last.
    type Node = (usize, usize);
    type Item = [f32; ELEMENTS];

    const LEAF: &'static str = "update";

    fn root(&self) -> (usize, usize) {
        (0, self.leaves)
    }

    fn part(&self, (from, to): (usize, usize)) -> Part<(usize, usize)> {
        let count = to - from;
        if count == 1 {
            return Part::Leaf;
        }
        let drawn = mixed(self.seed ^ mixed((from as u64) << 32 | to as u64));
        // The square of a number from 0 to 1 is small more often than not; either part is the small one.
        let share = (drawn >> 40) as f64 / f64::from(1 << 24);
        let small = ((share * share * count as f64 / 2.0) as usize).clamp(1, count / 2);
        let middle = match drawn & 1 {
            0 => from + small,
            _ => to - small,
        };
        Part::Fork((from, middle), (middle, to))
    }

    fn work(&self, (from, to): (usize, usize)) -> u64 {
        (to - from) as u64
    }

    fn owns(&self, (from, to): (usize, usize)) -> usize {
        to - from
    }

    fn leaf<T: Touches>(
        &self,
        _node: (usize, usize),
        own: &mut [Self::Item],
        first: usize,
        touches: &mut T,
    ) {
        for (number, part) in own[0].chunks_mut(STEP).enumerate() {
            for element in &mut *part {
                *element = 0.5 * *element + 1.0;
            }
            let offset = first as u64 * BYTES + (number * STEP * size_of::<f32>()) as u64;
            let bytes = size_of_val(part) as u32;
            touches.read(0, offset, bytes);
            touches.compute(MILLIS * part.len() as u64);
            touches.write(0, offset, bytes);
        }
    }

    fn arrays(&self) -> Vec<u64> {
        vec![self.leaves as u64 * BYTES]
    }

    fn items(&self) -> Vec<Self::Item> {
        let item = |leaf: usize| std::array::from_fn(|at| ((leaf + at) % 101) as f32);
        (0..self.leaves).map(item).collect()
    }
}
