//! Reading and writing JSON, and the checks that keep a damaged report from being drawn as if it were intact.

use serde::Deserialize;
use thiserror::Error;

use crate::parts::{CacheUse, NameUse, Reuse};
use crate::schema::{Events, Report, RunResult, SCHEMA, Timeline};

/// The greatest time in a timeline: the greatest integer that a page's script can hold exactly.
const TIME_MAX: u64 = 1 << 53;

/// Why a report cannot be read or written. Each message says what to do about it.
#[derive(Debug, Error)]
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

/// Reads a report and checks it with [`validate`].
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

/// Writes a report as one line of JSON.
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
/// The first contradiction, with the run or timeline in which it is.
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

fn check_run(run: &RunResult) -> Result<(), String> {
    if run.policy.is_empty() {
        return Err("the policy has no name".to_owned());
    }
    if run.workers == 0 {
        return Err("`workers` is 0".to_owned());
    }
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
        if let Some(value) = value
            && !(value.is_finite() && value >= 0.0)
        {
            return Err(format!("`{key}` is {value}, not a number of 0 or more"));
        }
    }
    if let Some(seconds) = run.seconds
        && (seconds.min > seconds.median || seconds.repeats == 0)
    {
        return Err(format!(
            "`seconds` has minimum {}, median {} and {} repeats",
            seconds.min, seconds.median, seconds.repeats
        ));
    }
    if let (Some(steals), Some(origins)) = (run.steals, run.origins)
        && steals != origins.stolen
    {
        return Err(format!(
            "`steals` is {steals}, but `origins.stolen` is {}",
            origins.stolen
        ));
    }
    check_limits(run)?;
    check_stalls(run)?;
    run.caches.iter().try_for_each(check_cache)?;
    run.reuse.iter().try_for_each(check_reuse)
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
        if !(value.is_finite() && value >= 0.0) {
            return Err(format!("`{key}` is {value}, not a number of 0 or more"));
        }
        // The simulator rounds a bound to whole cycles.
        if run.bound.is_none_or(|bound| bound + 1.0 < value) {
            return Err(format!("`{key}` is {value}, above `bound`"));
        }
    }
    Ok(())
}

fn check_stalls(run: &RunResult) -> Result<(), String> {
    if !run.stalls.is_empty() && run.stalls.len() != usize::from(run.workers) {
        return Err(format!(
            "`stalls` is of {} workers, `workers` is {}",
            run.stalls.len(),
            run.workers
        ));
    }
    for (worker, stalls) in run.stalls.iter().enumerate() {
        let total = stalls.total();
        if total.is_none() || run.cycles.is_some() && total != run.cycles {
            let total = total.map_or("too large a sum".to_owned(), |total| total.to_string());
            return Err(format!(
                "the parts of `stalls` of worker {worker} make {total} and not the makespan"
            ));
        }
    }
    Ok(())
}

fn check_cache(cache: &CacheUse) -> Result<(), String> {
    let name = &cache.cache;
    if cache.misses > cache.accesses || cache.unavoidable.is_some_and(|some| some > cache.misses) {
        return Err(format!(
            "cache `{name}` has {} accesses, {} misses and {} unavoidable ones",
            cache.accesses,
            cache.misses,
            cache.unavoidable.unwrap_or(0)
        ));
    }
    if cache.by_name.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&NameUse) -> u64| {
        let mut counts = cache.by_name.iter().map(of);
        counts.try_fold(0_u64, |sum, one| sum.checked_add(one))
    };
    if sum(|part| part.accesses) != Some(cache.accesses)
        || sum(|part| part.misses) != Some(cache.misses)
    {
        return Err(format!(
            "the names of cache `{name}` do not sum to its accesses and misses"
        ));
    }
    Ok(())
}

fn check_reuse(reuse: &Reuse) -> Result<(), String> {
    let mut counts = reuse.buckets.iter().chain([&reuse.first]);
    let sum = counts.try_fold(0_u64, |sum, one| sum.checked_add(*one));
    if reuse.buckets.len() > 65 || sum != Some(reuse.touches) {
        return Err(format!(
            "the {} buckets and the first touches of `reuse` do not sum to its {} touches",
            reuse.buckets.len(),
            reuse.touches
        ));
    }
    let share = reuse.sampled > 0.0 && reuse.sampled <= 1.0;
    if !(reuse.line.is_power_of_two() && share) {
        return Err(format!(
            "`reuse` has lines of {} bytes, sampled at {}",
            reuse.line, reuse.sampled
        ));
    }
    Ok(())
}

fn check_timeline(timeline: &Timeline) -> Result<(), String> {
    check_columns(&timeline.events)?;
    if timeline.workers == 0 {
        return Err("`workers` is 0".to_owned());
    }
    for (index, event) in timeline.events.iter().enumerate() {
        if event.worker >= timeline.workers {
            return Err(format!(
                "event {index} ran on worker {} of {}",
                event.worker, timeline.workers
            ));
        }
        if event.start > event.end {
            return Err(format!(
                "event {index} starts at {} and ends at {}",
                event.start, event.end
            ));
        }
        if event.end > TIME_MAX {
            return Err(format!(
                "event {index} ends at {}, later than 2^53; count time from the timeline's beginning",
                event.end
            ));
        }
        if event.name as usize >= timeline.names.len() {
            return Err(format!(
                "event {index} has name {} of {}",
                event.name,
                timeline.names.len()
            ));
        }
        if let crate::Origin::Stolen(victim) = event.origin
            && victim >= timeline.workers
        {
            return Err(format!(
                "event {index} was stolen from worker {victim} of {}",
                timeline.workers
            ));
        }
    }
    Ok(())
}

fn check_columns(events: &Events) -> Result<(), String> {
    let columns = events.column_lengths();
    let (first, length) = columns[0];
    for (name, other) in columns {
        if other != length {
            return Err(format!(
                "column `{first}` has {length} events, column `{name}` has {other}"
            ));
        }
    }
    Ok(())
}
