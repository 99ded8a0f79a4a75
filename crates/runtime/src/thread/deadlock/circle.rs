//! Whether threads that wait do so for each other.

use super::On;
use super::os_threads::OS;
use crate::thread::record::Wait;
use std::collections::HashMap;
use std::fmt;

/// What waits.
pub(super) struct Blocked {
    /// The number of the thread, or the [`context`](super::context).
    pub(super) who: u64,
    /// No other thread has it, and no other wait of an OS thread.
    pub(super) number: u64,
    pub(super) label: Label,
    pub(super) wait: Wait,
    /// The number of the scope that it is part of, or 0.
    pub(super) scope: u64,
    /// The number of the pool that does not end before it has gone on, or 0.
    pub(super) pool: u64,
    /// The worker on which it is.
    pub(super) worker: Option<u16>,
    /// Whether it stays there.
    pub(super) is_pinned: bool,
}

/// What reports call something that waits. A look at a million threads writes no texts.
#[derive(Clone)]
pub(in crate::thread) enum Label {
    /// A lightweight thread, with its number and its name, or none.
    Light(u64, &'static str),
    Other(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Light(number, "") => write!(f, "thread {number}"),
            Label::Light(number, name) => write!(f, "thread {number} ({name})"),
            Label::Other(name) => f.write_str(name),
        }
    }
}

impl Blocked {
    /// Returns the worker, after the number of its pool, that runs nothing else meanwhile, if this waits on a worker for the end of a pool.
    pub(super) fn holds(&self) -> Option<(u64, u16)> {
        let holds = self.wait.on == On::Pool && self.pool != 0;
        holds.then_some((self.pool, self.worker?))
    }

    /// Returns whether this waits for what others have.
    fn needs_others(&self) -> bool {
        matches!(
            self.wait.on,
            On::Join | On::Mutex | On::Once | On::Scope | On::Pool
        )
    }
}

/// Returns threads that wait for each other in a circle, by their places in `blocked`, each for the next one, and the one with the least
/// number first.
pub(super) fn circle_of(blocked: &[Blocked]) -> Vec<usize> {
    // While one of these waits for the end of a pool, its worker runs no other thread.
    let holders = blocked.iter().zip(0..);
    let holders: HashMap<_, usize> = holders
        .filter_map(|(thread, place)| Some((thread.holds()?, place)))
        .collect();
    let holder = |thread: &Blocked| {
        let is_held = !holders.is_empty() && thread.wait.on == On::Work && thread.is_pinned;
        let worker = is_held.then_some((thread.pool, thread.worker?))?;
        holders.get(&worker)
    };
    let needs_others = |thread: &Blocked| thread.needs_others() || holder(thread).is_some();
    // A lightweight thread has one wait. Of those of one OS thread, the last one is on top of the others, whatever it is.
    let (mut places, mut members) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
    for (place, thread) in blocked.iter().enumerate() {
        let needs_others = needs_others(thread);
        if needs_others || thread.who >= OS {
            places.insert(thread.who, place);
        }
        // No scope has the number of a pool: both are addresses.
        for group in [thread.scope, thread.pool] {
            if needs_others && group != 0 {
                members.entry(group).or_default().push(place);
            }
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    // Each of them has to go on before the thread does.
    let needs = |thread: &Blocked| match thread.wait.on {
        On::Join | On::Mutex | On::Once => places.get(&thread.wait.what).map(std::slice::from_ref),
        On::Scope | On::Pool => members.get(&thread.wait.what).map(Vec::as_slice),
        On::Work => holder(thread).map(std::slice::from_ref),
        _ => None,
    };
    let mut reached = vec![false; blocked.len()];
    // The path from a start to the thread that is looked at, each with those that it needs and that were not looked at.
    let mut path = Vec::new();
    let mut on_path = vec![false; blocked.len()];
    for start in 0..blocked.len() {
        let mut next = (needs_others(&blocked[start]) && !reached[start]).then_some(start);
        loop {
            if let Some(place) = next.take() {
                reached[place] = true;
                on_path[place] = true;
                path.push((place, needs(&blocked[place]).unwrap_or_default().iter()));
            }
            let Some((place, needed)) = path.last_mut() else {
                break;
            };
            match needed.next() {
                Some(other) if on_path[*other] => {
                    let begin = path.iter().position(|(place, _)| place == other);
                    let circle = path[begin.expect("it is on the path")..].iter();
                    let mut circle: Vec<usize> = circle.map(|(place, _)| *place).collect();
                    let least =
                        (0..circle.len()).min_by_key(|index| blocked[circle[*index]].number);
                    circle.rotate_left(least.expect("it is not empty"));
                    return circle;
                }
                Some(other) => next = (!reached[*other]).then_some(*other),
                None => {
                    on_path[*place] = false;
                    path.pop();
                }
            }
        }
    }
    Vec::new()
}
