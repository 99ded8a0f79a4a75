//! The steps of a Cholesky factorisation in tiles, and which of them wait for which.

/// The steps of a matrix of so many tiles a side.
///
/// Step k of tile (i, j), `k <= j <= i`, subtracts a product from the tile if `k < j`, and is the tile's last if `k == j`. Steps are
/// numbered tile by tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) tiles: u32,
}

impl Steps {
    /// Returns the number of step `k` of tile (`i`, `j`).
    pub(crate) fn number(self, [i, j, k]: [u32; 3]) -> usize {
        let [i, j, k] = [i, j, k].map(u64::from);
        // Row i has 1 + 2 + ... + (i + 1) steps.
        let rows = i * (i + 1) * (i + 2) / 6;
        (rows + j * (j + 1) / 2 + k) as usize
    }

    /// Returns how many steps there are.
    pub(crate) fn len(self) -> usize {
        self.number([self.tiles, 0, 0])
    }

    /// Returns all steps in the order of a program without tasks.
    pub(crate) fn all(self) -> impl Iterator<Item = [u32; 3]> {
        (0..self.tiles).flat_map(move |k| self.last(k).chain(self.products(k)))
    }

    /// Returns the last steps of the tiles of column `k`, that of the diagonal first.
    pub(crate) fn last(self, k: u32) -> impl Iterator<Item = [u32; 3]> {
        (k..self.tiles).map(move |i| [i, k, k])
    }

    /// Returns step `k` of all tiles to the right of column `k`.
    pub(crate) fn products(self, k: u32) -> impl Iterator<Item = [u32; 3]> {
        (k + 1..self.tiles).flat_map(move |i| (k + 1..=i).map(move |j| [i, j, k]))
    }

    /// Returns the steps that step `[i, j, k]` waits for, each once.
    pub(crate) fn before(self, [i, j, k]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
        let own = (k > 0).then(|| [i, j, k - 1]);
        let left = match j == k {
            true => (k < i).then_some([k, k, k]),
            false => Some([i, k, k]),
        };
        let above = (k < j && j < i).then_some([j, k, k]);
        [own, left, above].into_iter().flatten()
    }

    /// Returns the steps that wait for step `[i, j, k]`, each once.
    pub(crate) fn after(self, [i, j, k]: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
        let own = (k < j).then(|| [i, j, k + 1]);
        let column = (i == k).then(|| (i + 1..self.tiles).map(move |m| [m, k, k]));
        let across = (j == k && k < i).then(|| {
            let row = (k + 1..=i).map(move |j| [i, j, k]);
            row.chain((i + 1..self.tiles).map(move |m| [m, i, k]))
        });
        let column = column.into_iter().flatten();
        own.into_iter()
            .chain(column)
            .chain(across.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native;

    #[test]
    fn steps_have_numbers_of_their_own_and_come_after_those_that_they_wait_for() {
        for tiles in 1..8 {
            let steps = Steps { tiles };
            let mut done = vec![false; steps.len()];
            for step in steps.all() {
                assert!(steps.before(step).all(|before| done[steps.number(before)]));
                assert!(!std::mem::replace(&mut done[steps.number(step)], true));
            }
            assert!(done.iter().all(|&done| done));
        }
    }

    #[test]
    fn after_is_the_other_side_of_before() {
        let steps = Steps { tiles: 7 };
        let mut forth = Vec::from_iter(
            steps
                .all()
                .flat_map(|at| steps.after(at).map(move |to| (at, to))),
        );
        let mut back = Vec::from_iter(
            steps
                .all()
                .flat_map(|at| steps.before(at).map(move |from| (from, at))),
        );
        forth.sort_unstable();
        back.sort_unstable();
        assert_eq!(forth, back);
    }

    /// One test, since all matrices are one.
    #[test]
    fn the_factor_times_its_transpose_is_the_matrix_and_disorder_is_found() {
        for (tiles, tile) in [(1, 8), (5, 16), (3, 32)] {
            native::matrix(tiles, tile).expect("memory");
            let run = || Steps { tiles }.all().for_each(native::cholesky_step);
            native::factored(run).expect("in order");
            assert!(native::factor_error() < 1e-9 * f64::from(tiles * tile));
        }
        let steps = Steps { tiles: 3 };
        let last = steps.len() - 1;
        let without = |left_out: usize| {
            move || {
                let some = steps
                    .all()
                    .enumerate()
                    .filter(move |&(at, _)| at != left_out);
                some.for_each(|(_, step)| native::cholesky_step(step));
            }
        };
        for left_out in 0..=last {
            native::matrix(3, 8).expect("memory");
            assert!(native::factored(without(left_out)).is_err(), "{left_out}");
        }
        native::matrix(3, 8).expect("memory");
        let twice = || {
            steps
                .all()
                .chain(steps.all().take(1))
                .for_each(native::cholesky_step)
        };
        assert!(native::factored(twice).is_err());
    }
}
