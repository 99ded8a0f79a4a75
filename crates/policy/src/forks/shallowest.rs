//! `shallowest-of-2`, `-4`, `-8`: what paper 5 tried (section 4.2): of some random victims, a thief takes from the one whose oldest fork is
//! the shallowest.
//!
//! Rule: every fork is exposed. A thief draws k victims and peeks at each; of those that have a fork it tries the one with the least depth,
//! of equals the one drawn first. If it got nothing it draws again, until it has peeked as often as there are other workers; then it tries
//! all others in the order of their numbers.

use crate::{Fork, ForkPolicy, Keep, Thief, WorkerId};

/// Steals by the rule with `k` victims.
fn shallowest(k: u16, thief: &mut Thief<'_>, steal: &mut dyn FnMut(WorkerId) -> bool) -> bool {
    let others = thief.placement.workers() - 1;
    for _ in 0..others.div_ceil(k) {
        let mut least: Option<(u16, WorkerId)> = None;
        for _ in 0..k {
            let victim = thief.draw_other();
            if let Some(depth) = thief.peek(victim)
                && least.is_none_or(|(other, _)| depth < other)
            {
                least = Some((depth, victim));
            }
        }
        if least.is_some_and(|(_, victim)| steal(victim)) {
            return true;
        }
    }
    thief.others().any(steal)
}

macro_rules! shallowest_of {
    ($($name:ident = $k:literal;)*) => {
        $(
            #[doc = concat!("The policy with ", $k, " victims.")]
            #[derive(Debug)]
            pub struct $name;

            impl ForkPolicy for $name {
                /// Depths are known only of forks that a policy decides.
                fn decides(&self) -> bool {
                    true
                }

                fn keep(&self, _fork: &Fork) -> Keep {
                    Keep::Exposed
                }

                fn steal(
                    &self,
                    thief: &mut Thief<'_>,
                    steal: &mut dyn FnMut(WorkerId) -> bool,
                ) -> bool {
                    shallowest($k, thief, steal)
                }
            }
        )*
    };
}

shallowest_of! {
    ShallowestOf2 = 2;
    ShallowestOf4 = 4;
    ShallowestOf8 = 8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Placement;

    /// Calls the policy as worker 0 of five, with these random numbers and these depths of the workers' oldest forks. Returns whom it tried
    /// while nothing could be taken, and how often it peeked.
    fn tried(numbers: &[u64], depths: [Option<u16>; 5]) -> (Vec<u16>, usize) {
        let placement = Placement::flat(5);
        let (mut drawn, mut peeked, mut tried) = (0, 0, Vec::new());
        let mut random = || {
            drawn += 1;
            numbers[(drawn - 1) % numbers.len()]
        };
        let mut peek = |victim: WorkerId| {
            peeked += 1;
            depths[victim.index()]
        };
        let mut thief = Thief {
            me: WorkerId(0),
            placement: &placement,
            looked: 0,
            random: &mut random,
            peek: &mut peek,
        };
        let took = shallowest(2, &mut thief, &mut |victim| {
            tried.push(victim.0);
            false
        });
        assert!(!took);
        (tried, peeked)
    }

    #[test]
    fn the_shallowest_of_those_drawn_is_tried_first() {
        // Draws 0 and 2 are workers 1 and 3, draws 1 and 3 are workers 2 and 4.
        let depths = [Some(0), Some(7), Some(5), Some(3), Some(5)];
        assert_eq!(tried(&[0, 2, 1, 3], depths).0, [3, 2, 1, 2, 3, 4]);
        let (nothing, peeked) = tried(&[0], [None; 5]);
        assert_eq!((nothing, peeked), (vec![1, 2, 3, 4], 4));
    }
}
