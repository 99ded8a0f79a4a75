//! Reading and writing JSON, and the checks that keep a damaged report from being drawn as if it were intact.

use serde::Deserialize;
use thiserror::Error;

use crate::parts::{CacheUse, NameUse, Reuse};
use crate::schema::{Event, Events, OriginCounts, Report, RunResult, SCHEMA, Seconds, Timeline};
use crate::threads::{Series, ThreadWaits};

/// The greatest time in a timeline: the greatest integer that a page's script can hold exactly.
const TIME_MAX: u64 = 1 << 53;

/// Why a report cannot be read or written. Each message says what to do about it.
#[derive(Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The text is not JSON or not of the schema's shape.
    #[error(
        "this is not a report in JSON: {0}; make it again with `--json`, or check that the file is whole"
    )]
    Json(#[from] serde_json::Error),
    /// There is no `schema` key.
    #[error(
        "this JSON has no key `schema`, so it is not a report; a report starts with \"schema\": \"{SCHEMA}\""
    )]
    NoSchema,
    /// The report has another version.
    #[error(
        "this report is of schema `{found}`, and this program reads `{SCHEMA}`; \
         make the report again, or use the version of the program that wrote it"
    )]
    Version {
        /// The version of the report.
        found: String,
    },
    /// A value contradicts the rest of the report.
    #[error("{place}: {what}; the report is damaged or its writer is at fault, make it again")]
    Invalid {
        /// The run or timeline.
        place: String,
        /// The contradiction.
        what: String,
    },
}

impl std::fmt::Debug for ReportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Reads a report, checks it with [`validate`] and returns it.
///
/// # Errors
/// The text is not JSON or lacks a key, or the report has another version or contradicts itself.
pub fn from_json(text: &str) -> Result<Report, ReportError> {
    // The version is checked first, because a later version may have keys that are unknown here.
    #[derive(Deserialize)]
    struct Version {
        schema: Option<String>,
    }
    let version: Version = serde_json::from_str(text)?;
    match version.schema {
        None => return Err(ReportError::NoSchema),
        Some(found) if found != SCHEMA => return Err(ReportError::Version { found }),
        Some(_) => {}
    }
    let report: Report = serde_json::from_str(text)?;
    validate(&report)?;
    Ok(report)
}

/// Returns a report as one line of JSON.
///
/// # Errors
/// [`validate`] refuses the report, so that nothing unreadable is written.
pub fn to_json(report: &Report) -> Result<String, ReportError> {
    validate(report)?;
    Ok(serde_json::to_string(report)?)
}

/// Checks that a report has this version and does not contradict itself: columns have equal lengths; events end at or after their start, on
/// workers that exist; names and victims exist; numbers are finite; parts sum to their whole.
///
/// Takes one pass over all events.
///
/// # Errors
/// Returns the first contradiction, with the run or timeline in which it is.
pub fn validate(report: &Report) -> Result<(), ReportError> {
    if report.schema != SCHEMA {
        return Err(ReportError::Version {
            found: report.schema.clone(),
        });
    }
    for (index, run) in report.runs.iter().enumerate() {
        check_run(run).map_err(|what| ReportError::Invalid {
            place: format!("run {index} (policy `{}`)", run.policy),
            what,
        })?;
    }
    for (index, timeline) in report.timelines.iter().enumerate() {
        check_timeline(timeline).map_err(|what| ReportError::Invalid {
            place: format!("timeline {index} (`{}`)", timeline.label),
            what,
        })?;
    }
    Ok(())
}

/// Returns the fault `what` if `wrong`.
fn refuse(wrong: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if wrong { Err(what()) } else { Ok(()) }
}

fn check_number(key: &str, value: f64) -> Result<(), String> {
    let good = value.is_finite() && value >= 0.0;
    refuse(!good, || {
        format!("`{key}` is {value}, not a number of 0 or more")
    })
}

fn check_run(run: &RunResult) -> Result<(), String> {
    refuse(run.policy.is_empty(), || {
        "the policy has no name".to_owned()
    })?;
    refuse(run.workers == 0, || "`workers` is 0".to_owned())?;
    let numbers = [
        ("seconds.min", run.seconds.map(|seconds| seconds.min)),
        ("seconds.median", run.seconds.map(|seconds| seconds.median)),
        ("fps", run.fps),
        ("ratio_to_fcfs", run.ratio_to_fcfs),
        ("mean_task_ns", run.mean_task_ns),
        ("scheduling_ns_per_task", run.scheduling_ns_per_task),
        ("mean_task_cycles", run.mean_task_cycles),
        ("scheduling_cycles_per_task", run.scheduling_cycles_per_task),
        ("utilisation", run.utilisation),
        ("bound", run.bound),
        ("bound_ratio", run.bound_ratio),
    ];
    for (key, value) in numbers {
        check_number(key, value.unwrap_or(0.0))?;
    }
    if let Some(Seconds {
        min,
        median,
        repeats,
    }) = run.seconds
    {
        refuse(min > median || repeats == 0, || {
            format!("`seconds` has minimum {min}, median {median} and {repeats} repeats")
        })?;
    }
    if let (Some(steals), Some(OriginCounts { stolen, .. })) = (run.steals, run.origins) {
        refuse(steals != stolen, || {
            format!("`steals` is {steals}, but `origins.stolen` is {stolen}")
        })?;
    }
    check_profile(run)?;
    check_limits(run)?;
    check_stalls(run)?;
    check_threads(run)?;
    run.caches.iter().try_for_each(check_cache)?;
    run.reuse.iter().try_for_each(check_reuse)
}

fn check_profile(run: &RunResult) -> Result<(), String> {
    let Some(profile) = &run.profile else {
        return Ok(());
    };
    let (work, span) = (profile.work_ns, profile.span_ns);
    refuse(span > work, || {
        format!("the span of {span} ns in `profile` is longer than the work of {work}")
    })?;
    let parts = profile.path.iter().map(|part| part.ns);
    let path = parts.fold(0_u64, u64::saturating_add);
    refuse(path != span, || {
        format!("the parts of the path in `profile` make {path} ns and not the span of {span}")
    })
}

fn check_limits(run: &RunResult) -> Result<(), String> {
    let Some(limits) = run.limits else {
        return Ok(());
    };
    for (key, value) in [
        ("limits.work", limits.work),
        ("limits.critical_path", limits.critical_path),
        ("limits.channels", limits.channels.unwrap_or(0.0)),
    ] {
        check_number(key, value)?;
        // The simulator rounds a bound to whole cycles.
        let above = run.bound.is_none_or(|bound| bound + 1.0 < value);
        refuse(above, || format!("`{key}` is {value}, above `bound`"))?;
    }
    Ok(())
}

fn check_stalls(run: &RunResult) -> Result<(), String> {
    let (known, workers) = (run.stalls.len(), run.workers);
    refuse(known > 0 && known != usize::from(workers), || {
        format!("`stalls` is of {known} workers, `workers` is {workers}")
    })?;
    for (worker, stalls) in run.stalls.iter().enumerate() {
        let total = stalls.total();
        let wrong = total.is_none() || run.cycles.is_some() && total != run.cycles;
        refuse(wrong, || {
            let total = total.map_or("too large a sum".to_owned(), |total| total.to_string());
            format!("the parts of `stalls` of worker {worker} make {total} and not the makespan")
        })?;
    }
    Ok(())
}

fn check_threads(run: &RunResult) -> Result<(), String> {
    let Some(threads) = &run.threads else {
        return Ok(());
    };
    check_number(
        "threads.ratio_to_fifo",
        threads.ratio_to_fifo.unwrap_or(0.0),
    )?;
    let (known, workers) = (threads.hardware.len(), run.workers);
    refuse(known != usize::from(workers), || {
        format!("`threads.hardware` has {known} hardware threads, `workers` is {workers}")
    })?;
    for (number, one) in threads.hardware.iter().enumerate() {
        let named = one.cycles.len() == threads.causes.len();
        refuse(!named || sum(&one.cycles) != run.cycles, || {
            format!("the causes of hardware thread {number} do not sum to the makespan")
        })?;
    }
    let instructions = threads.hardware.iter().map(|one| one.instructions);
    let whole = Some(threads.instructions);
    refuse(sum(&Vec::from_iter(instructions)) != whole, || {
        "the instructions of `threads.hardware` do not sum to `instructions`".to_owned()
    })?;
    for one in &threads.waits {
        let of = |of: fn(&ThreadWaits) -> u64| sum(&Vec::from_iter(one.threads.iter().map(of)));
        let wrong =
            (of(|one| one.waits), of(|one| one.cycles)) != (Some(one.waits), Some(one.cycles));
        refuse(wrong, || {
            format!(
                "the threads that waited for {} {} do not sum to the whole",
                one.kind, one.object
            )
        })?;
    }
    let Some(series) = &threads.series else {
        return Ok(());
    };
    for level in &series.misses {
        let mut caches = run.caches.iter();
        let cache = caches.find(|cache| cache.cache == level.cache);
        let wrong = cache.is_none_or(|cache| sum(&level.misses) != Some(cache.misses));
        refuse(wrong, || {
            let name = &level.cache;
            format!("the misses of `{name}` in `series` do not sum to the run's")
        })?;
    }
    check_series(series, threads.instructions)
}

fn check_series(series: &Series, instructions: u64) -> Result<(), String> {
    let intervals = series.instructions.len();
    refuse(series.interval == 0, || "`series.interval` is 0".to_owned())?;
    refuse(sum(&series.instructions) != Some(instructions), || {
        "the instructions of `series` do not sum to the run's".to_owned()
    })?;
    let misses = series.misses.iter().map(|level| level.misses.len());
    let stacks = series.stacks.iter().map(|stack| stack.accesses.len());
    let mut lengths = misses.chain(stacks).chain([series.width.len()]);
    refuse(lengths.any(|length| length != intervals), || {
        format!("`series` has {intervals} intervals of instructions and another number of others")
    })?;
    let widths = series.width.iter();
    widths
        .copied()
        .try_for_each(|width| check_number("series.width", width))
}

/// Returns the sum; `None` if it passes 2^64-1.
fn sum(values: &[u64]) -> Option<u64> {
    values
        .iter()
        .try_fold(0_u64, |sum, &one| sum.checked_add(one))
}

fn check_cache(cache: &CacheUse) -> Result<(), String> {
    let CacheUse {
        cache: name,
        accesses,
        misses,
        ..
    } = cache;
    let unavoidable = cache.unavoidable.unwrap_or(0);
    refuse(misses > accesses || unavoidable > *misses, || {
        format!(
            "cache `{name}` has {accesses} accesses, {misses} misses and {unavoidable} unavoidable ones"
        )
    })?;
    let sum = |of: fn(&NameUse) -> u64| {
        let mut counts = cache.by_name.iter().map(of);
        counts.try_fold(0_u64, |sum, one| sum.checked_add(one))
    };
    let sums = [sum(|part| part.accesses), sum(|part| part.misses)];
    let wrong = !cache.by_name.is_empty() && sums != [Some(*accesses), Some(*misses)];
    refuse(wrong, || {
        format!("the names of cache `{name}` do not sum to its accesses and misses")
    })
}

fn check_reuse(reuse: &Reuse) -> Result<(), String> {
    let mut counts = reuse.buckets.iter().chain([&reuse.first]);
    let sum = counts.try_fold(0_u64, |sum, one| sum.checked_add(*one));
    let Reuse {
        line,
        touches,
        sampled,
        ..
    } = reuse;
    let buckets = reuse.buckets.len();
    refuse(buckets > 65 || sum != Some(*touches), || {
        format!(
            "the {buckets} buckets and the first touches of `reuse` do not sum to its {touches} touches"
        )
    })?;
    let share = *sampled > 0.0 && *sampled <= 1.0;
    refuse(!(line.is_power_of_two() && share), || {
        format!("`reuse` has lines of {line} bytes, sampled at {sampled}")
    })
}

fn check_timeline(timeline: &Timeline) -> Result<(), String> {
    check_columns(&timeline.events)?;
    let (workers, names) = (timeline.workers, timeline.names.len());
    refuse(workers == 0, || "`workers` is 0".to_owned())?;
    for (index, event) in timeline.events.iter().enumerate() {
        let Event {
            worker,
            name,
            start,
            end,
            ..
        } = event;
        refuse(worker >= workers, || {
            format!("event {index} ran on worker {worker} of {workers}")
        })?;
        refuse(start > end, || {
            format!("event {index} starts at {start} and ends at {end}")
        })?;
        refuse(end > TIME_MAX, || {
            format!(
                "event {index} ends at {end}, later than 2^53; count time from the timeline's beginning"
            )
        })?;
        refuse(name as usize >= names, || {
            format!("event {index} has name {name} of {names}")
        })?;
        if let crate::Origin::Stolen(victim) = event.origin {
            refuse(victim >= workers, || {
                format!("event {index} was stolen from worker {victim} of {workers}")
            })?;
        }
    }
    Ok(())
}

fn check_columns(events: &Events) -> Result<(), String> {
    let columns = events.column_lengths();
    let (first, length) = columns[0];
    for (name, other) in columns {
        refuse(other != length, || {
            format!("column `{first}` has {length} events, column `{name}` has {other}")
        })?;
    }
    Ok(())
}
