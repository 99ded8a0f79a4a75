//! Paper 1, cache groups: its board (Table 2), its simulator (Table 3) and its Gantt charts (fig. 13).
//!
//! Sampled pictures of each stream are recorded with one table of costs. Every row of Table 2 is simulated on the board's model, Table 3
//! on the authors'. docs/reproduce-toshiba.md has the parameters, the claim and the results.

mod calibrate;
mod figures;
mod published;
mod recording;
mod rows;
mod set;
mod simulating;
mod summary;

use crate::{Error, Found, Paper, Progress, Reproduction, Request};
use published::{HEADLINE, Row};
use recording::{Recording, Source, files, record, sources, usual_folder};
use set::Set;
use simulating::{Job, Ran};
use std::path::{Path, PathBuf};
use tanada_report::Timeline;
use tanada_runtime::Cancel;
use tanada_sim::{Run, timeline};
use tanada_workloads::options::{Kind, OptionSpec, Values};

/// The paper, as the registry has it.
pub(crate) struct Toshiba;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "pictures",
        "N",
        Kind::Count(1, published::PICTURES),
        "Pictures of each stream [default: 32; with --quick 8]",
    ),
    OptionSpec::new(
        "streams",
        "FOLDER",
        Kind::Path,
        "Folder with flower_wvga.264, flower_qvga.264... [default: streams/video in the folder that TANADA_SHARED names; without a WVGA \
         stream the embedded demo stands for it]",
    ),
    OptionSpec::new(
        "set",
        "KEY=VALUE",
        Kind::Texts,
        "Replace a parameter: mpe.KEY=NUMBER (the table of costs), uniform.KEY=VALUE, board.KEY=VALUE (the machines)",
    ),
    OptionSpec::new(
        "calibrate",
        "N",
        Kind::Count(0, u64::MAX),
        "Search for parameters instead, by the WVGA rows alone: N sets, the best first",
    ),
    OptionSpec::new("seed", "N", Kind::Count(0, u64::MAX), "Seed of that search").default("1"),
];

impl Paper for Toshiba {
    fn name(&self) -> &'static str {
        "toshiba"
    }

    fn about(&self) -> &'static str {
        "Paper 1, cache groups: its board (Table 2), its simulator (Table 3) and its Gantt charts (fig. 13)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn examples(&self) -> &'static [&'static str] {
        &[
            "--quick",
            "--json -o toshiba.html",
            "--quick --set board.l2.miss_cycles=120",
        ]
    }

    fn inputs(&self, values: &Values) -> Vec<PathBuf> {
        let folder = folder(values);
        let streams = folder.iter().flat_map(|folder| files(folder));
        folder.iter().cloned().chain(streams).collect()
    }

    fn without_page(&self) -> &'static [&'static str] {
        &["calibrate"]
    }

    fn reproduce(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
    ) -> Result<Found, Error> {
        let Request {
            quick,
            threads,
            values,
            ..
        } = request;
        let search = values.count_if_any("calibrate");
        check(values, search.is_some(), *quick)?;
        let set = Set::with(values.texts("set")).map_err(Error::Usage)?;
        let sources = found_sources(values)?;
        let usual = match (quick, search) {
            (_, Some(_)) => 2,
            (true, None) => 8,
            (false, None) => 32,
        };
        let effort = Effort {
            pictures: values.count_if_any("pictures").unwrap_or(usual),
            threads: *threads,
            cancel,
        };
        if let Some(count) = search {
            let seed = values.count("seed");
            let drawn = calibrate::calibrate(&sources[0], count, seed, effort, progress)?;
            let json = serde_json::to_string(&drawn).expect("sets have a JSON form");
            return Ok(Found::Json(json + "\n"));
        }
        let found = simulated(&sources, &set, effort, progress)?;
        Ok(Found::Figures(Box::new(reproduction(&found))))
    }
}

/// Returns an error if options exclude each other.
fn check(values: &Values, search: bool, quick: bool) -> Result<(), Error> {
    let other = if quick { "quick" } else { "set" };
    if search && (quick || !values.texts("set").is_empty()) {
        let message = format!("--calibrate cannot be used with --{other}; leave one of them out");
        return Err(Error::Usage(message));
    }
    if values.is_given("seed") && !search {
        return Err(Error::Usage(
            "--seed is of the search: add --calibrate".to_owned(),
        ));
    }
    Ok(())
}

/// Returns the folder of the streams that was named, or the usual one.
fn folder(values: &Values) -> Option<PathBuf> {
    let named = values.path("streams").map(Path::to_owned);
    named.or_else(usual_folder)
}

/// Returns the streams in the folder.
fn found_sources(values: &Values) -> Result<Vec<Source>, Error> {
    let folder = folder(values);
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Error::Input(format!(
            "{}: is no folder; name the one with flower_wvga.264",
            folder.display()
        )));
    }
    sources(folder.as_deref()).map_err(|error| Error::Input(format!("the streams: {error}")))
}

/// How much is simulated, and how.
#[derive(Clone, Copy)]
struct Effort<'a> {
    /// Pictures of each stream.
    pictures: u64,
    /// Threads of this host.
    threads: usize,
    cancel: &'a Cancel,
}

/// What was simulated.
#[derive(Debug)]
struct Reproduced {
    /// The recordings, in the order of [`published::Stream::ALL`], without streams that are not there.
    recordings: Vec<Recording>,
    /// Table 2's rows, with the results of those whose stream is there.
    table2: Vec<(Row, Option<[Ran; 3]>)>,
    /// FCFS, A and B on the authors' simulator, WVGA, 4 cores, 128 KB. The paper has the first two.
    table3: [Ran; 3],
    /// One picture of the headline's cell on the board: FCFS, A and B.
    gantts: Vec<Timeline>,
}

impl Reproduced {
    /// Returns the headline's row, and the results of it.
    fn headline(&self) -> (&Row, &[Ran; 3]) {
        let row = self.table2.iter().find(|(row, _)| row.cell == HEADLINE);
        let both = row.and_then(|(row, ran)| Some((row, ran.as_ref()?)));
        both.expect("there is always a WVGA stream")
    }
}

/// Records and simulates all that the tables need, and returns the results.
fn simulated(
    sources: &[Source],
    set: &Set,
    effort: Effort<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Reproduced, Error> {
    let mut recordings = Vec::new();
    for source in sources {
        let what = format!("recording {}", source.stream.name());
        progress(Progress {
            what: &what,
            done: 0,
        });
        recordings.push(record(source, &set.costs, effort.pictures, effort.cancel)?);
    }
    let rows = published::table2();
    let there = |row: &Row| recordings.iter().find(|one| one.stream == row.cell.stream);
    let wvga = recordings.iter().find(|one| one.stream == HEADLINE.stream);
    let wvga = wvga.expect("there is always a WVGA stream");
    let mut jobs: Vec<Job<'_>> = set.table3(wvga).into();
    for row in &rows {
        let recording = there(row).into_iter();
        jobs.extend(recording.flat_map(|recording| set.cell(recording, row.cell)));
    }
    let what = format!("of {} simulations", jobs.len());
    let mut ended = |done| progress(Progress { what: &what, done });
    let ran = simulating::all(&jobs, effort.threads, effort.cancel, &mut ended)?;
    let mut ran = ran.into_iter();
    let mut three = || std::array::from_fn(|_| ran.next().expect("each job has a result"));
    let table3 = three();
    let table2 = rows
        .iter()
        .map(|row| (*row, there(row).map(|_| three())))
        .collect();
    let gantts = set.cell(wvga, HEADLINE);
    let gantts = gantts.iter().map(|job| gantt(job, effort.cancel));
    Ok(Reproduced {
        table2,
        table3,
        gantts: gantts.collect::<Result<_, _>>()?,
        recordings,
    })
}

/// Returns fig. 13: where and when the tasks of the first recorded picture ran.
fn gantt(job: &Job<'_>, cancel: &Cancel) -> Result<Timeline, Error> {
    let picture = &job.recording.pictures[0];
    let mut runs: Vec<Run> = Vec::new();
    let outcome = job.observed(picture, cancel, &mut runs)?;
    let label = format!("{} ({HEADLINE} cores)", job.scheduler.name());
    let trace = job.scheduler.trace(picture);
    Ok(timeline(trace, &outcome, &label, &runs))
}

fn reproduction(found: &Reproduced) -> Reproduction {
    let summary = summary::summary(found);
    let rows = rows::rows(found);
    Reproduction {
        paper: "Paper 1 (cache groups)",
        title: "Cache groups: published and ours",
        sample: format!(
            "{} of 128 pictures of {}",
            summary.pictures,
            summary.streams.join(", ")
        ),
        tables: rows::tables(found, &rows),
        rows,
        claim: "one set of parameters for both models",
        bars: summary::bars(&summary),
        figures: figures::figures(found, &summary),
        missed: summary.missed.clone(),
        summary: serde_json::to_string(&summary).expect("plain data has a JSON form"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanada_workloads::options::Purpose;

    #[test]
    fn options_that_exclude_each_other_are_refused() {
        let refused = |quick, pairs: &[(&str, &str)]| {
            let values = Values::new(OPTIONS, Purpose::Run).with(pairs);
            let request = Request {
                quick,
                threads: 1,
                values: values.expect("they are right"),
                tanada: None,
            };
            let found = Toshiba.reproduce(&request, &mut |_| (), &Cancel::new());
            match found.expect_err("it is refused") {
                Error::Usage(message) => message,
                other => panic!("{other}"),
            }
        };
        let search = ("calibrate", "1");
        assert!(refused(true, &[search]).contains("--quick"));
        let message = refused(false, &[search, ("set", "board.cores=4")]);
        assert!(message.contains("--calibrate") && message.contains("--set"));
        assert!(refused(false, &[("seed", "2")]).contains("--calibrate"));
        assert!(refused(false, &[("set", "l2.size=64K")]).contains("board."));
    }
}
