//! A thread that looks for actors which have the turn and wait for something that is no part of their schedule: a lock, a thread, another
//! process. All others would wait with them for ever, perhaps for one another.

use super::turns::Turns;
use crate::process::Process;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Looks in a row, between which a thread has not run, after which it has lost the turn.
const BLOCKED: u32 = 10;

/// Looks in a row after which a thread is named that has run all the time.
const LONG: u32 = 100;

struct Watched {
    /// The process in which a thread looks.
    process: Option<Process>,
    schedules: Vec<Weak<Turns>>,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched {
    process: None,
    schedules: Vec::new(),
});

/// Looks from now on at this schedule, as long as it is used.
pub(super) fn watch(turns: &Arc<Turns>) {
    // In a child of `fork(2)`, another thread may have held the lock; then nothing is found.
    let Some(mut watched) = WATCHED.try_lock_for(LOOK) else {
        return;
    };
    watched.schedules.push(Arc::downgrade(turns));
    if !watched.process.is_some_and(|process| process.is_this()) {
        watched.process = Some(Process::this());
        // Without the thread, what would be found hangs.
        let _ = std::thread::Builder::new()
            .name("tanada-turns".to_owned())
            .spawn(look);
    }
}

/// Returns whether this process has the thread that looks.
pub(crate) fn is_watched() -> bool {
    let process = WATCHED
        .try_lock_for(LOOK)
        .and_then(|watched| watched.process);
    process.is_some_and(|process| process.is_this())
}

/// What was seen of the actor that has the turn.
#[derive(Clone, Copy, PartialEq)]
struct Seen {
    actor: usize,
    step: u64,
    system: i32,
    /// The processor time of its thread, in ticks.
    spent: u64,
}

fn look() {
    // For each schedule: what was seen last, for how many looks it waits there, and since how many looks it is the same step.
    let mut known: Vec<(Weak<Turns>, Option<Seen>, u32, u32)> = Vec::new();
    loop {
        std::thread::sleep(LOOK);
        {
            let mut watched = WATCHED.lock();
            known.extend(watched.schedules.drain(..).map(|turns| (turns, None, 0, 0)));
        }
        known.retain_mut(|(turns, last, waits, same)| {
            let Some(turns) = turns.upgrade() else {
                return false;
            };
            let thread = |(actor, step, system)| {
                let (runs, spent) = state_of(system)?;
                let seen = Seen {
                    actor,
                    step,
                    system,
                    spent,
                };
                Some((runs, seen))
            };
            let now = turns.holder().and_then(thread);
            let Some((runs, seen)) = now else {
                (*last, *waits, *same) = (None, 0, 0);
                return true;
            };
            let before = last.replace(seen);
            let is_same = before.is_some_and(|b| (b.actor, b.step) == (seen.actor, seen.step));
            *same = if is_same { *same + 1 } else { 0 };
            *waits = if before == Some(seen) && !runs { *waits + 1 } else { 0 };
            if *waits == BLOCKED {
                *waits = 0;
                turns.is_stuck(seen.actor, seen.step, true, |who| {
                    format!(
                        "{who} has waited for a second for something that is no part of the schedule (a lock, a thread, a sleep); \
                         the others go on without it, so from here on the order is not determined"
                    )
                });
            } else if *same == LONG {
                turns.is_stuck(seen.actor, seen.step, false, |who| {
                    format!("{who} has run for ten seconds; if it waits for another task, that never runs")
                });
            }
            true
        });
    }
}

/// Returns whether this thread of the process runs or could run, and its processor time in ticks. `None` if the system does not tell.
fn state_of(system: i32) -> Option<(bool, u64)> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{system}/stat")).ok()?;
    parse(&text)
}

/// Reads the text of such a file: the name, in parentheses, may hold anything.
fn parse(text: &str) -> Option<(bool, u64)> {
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let runs = fields.next()? == "R";
    // Fields 14 and 15 of all: time in user mode and in the kernel.
    let mut times = fields.skip(10).map(str::parse::<u64>);
    Some((runs, times.next()?.ok()? + times.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_behind_any_name() {
        let text = "7 (a) R) S 1 7 7 0 -1 4194304 100 0 0 0 20 3 0 0 20 0 1 0 5 1 1";
        assert_eq!(parse(text), Some((false, 23)));
        assert_eq!(parse("7 (a"), None);
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(state_of(me).is_none_or(|(runs, _)| runs));
    }
}
