//! What a run was: the board, with names.

use super::symbols::Symbols;
use super::{Args, board, program::Ended};
use crate::ui;
use board::{event, head, region, size};
use serde::Serialize;
use tanada_report::{Cell, to_list};

/// Regions that the table names; the others are one row.
const ROWS: usize = 24;

/// A run, as `--json` writes it. Times are in seconds.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) command: String,
    pub(super) governor: String,
    pub(super) dry_run: bool,
    pub(super) runtime: &'static str,
    pub(super) cores: u64,
    pub(super) threads_per_core: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quota: Option<f64>,
    pub(super) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) joules: Option<f64>,
    pub(super) exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<i32>,
    /// Why everything was left alone.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) left_alone: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) trouble: String,
    /// Invocations of nested regions, and of others while one was governed.
    pub(super) passed: u64,
    pub(super) forks: u64,
    /// Time in which regions ran, as a part of the whole.
    pub(super) in_regions: f64,
    pub(super) looks: u64,
    pub(super) seconds_of_looks: f64,
    pub(super) regions: Vec<Region>,
    /// Further events that the board had no room for.
    pub(super) events_lost: u64,
    pub(super) events: Vec<Event>,
}

/// A region.
#[derive(Debug, Serialize)]
pub(super) struct Region {
    pub(super) number: usize,
    pub(super) place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<String>,
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) invocations: u64,
    pub(super) seconds: f64,
    /// Its part of the run's time.
    pub(super) share: f64,
    pub(super) asked: u64,
    pub(super) threads: u64,
    pub(super) waiting: String,
    pub(super) changes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iterations: Option<u64>,
    pub(super) confidence: f64,
    /// How many times as fast it was as with all threads throughout, by the mean with all threads; `None` if that was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gain: Option<f64>,
    pub(super) sizes: Vec<Size>,
    pub(super) why: String,
}

/// Measurements of a region with one number of threads.
#[derive(Debug, Serialize)]
pub(super) struct Size {
    pub(super) threads: u64,
    pub(super) invocations: u64,
    pub(super) mean: f64,
    pub(super) least: f64,
}

/// A part of the time line: invocations of a region with one team.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    pub(super) region: usize,
    pub(super) threads: u64,
    pub(super) waiting: String,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) invocations: u64,
    pub(super) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) neighbours: Option<f64>,
}

const NS: f64 = 1e-9;

/// Returns the text in some words of the board.
fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn waiting(word: u64) -> String {
    let kind = board::waiting::KINDS[(word % 4) as usize];
    match word / 4 {
        0 => kind.to_owned(),
        time => format!("{kind} after {time} ns"),
    }
}

/// Returns the text with this number in a list of the board; of a board that is damaged, none.
fn of(list: &[&'static str], word: u64) -> &'static str {
    usize::try_from(word)
        .ok()
        .and_then(|at| list.get(at))
        .copied()
        .unwrap_or("")
}

impl Run {
    /// Returns what the board says. The program could have written on it, too, so nothing here trusts a number.
    pub(super) fn read(words: &[u64], args: &Args, ended: &Ended) -> Run {
        let quota = f64::from_bits(words[head::QUOTA]);
        let seconds = ended.seconds;
        let mut symbols = Symbols::default();
        let modules = (words[head::MODULES] as usize).min(board::MODULES);
        let modules: Vec<String> = words[board::AT_MODULES..]
            .chunks(board::MODULE)
            .take(modules)
            .map(text)
            .collect();
        let regions = words[board::AT_REGIONS..].chunks(board::REGION);
        let regions = regions.take((words[head::REGIONS] as usize).min(board::REGIONS));
        let mut regions: Vec<Region> = regions
            .enumerate()
            .filter(|(_, words)| words[region::INVOCATIONS] > 0)
            .map(|(number, words)| read_region(number, words, &modules, seconds, &mut symbols))
            .collect();
        regions.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let events = words[board::AT_EVENTS..].chunks_exact(board::EVENT);
        let events = events.take((words[head::EVENTS] as usize).min(board::EVENTS));
        let events = events.map(|words| Event {
            region: words[event::REGION] as usize,
            threads: words[event::THREADS],
            waiting: waiting(words[event::WAITING]),
            start: words[event::START] as f64 * NS,
            end: words[event::END] as f64 * NS,
            invocations: words[event::COUNT],
            seconds: words[event::SUM] as f64 * NS,
            neighbours: Some(f64::from_bits(words[event::NEIGHBOURS])).filter(|load| *load >= 0.0),
        });
        let mut trouble = text(&words[head::TROUBLE]);
        if words[head::MAGIC] != board::MAGIC || words[head::VERSION] != board::VERSION {
            trouble = "the library was not loaded".to_owned();
        }
        Run {
            command: ui::command_line(),
            governor: args.governor.clone(),
            dry_run: args.dry_run,
            runtime: of(&board::RUNTIMES, words[head::RUNTIME]),
            cores: words[head::CORES],
            threads_per_core: words[head::THREADS_PER_CORE],
            quota: Some(quota).filter(|quota| quota.is_finite() && *quota > 0.0),
            seconds,
            joules: ended.joules,
            exit_code: ended.code,
            signal: ended.signal,
            left_alone: of(&board::ALONE, words[head::ALONE]),
            trouble,
            passed: words[head::PASSED],
            forks: words[head::FORKS],
            // The sum of nothing is -0.0.
            in_regions: regions.iter().fold(0.0, |sum, region| sum + region.share),
            looks: words[head::LOOKS],
            seconds_of_looks: words[head::LOOKING] as f64 * NS,
            regions,
            events_lost: words[head::EVENTS_LOST],
            events: events.collect(),
        }
    }

    /// Returns the table.
    pub(super) fn table(&self) -> String {
        let mut out = self.title();
        if !self.regions.is_empty() {
            let rows = self.regions.iter().take(ROWS).map(row);
            out += "\n";
            out += &to_list(
                ["region", "runs", "time", "threads", "gain", "sure", "why"],
                rows,
            );
            if let Some(more) = self.regions.len().checked_sub(ROWS + 1) {
                let rest = self.regions.iter().skip(ROWS);
                let share: f64 = rest.map(|region| region.share).sum();
                out += &format!(
                    "{} more regions: {:.1}% of the time\n",
                    more + 1,
                    share * 100.0
                );
            }
        }
        out
    }

    /// Returns what holds for the whole run, in a line or some.
    pub(super) fn title(&self) -> String {
        let mut out = format!(
            "tanada omp: {:.3} s, {:.1}% of it in {} parallel regions",
            self.seconds,
            self.in_regions * 100.0,
            self.regions.len()
        );
        if self.runtime != "none" {
            let threads = self.cores * self.threads_per_core;
            out += &format!(
                ", {}, governor {}, {threads} hardware threads",
                self.runtime, self.governor
            );
        }
        if let Some(quota) = self.quota {
            out += &format!(", quota {quota:.2}");
        }
        if let Some(joules) = self.joules {
            out += &format!(", {joules:.1} J of the processor");
        }
        if self.dry_run {
            out += ", only observed";
        }
        if !self.trouble.is_empty() {
            out += &format!("\ntrouble: {}", self.trouble);
        }
        if !self.left_alone.is_empty() {
            out += &format!("\nleft alone: {}", self.left_alone);
        } else if self.regions.is_empty() && self.trouble.is_empty() {
            out += "\nno parallel region was seen: the program loads no OpenMP runtime, asks for one thread, or has none";
        }
        if self.passed > 0 {
            out += &format!(
                "\n{} runs of regions inside of others, or beside them, were left as they are",
                self.passed
            );
        }
        if self.forks > 0 {
            out += &format!(
                "\nthe program forked {} times: its children were left alone",
                self.forks
            );
        }
        out + "\n"
    }
}

fn read_region(
    number: usize,
    words: &[u64],
    modules: &[String],
    seconds: f64,
    symbols: &mut Symbols,
) -> Region {
    let file = modules
        .get(words[region::MODULE] as usize)
        .cloned()
        .unwrap_or_default();
    let offset = words[region::OFFSET];
    let found = symbols.find(&file, offset);
    let short = file.rsplit('/').next().unwrap_or_default();
    let place = match (&found.function, &found.line) {
        (Some(function), Some(line)) if !function.starts_with('.') => format!("{function} {line}"),
        (_, Some(line)) => line.clone(),
        (Some(function), None) => function.clone(),
        (None, None) => format!("{short}+{offset:#x}"),
    };
    let sizes = words[region::SIZES..]
        .chunks(size::WORDS)
        .take(board::SIZES);
    let sizes: Vec<Size> = sizes
        .filter(|words| words[size::COUNT] > 0)
        .map(|words| Size {
            threads: words[size::THREADS],
            invocations: words[size::COUNT],
            mean: words[size::SUM] as f64 * NS / words[size::COUNT] as f64,
            least: words[size::LEAST] as f64 * NS,
        })
        .collect();
    let (invocations, time) = (words[region::INVOCATIONS], words[region::TIME] as f64 * NS);
    let asked = words[region::ASKED];
    let measured: u64 = sizes.iter().map(|size| size.invocations).sum();
    let all = sizes.iter().find(|size| size.threads == asked);
    let gain = all.filter(|all| all.invocations < measured && time > 0.0);
    let kept = of(&board::KEPT, words[region::KEPT]);
    Region {
        number,
        place,
        function: found.function,
        line: found.line,
        file,
        offset,
        invocations,
        seconds: time,
        share: if seconds > 0.0 { time / seconds } else { 0.0 },
        asked,
        threads: words[region::THREADS],
        waiting: waiting(words[region::WAITING]),
        changes: words[region::CHANGES],
        iterations: words[region::ITERATIONS].checked_sub(1),
        confidence: f64::from_bits(words[region::CONFIDENCE]),
        gain: gain.map(|all| all.mean * measured as f64 / time),
        sizes,
        why: match kept {
            "" => text(&words[region::WHY]),
            kept => kept.to_owned(),
        },
    }
}

/// Returns a region's row of the table.
fn row(region: &Region) -> Vec<Cell> {
    let mut threads = format!("{} of {}", region.threads, region.asked);
    if region.waiting != board::waiting::KINDS[0] {
        threads += &format!(", {}", region.waiting);
    }
    // Where there are figures, they follow a colon.
    let why = region.why.split(':').next().unwrap_or_default();
    let percent = |value: f64| Cell::number(value, format!("{:.1}%", value * 100.0));
    vec![
        region.place.clone().into(),
        Cell::count(region.invocations),
        percent(region.share),
        threads.into(),
        match region.gain {
            Some(gain) => Cell::number(gain, format!("{gain:.2} x")),
            None => "-".into(),
        },
        percent(region.confidence),
        why.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_texts_and_ways_to_wait() {
        let words = [
            u64::from_ne_bytes(*b"a text o"),
            u64::from_ne_bytes(*b"f it\0abc"),
        ];
        assert_eq!(text(&words), "a text of it");
        assert_eq!(waiting(0), "as is");
        assert_eq!(waiting(3), "sleep");
        assert_eq!(waiting(3 + 4 * 500), "sleep after 500 ns");
        assert_eq!(of(&board::KEPT, u64::MAX), "");
    }
}
