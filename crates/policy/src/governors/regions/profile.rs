//! What was measured of each region in a run: the oracle's knowledge, and what `predict` starts with.

use std::{fmt, str::FromStr};

use crate::{Decision, Outcome, RegionId, Shape, Waiting};

/// The kind of an invocation by its number of iterations: invocations of a class take about equally long with the same team.
///
/// Small numbers are classes of their own, because a loop of 102 iterations needs one round with 102 threads and two with 101. Larger ones
/// are rounded down to five significant bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub Option<u64>);

impl Class {
    /// The largest number of iterations that is a class of its own.
    const EXACT: u64 = 1 << 13;

    /// Returns the class of a number of iterations.
    pub fn of(iterations: Option<u64>) -> Class {
        Class(iterations.map(|n| match n <= Class::EXACT {
            true => n,
            false => {
                let low = n.ilog2() - 4;
                (n >> low) << low
            }
        }))
    }
}

/// The time of one region with one decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The region.
    pub region: RegionId,
    /// The class of its invocations.
    pub class: Class,
    /// What held.
    pub decision: Decision,
    /// How many invocations were measured; at least 1.
    pub count: u64,
    /// The mean of their times, in the engine's unit.
    pub mean: f64,
}

/// Measurements of a run, in the order in which their keys first appeared.
///
/// [`Display`](fmt::Display) writes a line a measurement, and [`FromStr`] reads these lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// One for each region, class and decision.
    pub measured: Vec<Measured>,
}

impl Profile {
    /// Adds an invocation.
    pub fn add(&mut self, outcome: &Outcome) {
        let class = Class::of(outcome.iterations);
        let time = outcome.time as f64;
        let same = |one: &&mut Measured| {
            one.region == outcome.region && one.class == class && one.decision == outcome.decision
        };
        match self.measured.iter_mut().rev().find(same) {
            Some(one) => {
                one.count += 1;
                one.mean += (time - one.mean) / one.count as f64;
            }
            None => self.measured.push(Measured {
                region: outcome.region,
                class,
                decision: outcome.decision,
                count: 1,
                mean: time,
            }),
        }
    }

    /// Returns what was measured of `region`.
    pub fn of(&self, region: RegionId) -> impl Iterator<Item = &Measured> {
        self.measured.iter().filter(move |one| one.region == region)
    }

    /// Returns the measurement of `region` with the least mean; of equal ones the one with the fewest threads, then the first. Invocations
    /// of another class do not count; if none of `class` was measured, those of unknown iterations do.
    pub fn best(&self, region: RegionId, class: Class) -> Option<&Measured> {
        let of = |class: Class| {
            self.of(region)
                .filter(move |one| one.class == class)
                .min_by(|a, b| {
                    let threads = a.decision.threads.cmp(&b.decision.threads);
                    a.mean.total_cmp(&b.mean).then(threads)
                })
        };
        of(class).or_else(|| of(Class(None)))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.measured {
            let (shape, threads) = (one.decision.shape, one.decision.threads);
            write!(f, "region {} iterations ", one.region.0)?;
            match one.class.0 {
                Some(iterations) => write!(f, "{iterations}")?,
                None => f.write_str("unknown")?,
            }
            write!(f, " shape {shape} threads {threads} waiting ")?;
            match one.decision.waiting {
                Waiting::AsIs => f.write_str("as-is")?,
                Waiting::Spin => f.write_str("spin")?,
                Waiting::Delay(time) => write!(f, "delay:{time}")?,
                Waiting::Sleep(after) => write!(f, "sleep:{after}")?,
            }
            writeln!(f, " count {} mean {}", one.count, one.mean)?;
        }
        Ok(())
    }
}

/// A line of a profile cannot be read.
#[derive(Clone, PartialEq, Eq)]
pub struct ProfileError {
    /// Its number, from 1.
    pub line: usize,
}

impl fmt::Debug for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: expected \"region R iterations N|unknown shape CxK threads N waiting as-is|spin|delay:T|sleep:T count N mean T\"",
            self.line
        )
    }
}

impl std::error::Error for ProfileError {}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Profile, ProfileError> {
        let lines = text.lines().enumerate();
        let full = lines.filter(|(_, line)| !line.trim().is_empty());
        let measured = full.map(|(i, line)| parse(line).ok_or(ProfileError { line: i + 1 }));
        Ok(Profile {
            measured: measured.collect::<Result<_, _>>()?,
        })
    }
}

/// Returns what a line says; `None` if it has another form or impossible values.
fn parse(line: &str) -> Option<Measured> {
    let mut words = line.split_whitespace();
    let mut after = |name: &str| (words.next() == Some(name)).then(|| words.next()).flatten();
    let region = RegionId(after("region")?.parse().ok()?);
    let class = Class(match after("iterations")? {
        "unknown" => None,
        number => Some(number.parse().ok()?),
    });
    let (cores, threads_per_core) = after("shape")?.split_once('x')?;
    let shape = Shape {
        cores: cores.parse().ok()?,
        threads_per_core: threads_per_core.parse().ok()?,
    };
    let threads = after("threads")?.parse().ok()?;
    let waiting = match after("waiting")? {
        "as-is" => Waiting::AsIs,
        "spin" => Waiting::Spin,
        other => match other.split_once(':')? {
            ("delay", time) => Waiting::Delay(time.parse().ok()?),
            ("sleep", time) => Waiting::Sleep(time.parse().ok()?),
            _ => return None,
        },
    };
    let count = after("count")?.parse().ok()?;
    let mean: f64 = after("mean")?.parse().ok()?;
    let possible = (1..=shape.threads()).contains(&threads) && count > 0 && mean.is_finite();
    (possible && words.next().is_none()).then_some(Measured {
        region,
        class,
        decision: Decision {
            shape,
            threads,
            waiting,
        },
        count,
        mean,
    })
}
