//! Recursions that fork: the same kernels for every runtime with a `join`.

use crate::native;

/// A recursion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Fibonacci's number 32 by its definition, a fork a call: nothing but forks.
    Fib = 0,
    /// The rest, and a body of 1 us that is forked, 5,000 levels deep: little to steal at a time.
    Comb = 1,
    /// The sum of all nodes of a binary tree on the heap, which every runtime walks in the order in which the nodes lie there.
    Tree = 2,
    /// The size of a tree of which each node has 8 children or none, by chance: after the binomial trees of "UTS: An Unbalanced Tree Search
    /// Benchmark" (Olivier et al., LCPC 2006), with another hash.
    Uts = 3,
    /// The sum of a million numbers, ten forks a level.
    Skynet = 4,
    /// All solutions for 10 queens, a fork a place.
    Queens = 5,
    /// Four million numbers, sorted in place.
    Quicksort = 6,
    /// The same, by merging.
    Mergesort = 7,
    /// The product of two matrices of 768 x 768 numbers, in quarters.
    Matmul = 8,
    /// From a thread that is no worker: 64 empty leaves.
    Latency = 9,
}

/// All kernels.
pub(crate) const KERNELS: [Kernel; 10] = [
    Kernel::Fib,
    Kernel::Comb,
    Kernel::Tree,
    Kernel::Uts,
    Kernel::Skynet,
    Kernel::Queens,
    Kernel::Quicksort,
    Kernel::Mergesort,
    Kernel::Matmul,
    Kernel::Latency,
];

/// How many of [`KERNELS`], from the first, native peers run.
pub(crate) const NATIVE_KERNELS: usize = 6;

const FIB: u32 = 32;
const TEETH: u32 = 5_000;
const LEVELS: u32 = 23;
/// Children of the root of `uts`; its other nodes have [`TWIGS`] or none.
const LIMBS: u32 = 2_000;
const TWIGS: u32 = 8;
/// A node of `uts` has children if its hash is below this: 0.1248 of them, so that the tree is finite.
const FERTILE: u64 = u64::MAX / 100_000 * 12_480;
/// Nodes of `uts`.
const UTS_NODES: u64 = 522_681;
const LEAVES: u32 = 1_000_000;
const QUEENS: u32 = 10;
const VALUES: usize = 4_000_000;
const SIDE: usize = 768;
/// Numbers that are sorted without forks.
const FEW: usize = 64;
/// The side of a block that is multiplied without forks.
const BLOCK: usize = 64;
/// A thread outside calls so many times in a row.
pub(crate) const CALLS: u32 = 100;

impl Kernel {
    /// Returns the `params` that name the kernel.
    pub(crate) fn params(self) -> &'static str {
        match self {
            Kernel::Fib => "fib",
            Kernel::Comb => "comb",
            Kernel::Tree => "tree",
            Kernel::Uts => "uts",
            Kernel::Skynet => "skynet",
            Kernel::Queens => "nqueens",
            Kernel::Quicksort => "quicksort",
            Kernel::Mergesort => "mergesort",
            Kernel::Matmul => "matmul",
            Kernel::Latency => "latency",
        }
    }

    /// Returns how many of what a time is given for: forks, teeth, nodes, leaves, solutions, numbers, multiplications or calls.
    pub(crate) fn units(self) -> f64 {
        match self {
            Kernel::Fib => 3_524_577.0,
            Kernel::Comb => f64::from(TEETH),
            Kernel::Tree => f64::from((1_u32 << LEVELS) - 1),
            Kernel::Uts => UTS_NODES as f64,
            Kernel::Skynet => f64::from(LEAVES),
            Kernel::Queens => 724.0,
            Kernel::Quicksort | Kernel::Mergesort => VALUES as f64,
            Kernel::Matmul => (SIDE * SIDE * SIDE) as f64,
            Kernel::Latency => f64::from(CALLS),
        }
    }
}

impl Kernel {
    /// Returns the size of a kernel that native peers run.
    pub(crate) fn size(self) -> u32 {
        match self {
            Kernel::Fib => FIB,
            Kernel::Comb => TEETH,
            Kernel::Uts => LIMBS,
            Kernel::Skynet => LEAVES,
            Kernel::Queens => QUEENS,
            _ => LEVELS,
        }
    }
}

/// What kernels work on, made before their time is taken.
pub(crate) struct Inputs {
    pub(crate) tree: Option<Box<Node>>,
    numbers: Vec<u32>,
    sorted: Vec<u32>,
    spare: Vec<u32>,
    factors: [Vec<f32>; 2],
    product: Vec<f32>,
}

/// A node of a binary tree, as native peers see it.
#[repr(C)]
pub(crate) struct Node {
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
    value: u64,
}

/// Returns a tree that is made from the root to the leaves and from left to right, so that its nodes lie in the order of such a walk.
fn tree(levels: u32, value: u64) -> Option<Box<Node>> {
    (levels > 0).then(|| {
        let (left, right) = (None, None);
        let mut node = Box::new(Node { left, right, value });
        node.left = tree(levels - 1, value * 2);
        node.right = tree(levels - 1, value * 2 + 1);
        node
    })
}

impl Inputs {
    /// Returns what `kernel` needs.
    pub(crate) fn new(kernel: Kernel) -> Inputs {
        let mut state = 7_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u32
        };
        let sorts = matches!(kernel, Kernel::Quicksort | Kernel::Mergesort);
        let numbers: Vec<u32> = (0..if sorts { VALUES } else { 0 })
            .map(|_| random())
            .collect();
        let entries = if kernel == Kernel::Matmul {
            SIDE * SIDE
        } else {
            0
        };
        let mut matrix = || (0..entries).map(|_| (random() % 8) as f32).collect();
        Inputs {
            tree: tree(if kernel == Kernel::Tree { LEVELS } else { 0 }, 1),
            sorted: numbers.clone(),
            spare: numbers.clone(),
            numbers,
            factors: [matrix(), matrix()],
            product: vec![0.0; entries],
        }
    }

    /// Undoes what a run has done.
    pub(crate) fn reset(&mut self) {
        self.sorted.copy_from_slice(&self.numbers);
        self.product.fill(0.0);
    }
}

/// A runtime that forks.
pub(crate) trait Fork {
    /// What a closure needs to fork.
    type Scope<'s>;

    /// Whether one thread runs the second closure before the first.
    const SECOND_FIRST: bool = false;

    /// Runs both, perhaps at the same time.
    fn join<A: Send, B: Send>(
        scope: &mut Self::Scope<'_>,
        first: impl FnOnce(&mut Self::Scope<'_>) -> A + Send,
        second: impl FnOnce(&mut Self::Scope<'_>) -> B + Send,
    ) -> (A, B);
}

/// Runs the tasks from `from` to before `to`, of which there is at least one, by halves.
pub(crate) fn halves<F: Fork>(scope: &mut F::Scope<'_>, from: u32, to: u32) {
    if to - from <= 1 {
        native::task(from);
    } else {
        let middle = from + (to - from) / 2;
        F::join(
            scope,
            |scope| halves::<F>(scope, from, middle),
            |scope| halves::<F>(scope, middle, to),
        );
    }
}

/// No runtime.
pub(crate) struct Plain;

impl Fork for Plain {
    type Scope<'s> = ();

    #[inline]
    fn join<A: Send, B: Send>(
        scope: &mut (),
        first: impl FnOnce(&mut ()) -> A + Send,
        second: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        (first(scope), second(scope))
    }
}

/// Runs a kernel once, and returns a number that depends on all that it computed.
pub(crate) fn run<F: Fork>(fork: &mut F::Scope<'_>, kernel: Kernel, inputs: &mut Inputs) -> u64 {
    match kernel {
        Kernel::Fib => fib::<F>(fork, FIB),
        Kernel::Comb => comb::<F>(fork, TEETH),
        Kernel::Tree => sum::<F>(fork, inputs.tree.as_deref()),
        Kernel::Uts => uts::<F>(fork, 0, LIMBS),
        Kernel::Skynet => skynet::<F>(fork, 0, u64::from(LEAVES)),
        Kernel::Queens => queens::<F>(fork, 0, [0; 3]),
        Kernel::Quicksort => {
            quicksort::<F>(fork, &mut inputs.sorted);
            digest(&inputs.sorted)
        }
        Kernel::Mergesort => {
            mergesort::<F>(fork, &mut inputs.sorted, &mut inputs.spare);
            digest(&inputs.sorted)
        }
        Kernel::Matmul => {
            let [a, b] = &inputs.factors;
            matmul::<F>(fork, a, b, rows(&mut inputs.product), [0, 0]);
            inputs.product.iter().map(|&entry| entry as u64).sum()
        }
        Kernel::Latency => leaves::<F>(fork, 64),
    }
}

fn digest(numbers: &[u32]) -> u64 {
    let pairs = numbers.iter().zip(1_u64..);
    pairs.fold(0, |sum, (&number, place)| {
        sum.wrapping_add(place * u64::from(number))
    })
}

fn fib<F: Fork>(fork: &mut F::Scope<'_>, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = F::join(
        fork,
        |fork| fib::<F>(fork, n - 1),
        |fork| fib::<F>(fork, n - 2),
    );
    a + b
}

fn comb<F: Fork>(fork: &mut F::Scope<'_>, teeth: u32) -> u64 {
    if teeth == 0 {
        return 0;
    }
    let (rest, ()) = F::join(
        fork,
        |fork| comb::<F>(fork, teeth - 1),
        |_| native::task(teeth),
    );
    rest + 1
}

fn sum<F: Fork>(fork: &mut F::Scope<'_>, node: Option<&Node>) -> u64 {
    let Some(node) = node else { return 0 };
    // The order of the walk matters more than the forks: the nodes lie on the heap from left to right.
    let (first, second) = match F::SECOND_FIRST {
        false => (&node.left, &node.right),
        true => (&node.right, &node.left),
    };
    let (first, second) = F::join(
        fork,
        |fork| sum::<F>(fork, first.as_deref()),
        |fork| sum::<F>(fork, second.as_deref()),
    );
    node.value + first + second
}

/// Returns a number that looks random (SplitMix64).
fn hash(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the number of nodes of the tree below and at the node `name`, which has `count` children.
fn uts<F: Fork>(fork: &mut F::Scope<'_>, name: u64, count: u32) -> u64 {
    /// The trees of the children from `first` to `last`.
    fn children<F: Fork>(fork: &mut F::Scope<'_>, name: u64, first: u32, last: u32) -> u64 {
        if last - first == 1 {
            let child = hash(name.wrapping_add(u64::from(last)));
            return uts::<F>(fork, child, if child < FERTILE { TWIGS } else { 0 });
        }
        let middle = first.midpoint(last);
        let (a, b) = F::join(
            fork,
            |fork| children::<F>(fork, name, first, middle),
            |fork| children::<F>(fork, name, middle, last),
        );
        a + b
    }
    match count {
        0 => 1,
        _ => 1 + children::<F>(fork, name, 0, count),
    }
}

fn skynet<F: Fork>(fork: &mut F::Scope<'_>, from: u64, size: u64) -> u64 {
    if size == 1 {
        return from;
    }
    /// The children from `first` to `last`.
    fn children<F: Fork>(
        fork: &mut F::Scope<'_>,
        from: u64,
        size: u64,
        first: u64,
        last: u64,
    ) -> u64 {
        if last - first == 1 {
            return skynet::<F>(fork, from + first * size, size);
        }
        let middle = first.midpoint(last);
        let (a, b) = F::join(
            fork,
            |fork| children::<F>(fork, from, size, first, middle),
            |fork| children::<F>(fork, from, size, middle, last),
        );
        a + b
    }
    children::<F>(fork, from, size / 10, 0, 10)
}

/// Returns the number of solutions with queens in the first `row` rows, which cover columns and both diagonals.
fn queens<F: Fork>(fork: &mut F::Scope<'_>, row: u32, covered: [u32; 3]) -> u64 {
    if row == QUEENS {
        return 1;
    }
    /// With the queen of the row on one of the places `free`.
    fn places<F: Fork>(fork: &mut F::Scope<'_>, row: u32, covered: [u32; 3], free: u32) -> u64 {
        match free.count_ones() {
            0 => 0,
            1 => {
                let [columns, left, right] = covered.map(|lines| lines | free);
                queens::<F>(fork, row + 1, [columns, left << 1, right >> 1])
            }
            _ => {
                let first = free & free.wrapping_neg();
                let (a, b) = F::join(
                    fork,
                    |fork| places::<F>(fork, row, covered, first),
                    |fork| places::<F>(fork, row, covered, free & !first),
                );
                a + b
            }
        }
    }
    let free = !(covered[0] | covered[1] | covered[2]) & ((1 << QUEENS) - 1);
    places::<F>(fork, row, covered, free)
}

fn quicksort<F: Fork>(fork: &mut F::Scope<'_>, numbers: &mut [u32]) {
    if numbers.len() <= FEW {
        return insert(numbers);
    }
    // The median of three as the last, then Lomuto's partition.
    let last = numbers.len() - 1;
    let mut three = [0, numbers.len() / 2, last];
    three.sort_unstable_by_key(|&at| numbers[at]);
    numbers.swap(three[1], last);
    let pivot = numbers[last];
    let mut below = 0;
    for at in 0..last {
        let is_below = numbers[at] < pivot;
        numbers.swap(at, below);
        below += usize::from(is_below);
    }
    numbers.swap(below, last);
    let (small, great) = numbers.split_at_mut(below);
    F::join(
        fork,
        |fork| quicksort::<F>(fork, small),
        |fork| quicksort::<F>(fork, &mut great[1..]),
    );
}

fn insert(numbers: &mut [u32]) {
    for end in 1..numbers.len() {
        let mut at = end;
        while at > 0 && numbers[at - 1] > numbers[at] {
            numbers.swap(at - 1, at);
            at -= 1;
        }
    }
}

fn mergesort<F: Fork>(fork: &mut F::Scope<'_>, numbers: &mut [u32], spare: &mut [u32]) {
    if numbers.len() <= FEW {
        return insert(numbers);
    }
    let middle = numbers.len() / 2;
    {
        let (a, b) = numbers.split_at_mut(middle);
        let (c, d) = spare.split_at_mut(middle);
        F::join(
            fork,
            |fork| mergesort::<F>(fork, a, c),
            |fork| mergesort::<F>(fork, b, d),
        );
    }
    spare.copy_from_slice(numbers);
    let (left, right) = spare.split_at(middle);
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    for number in numbers {
        let from_left = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a <= b,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let next = if from_left { left.next() } else { right.next() };
        *number = *next.expect("as many numbers as places");
    }
}

/// Returns the rows of a matrix, which is not empty.
fn rows(matrix: &mut [f32]) -> Vec<&mut [f32]> {
    matrix.chunks_mut(SIDE).collect()
}

/// Computes the part of the product that `to` is, whose first row and column are `at`.
fn matmul<F: Fork>(
    fork: &mut F::Scope<'_>,
    a: &[f32],
    b: &[f32],
    mut to: Vec<&mut [f32]>,
    at: [usize; 2],
) {
    let columns = to[0].len();
    if to.len() <= BLOCK && columns <= BLOCK {
        for (row, to) in to.iter_mut().enumerate() {
            for k in 0..SIDE {
                let factor = a[(at[0] + row) * SIDE + k];
                let from = &b[k * SIDE + at[1]..][..columns];
                for (to, from) in to.iter_mut().zip(from) {
                    *to += factor * from;
                }
            }
        }
        return;
    }
    let ([below, beside], second) = match to.len() > BLOCK {
        true => {
            let middle = to.len() / 2;
            let second = to.split_off(middle);
            ([middle, 0], second)
        }
        false => {
            let middle = columns / 2;
            let (first, second) = to.into_iter().map(|row| row.split_at_mut(middle)).unzip();
            to = first;
            ([0, middle], second)
        }
    };
    F::join(
        fork,
        |fork| matmul::<F>(fork, a, b, to, at),
        |fork| matmul::<F>(fork, a, b, second, [at[0] + below, at[1] + beside]),
    );
}

fn leaves<F: Fork>(fork: &mut F::Scope<'_>, count: u32) -> u64 {
    if count == 1 {
        return 1;
    }
    let (a, b) = F::join(
        fork,
        |fork| leaves::<F>(fork, count / 2),
        |fork| leaves::<F>(fork, count - count / 2),
    );
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_compute_what_they_should() {
        let result = |kernel| run::<Plain>(&mut (), kernel, &mut Inputs::new(kernel));
        assert_eq!(result(Kernel::Fib), 2_178_309);
        assert_eq!(result(Kernel::Uts), UTS_NODES);
        assert_eq!(result(Kernel::Skynet), 499_999_500_000);
        assert_eq!(result(Kernel::Queens), 724);
        assert_eq!(result(Kernel::Latency), 64);
        let nodes = (1_u64 << LEVELS) - 1;
        assert_eq!(result(Kernel::Tree), nodes * (nodes + 1) / 2);
        let mut numbers = Inputs::new(Kernel::Quicksort).numbers;
        numbers.sort_unstable();
        assert_eq!(result(Kernel::Quicksort), digest(&numbers));
        assert_eq!(result(Kernel::Mergesort), digest(&numbers));
        let mut inputs = Inputs::new(Kernel::Matmul);
        run::<Plain>(&mut (), Kernel::Matmul, &mut inputs);
        let [a, b] = &inputs.factors;
        for (i, j) in [(0, 0), (1, 767), (700, 65), (767, 64)] {
            let entry: f32 = (0..SIDE).map(|k| a[i * SIDE + k] * b[k * SIDE + j]).sum();
            assert_eq!(inputs.product[i * SIDE + j], entry);
        }
    }
}
