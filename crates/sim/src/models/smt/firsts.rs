//! Which core steps first.

/// The time of each core's next step, as a tree in which every node has the earlier one of two: a change costs the logarithm of the number
/// of cores, and the earliest is at the root.
#[derive(Debug)]
pub(super) struct Firsts {
    times: Vec<u64>,
    /// Cores. Node `i` has the better one of nodes `2 i` and `2 i + 1`; the core `c` itself stands at `size + c`.
    nodes: Vec<u32>,
    size: usize,
}

impl Firsts {
    /// Of so many cores, none of which steps.
    pub(super) fn new(cores: usize) -> Firsts {
        let size = cores.next_power_of_two();
        let mut firsts = Firsts {
            times: vec![u64::MAX; size],
            nodes: vec![0; 2 * size],
            size,
        };
        for core in 0..size {
            firsts.nodes[size + core] = core as u32;
        }
        for node in (1..size).rev() {
            firsts.nodes[node] = firsts.nodes[2 * node];
        }
        firsts
    }

    /// Sets when a core steps; `u64::MAX`: never.
    #[inline]
    pub(super) fn set(&mut self, core: usize, time: u64) {
        self.times[core] = time;
        let mut node = (self.size + core) / 2;
        while node > 0 {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            // Of equal times that of the lower core.
            let later = self.times[left as usize] > self.times[right as usize];
            self.nodes[node] = if later { right } else { left };
            node /= 2;
        }
    }

    /// Returns the earliest time and the lowest core that has it.
    #[inline]
    pub(super) fn least(&self) -> (u64, usize) {
        let core = self.nodes[1] as usize;
        (self.times[core], core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_is_that_of_a_list(
            cores in 1_usize..20,
            changes in prop::collection::vec((0_usize..20, prop_oneof![Just(u64::MAX), 0_u64..9]), 1..100),
        ) {
            let mut firsts = Firsts::new(cores);
            let mut list = vec![u64::MAX; cores];
            prop_assert_eq!(firsts.least(), (u64::MAX, 0));
            for (core, time) in changes {
                let core = core % cores;
                firsts.set(core, time);
                list[core] = time;
                let least = list.iter().copied().zip(0..).min();
                prop_assert_eq!(Some(firsts.least()), least);
            }
        }
    }
}
