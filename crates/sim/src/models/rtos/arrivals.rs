//! When messages are sent: patterns, and times from a file.

use crate::machine::Cycle;
use std::str::FromStr;
use tanada_policy::draw;

/// A pattern of arrivals. Its mean rate is one message in `gap` cycles.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// One in each gap.
    Periodic,
    /// Gaps are exponential.
    Poisson,
    /// Bursts of so many messages, a tenth of the gap apart, at exponential distances.
    Bursts(u32),
    /// Times of exponential length in which messages come at twice the rate, and such in which none comes; of so many gaps in the mean.
    OnOff(u32),
    /// These distances, again and again.
    Trace(Vec<Cycle>),
}

/// The error for a pattern that is none.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPattern(String);

impl std::fmt::Debug for NoPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Pattern, NoPattern> {
        let (name, number) = text.split_once(':').unwrap_or((text, ""));
        let count = |usual: u32| match number {
            "" => Ok(usual),
            number => number.parse().ok().filter(|&count| count > 0).ok_or(()),
        };
        let pattern = match (name, number) {
            ("periodic", "") => Ok(Pattern::Periodic),
            ("poisson", "") => Ok(Pattern::Poisson),
            ("bursts", _) => count(8).map(Pattern::Bursts),
            ("on-off", _) => count(16).map(Pattern::OnOff),
            _ => Err(()),
        };
        pattern.map_err(|()| {
            NoPattern(format!(
                "no pattern {text}; there are periodic, poisson, bursts:N and on-off:N"
            ))
        })
    }
}

impl Pattern {
    /// Reads distances in cycles, one a line; what follows `#` is a comment.
    ///
    /// # Errors
    /// If a line is no number, or all are 0 or none is there; with its number.
    pub fn parse(text: &str) -> Result<Pattern, NoPattern> {
        let mut distances = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let distance = line.parse::<u32>();
            let distance = distance.map_err(|_| {
                NoPattern(format!(
                    "line {number}: `{line}` is no distance in cycles, 0 to 2^32-1"
                ))
            })?;
            distances.push(Cycle::from(distance));
        }
        match distances.iter().any(|&distance| distance > 0) {
            true => Ok(Pattern::Trace(distances)),
            false => Err(NoPattern("there is no distance above 0".to_owned())),
        }
    }

    /// Returns the times, which never fall, from the first message on. A gap of 0 counts as 1; a trace has its own.
    pub fn times(&self, gap: Cycle, seed: u64) -> Times<'_> {
        Times {
            pattern: self,
            gap: gap.max(1) as f64,
            seed,
            drawn: 0,
            sent: 0,
            now: 0.0,
            until: 0.0,
        }
    }
}

/// The times of a pattern, without an end.
#[derive(Clone, Debug)]
pub struct Times<'a> {
    pattern: &'a Pattern,
    gap: f64,
    seed: u64,
    drawn: u64,
    sent: u64,
    now: f64,
    /// The end of the time in which messages come.
    until: f64,
}

impl Times<'_> {
    /// Returns the next random number.
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        draw(self.seed, tanada_policy::WorkerId::NONE, self.drawn)
    }

    /// Returns an exponential time of this mean. Numbers are only compared (von Neumann, "Various techniques used in connection with random
    /// digits", 1951), so every host returns the same.
    fn exponential(&mut self, mean: f64) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.draw();
            let (mut last, mut length) = (first, 1);
            loop {
                let next = self.draw();
                if next >= last {
                    break;
                }
                (last, length) = (next, length + 1);
            }
            if length % 2 == 1 {
                let part = (first >> 11) as f64 / (1_u64 << 53) as f64;
                return mean * (whole + part);
            }
            whole += 1.0;
        }
    }
}

impl Iterator for Times<'_> {
    type Item = Cycle;

    fn next(&mut self) -> Option<Cycle> {
        let gap = self.gap;
        self.now += match self.pattern {
            Pattern::Periodic => gap,
            Pattern::Poisson => self.exponential(gap),
            Pattern::Bursts(count) => match self.sent % u64::from(*count) {
                0 => {
                    let apart = f64::from(*count - 1) * gap / 10.0;
                    self.exponential(gap * f64::from(*count) - apart)
                }
                _ => gap / 10.0,
            },
            Pattern::OnOff(count) => {
                let mean = gap * f64::from(*count);
                let step = self.exponential(gap / 2.0);
                let mut at = self.now + step;
                while at > self.until {
                    // The rest of the step is taken behind the pause.
                    let pause = self.exponential(mean);
                    let on = self.exponential(mean);
                    let beyond = at - self.until;
                    self.until += pause + on;
                    at = self.until - on + beyond;
                }
                at - self.now
            }
            Pattern::Trace(distances) => {
                distances[(self.sent % distances.len() as u64) as usize] as f64
            }
        };
        self.sent += 1;
        Some(self.now as Cycle)
    }
}
