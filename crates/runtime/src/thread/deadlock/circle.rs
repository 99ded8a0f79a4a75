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

/// Returns the places in `blocked` of those that [hold](Blocked::holds) workers, by these.
pub(super) fn holders_of(blocked: &[Blocked]) -> HashMap<(u64, u16), usize> {
    let places = blocked.iter().zip(0..);
    places
        .filter_map(|(thread, place)| Some((thread.holds()?, place)))
        .collect()
}

/// Who has to go on before each of those does that wait.
struct Needs<'a> {
    blocked: &'a [Blocked],
    holders: HashMap<(u64, u16), usize>,
    /// The place of each that others may wait for.
    places: HashMap<u64, usize>,
    /// The places of those that keep a scope or a pool open. No scope has the number of a pool: both are addresses.
    members: HashMap<u64, Vec<usize>>,
}

impl<'a> Needs<'a> {
    fn new(blocked: &'a [Blocked]) -> Self {
        let mut needs = Needs {
            blocked,
            holders: holders_of(blocked),
            places: HashMap::new(),
            members: HashMap::new(),
        };
        for (place, thread) in blocked.iter().enumerate() {
            let needs_others = needs.needs_others(thread);
            // A lightweight thread has one wait. Of those of one OS thread, the last one is on top of the others, whatever it is.
            if needs_others || thread.who >= OS {
                needs.places.insert(thread.who, place);
            }
            for group in [thread.scope, thread.pool] {
                if needs_others && group != 0 {
                    needs.members.entry(group).or_default().push(place);
                }
            }
        }
        needs
    }

    /// Returns whether the thread waits for what others have.
    fn needs_others(&self, thread: &Blocked) -> bool {
        thread.needs_others() || self.holder(thread).is_some()
    }

    /// Returns the place of what holds the only worker that the thread may go on with.
    fn holder(&self, thread: &Blocked) -> Option<&usize> {
        let may_be_held = thread.wait.on == On::Work && thread.is_pinned;
        let worker = (may_be_held && !self.holders.is_empty()).then_some(thread.worker?)?;
        self.holders.get(&(thread.pool, worker))
    }

    /// Returns the places of those of which each has to go on before the one at `place` does.
    fn of(&self, place: usize) -> &[usize] {
        let thread = &self.blocked[place];
        let what = thread.wait.what;
        let needed = match thread.wait.on {
            On::Join | On::Mutex | On::Once => self.places.get(&what).map(std::slice::from_ref),
            On::Scope | On::Pool => self.members.get(&what).map(Vec::as_slice),
            On::Work => self.holder(thread).map(std::slice::from_ref),
            _ => None,
        };
        needed.unwrap_or_default()
    }
}

/// Returns threads that wait for each other in a circle, by their places in `blocked`, each for the next one, and the one with the least
/// number first; none if there is no circle.
pub(super) fn circle_of(blocked: &[Blocked]) -> Vec<usize> {
    let needs = Needs::new(blocked);
    if needs.places.is_empty() {
        return Vec::new();
    }
    let mut reached = vec![false; blocked.len()];
    // The path from a start to the thread that is looked at, each with those that it needs and that were not looked at.
    let mut path = Vec::new();
    let mut on_path = vec![false; blocked.len()];
    for start in 0..blocked.len() {
        let begins = needs.needs_others(&blocked[start]) && !reached[start];
        let mut next = begins.then_some(start);
        loop {
            if let Some(place) = next.take() {
                reached[place] = true;
                on_path[place] = true;
                path.push((place, needs.of(place).iter()));
            }
            let Some((place, needed)) = path.last_mut() else {
                break;
            };
            match needed.next() {
                Some(other) if on_path[*other] => {
                    let mut circle: Vec<usize> = path.iter().map(|(place, _)| *place).collect();
                    let begin = circle.iter().position(|place| place == other);
                    circle.drain(..begin.expect("it is on the path"));
                    let least = circle.iter().min_by_key(|place| blocked[**place].number);
                    let least = circle.iter().position(|place| Some(place) == least);
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
