//! How fast siblings of one core work on their units: its issue slots, cycle by cycle (RULES.md, rule 3).

use super::Work;

/// Instructions of each member that are simulated.
pub const SAMPLE: u64 = 4096;

/// A share of an instruction, in 2^32ths.
const ONE: u64 = 1 << 32;

/// What a core is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Cycles from one instruction of a thread to its next one.
    pub spacing: u64,
    /// Cycles that a member stalls for a line of the second level, and one from memory.
    pub second_level: u64,
    pub memory: u64,
    /// Instructions of a waiting thread's look at its flag.
    pub poll: u64,
}

/// A hardware thread.
struct Thread {
    /// The first cycle in which it may issue.
    ready: u64,
    /// Instructions to go; of a waiting thread those until its pause.
    left: u64,
    /// Shares of a stall that have come together.
    second_level: u64,
    memory: u64,
}

/// Returns the cycles of an instruction, with all stalls, if `members` siblings have `work` and `waiting` more look at a flag and pause for
/// `pause` cycles in between.
///
/// In a cycle one of the threads that are ready issues: the next one by number after the last that did. A member stalls after so many
/// instructions that its lines are spread evenly; members begin at different places between two lines. It ends when the last one has
/// issued [`SAMPLE`] instructions.
pub fn cycles_per_instruction(
    issue: &Issue,
    work: &Work,
    members: usize,
    waiting: usize,
    pause: u64,
) -> f64 {
    let share = |lines: f64| (lines / work.instructions.max(1.0) * ONE as f64) as u64;
    // What the prefetcher has fetched is in the second level.
    let (near, far) = (
        share(work.second_level + work.streamed),
        share(work.fetched),
    );
    let mut threads: Vec<Thread> = (0..members + waiting)
        .map(|number| Thread {
            ready: 0,
            left: match number < members {
                true => SAMPLE,
                false => issue.poll,
            },
            second_level: ONE * number as u64 / members.max(1) as u64 % ONE,
            memory: ONE * number as u64 / members.max(1) as u64 % ONE,
        })
        .collect();
    let (mut cycle, mut last, mut running, mut end) = (0, threads.len() - 1, members, 0);
    while running > 0 {
        let next = (1..=threads.len()).map(|step| (last + step) % threads.len());
        let able = |&number: &usize| threads[number].left > 0 && threads[number].ready <= cycle;
        let Some(number) = next.clone().find(able) else {
            let waits = threads.iter().filter(|thread| thread.left > 0);
            cycle = waits.map(|thread| thread.ready).min().unwrap_or(cycle + 1);
            continue;
        };
        last = number;
        let thread = &mut threads[number];
        thread.left -= 1;
        thread.ready = cycle + issue.spacing;
        if number >= members {
            if thread.left == 0 {
                (thread.left, thread.ready) = (issue.poll, thread.ready + pause);
            }
        } else {
            thread.second_level += near;
            thread.memory += far;
            thread.ready +=
                thread.second_level / ONE * issue.second_level + thread.memory / ONE * issue.memory;
            thread.second_level %= ONE;
            thread.memory %= ONE;
            if thread.left == 0 {
                running -= 1;
                end = end.max(thread.ready);
            }
        }
        cycle += 1;
    }
    end as f64 / SAMPLE as f64
}
