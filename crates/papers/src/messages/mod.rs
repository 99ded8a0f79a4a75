//! Paper 3, periodic communication between cores: figs 6 to 9, with a recorded kernel on two simulated ARM926EJ-S, and what
//! the paper lacks: cost and latency against the rate of messages under every delivery.
//!
//! docs/reproduce-messages.md has the claim, what was chosen by what, and the results.

mod bounds;
mod figures;
mod published;
mod simulating;
mod summary;

use crate::{Error, Found, Paper, Progress, Reproduction, Request};
use simulating::{FRAMES, GAP, PERIOD, Ran, Run, bursts, microsecond};
use std::ops::ControlFlow;
use std::path::PathBuf;
use tanada_harness::batch;
use tanada_policy::deliveries;
use tanada_runtime::Cancel;
use tanada_sim::rtos::arrivals::Pattern;
use tanada_sim::rtos::receiver::Sender;
use tanada_sim::{Machine, machines};
use tanada_workloads::options::{Kind, OptionSpec, Values};

/// The paper, as the registry has it.
pub(crate) struct Messages;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "bounds",
        "N",
        Kind::Count(1, 1_000_000_000_000),
        "Send N messages through each delivery at times chosen against it, and print as one line of JSON whether one was told too late",
    ),
    OptionSpec::new(
        "pattern",
        "NAME",
        Kind::Texts,
        "How messages come in the charts of rates: poisson (default), periodic, bursts:N, on-off:N",
    ),
    OptionSpec::new(
        "distances",
        "FILE",
        Kind::Path,
        "The same from a file: distances between messages in cycles, one a line, again and again; the rate is then the file's",
    ),
    OptionSpec::new(
        "set",
        "KEY=VALUE",
        Kind::Texts,
        "Replace a value of the machine nec: l1.size=8K, l1.replacement=lru, rtos.caches=off",
    ),
];

/// Cases of the sensitivity table: the name, values of the machine, the gap in microseconds, services in handlers, whether a core sends.
type Case = (&'static str, &'static [&'static str], u64, usize, Sender);

const CASES: &[Case] = &[
    ("as it is", &[], GAP, 0, Sender::Outside),
    ("gap 50 us", &[], 50, 0, Sender::Outside),
    ("gap 75 us", &[], 75, 0, Sender::Outside),
    ("gap 100 us", &[], 100, 0, Sender::Outside),
    ("gap 150 us", &[], 150, 0, Sender::Outside),
    ("gap 200 us", &[], 200, 0, Sender::Outside),
    ("caches of 2 KB", &["l1.size=2K"], GAP, 0, Sender::Outside),
    ("caches of 8 KB", &["l1.size=8K"], GAP, 0, Sender::Outside),
    ("caches of 16 KB", &["l1.size=16K"], GAP, 0, Sender::Outside),
    (
        "lines of 32 bytes",
        &["l1.line=32"],
        GAP,
        0,
        Sender::Outside,
    ),
    ("lru", &["l1.replacement=lru"], GAP, 0, Sender::Outside),
    ("fifo", &["l1.replacement=fifo"], GAP, 0, Sender::Outside),
    (
        "writes allocate",
        &["rtos.write_miss=allocate"],
        GAP,
        0,
        Sender::Outside,
    ),
    ("handlers with 1 more service", &[], GAP, 1, Sender::Outside),
    ("handlers with 2 more", &[], GAP, 2, Sender::Outside),
    ("handlers with 4 more", &[], GAP, 4, Sender::Outside),
    (
        "banks interleaved by rows",
        &["rtos.bank_size=1K"],
        GAP,
        0,
        Sender::Outside,
    ),
    ("a core sends", &[], GAP, 0, Sender::Core),
];

/// Caches of the charts of rates.
const CACHES: [(&str, &[&str]); 6] = [
    ("4 KB, random", &[]),
    ("2 KB, random", &["l1.size=2K"]),
    ("8 KB, random", &["l1.size=8K"]),
    ("16 KB, random", &["l1.size=16K"]),
    ("4 KB, LRU", &["l1.replacement=lru"]),
    ("4 KB, FIFO", &["l1.replacement=fifo"]),
];

/// Messages a second of the charts. A frame takes about 130 microseconds.
const RATES: [u64; 8] = [20, 100, 300, 1000, 2000, 3500, 5000, 7000];

/// What was simulated.
#[derive(Debug, Default)]
struct Findings {
    /// Immediate and periodic delivery of figure 6's frames, with caches and without.
    on: Vec<Ran>,
    off: Vec<Ran>,
    /// Every delivery: periods one behind the other with figure 6's frames; one message in 50 ms.
    steady: Vec<Ran>,
    sparse: Vec<Ran>,
    /// Each case: immediate and periodic, seed by seed.
    cases: Vec<[Vec<Ran>; 2]>,
    /// By caches, delivery and rate.
    rates: Vec<Ran>,
    /// Each delivery under the adversary.
    kept: Vec<bounds::Kept>,
}

impl Paper for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn about(&self) -> &'static str {
        "Paper 3, messages between cores: time of each task (figs 7 to 9), task charts (fig. 6), cost and latency by rate and delivery"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn examples(&self) -> &'static [&'static str] {
        &["--quick", "--json -o messages.html", "--bounds 1000000000"]
    }

    fn inputs(&self, values: &Values) -> Vec<PathBuf> {
        values
            .path("distances")
            .map(PathBuf::from)
            .into_iter()
            .collect()
    }

    fn without_page(&self) -> &'static [&'static str] {
        &["bounds"]
    }

    fn reproduce(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
    ) -> Result<Found, Error> {
        if let Some(messages) = request.values.count_if_any("bounds") {
            return bounds_json(messages, request.threads, progress, cancel).map(Found::Json);
        }
        let nec = machines::find("nec").expect("the machine is part of the program");
        let machine = nec.overridden(request.values.texts("set"));
        let machine = machine.map_err(|error| Error::Usage(error.to_string()))?;
        let pattern = pattern_of(&request.values)?;
        let found = simulate(&machine, &pattern, request, progress, cancel)?;
        Ok(Found::Figures(Box::new(reproduction(
            &machine,
            &found,
            request.quick,
        ))))
    }
}

fn pattern_of(values: &Values) -> Result<Pattern, Error> {
    if let Some(path) = values.path("distances") {
        let input =
            |why: &dyn std::fmt::Display| Error::Input(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| input(&error))?;
        return Pattern::parse(&text).map_err(|error| input(&error));
    }
    match values.texts("pattern").last() {
        None => Ok(Pattern::Poisson),
        Some(name) => name
            .parse()
            .map_err(|error: tanada_sim::rtos::arrivals::NoPattern| {
                Error::Usage(error.to_string())
            }),
    }
}

/// Messages that a piece of the work of [`bounds`] sends.
const PIECE: u64 = 1 << 24;

fn adversaries(
    messages: u64,
    threads: usize,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<Vec<bounds::Kept>, Error> {
    let pieces = messages.div_ceil(PIECE) as usize;
    let all = deliveries::all();
    let one = |job: usize| {
        let piece = (job % pieces) as u64;
        let some = PIECE.min(messages - piece * PIECE);
        bounds::adversary(&all[job / pieces], some, piece)
    };
    let mut done = 0;
    let what = format!("of {} pieces of messages", pieces * all.len());
    let results = batch::collect(pieces * all.len(), threads, one, |ended| {
        done += usize::from(ended.is_some());
        progress(Progress { what: &what, done });
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let results: Vec<bounds::Kept> = results.into_iter().flatten().collect();
    if cancel.is_cancelled() || results.len() < pieces * all.len() {
        return Err(Error::Cancelled);
    }
    Ok(results.chunks(pieces).map(bounds::Kept::sum).collect())
}

fn bounds_json(
    messages: u64,
    threads: usize,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<String, Error> {
    let kept = adversaries(messages, threads, progress, cancel)?;
    let each = deliveries::all()
        .iter()
        .zip(kept)
        .map(|(entry, kept)| kept.json(entry));
    Ok(format!("[{}]\n", each.collect::<Vec<_>>().join(",")))
}

/// Returns what to simulate, in the order of [`Findings`].
fn runs(machine: &Machine, pattern: &Pattern, quick: bool) -> Result<Vec<Run>, Error> {
    let seeds = if quick { 24 } else { 96 };
    let with = |sets: &[&str]| {
        machine
            .overridden(sets)
            .map_err(|error| Error::Usage(error.to_string()))
    };
    let off = with(&["rtos.caches=off"])?;
    let us = microsecond(machine);
    let mut runs = Vec::new();
    for machine in [machine, &off] {
        for delivery in ["immediate", "periodic"] {
            runs.extend((0..seeds).map(|seed| Run {
                spans: seed == 0,
                ..Run::new(machine, delivery, bursts(machine, GAP, 1, seed), seed)
            }));
        }
    }
    for entry in deliveries::all() {
        runs.push(Run::new(
            machine,
            entry.name,
            bursts(machine, GAP, 4 * seeds, 1),
            1,
        ));
    }
    for entry in deliveries::all() {
        // Not at the multiples of the period.
        let times = (1..=seeds).map(|number| (number * 50_000 + number * 137 % PERIOD) * us);
        runs.push(Run::new(machine, entry.name, times.collect(), 1));
    }
    for (_, sets, gap, services, sender) in CASES {
        let machine = with(sets)?;
        for delivery in ["immediate", "periodic"] {
            runs.extend((0..seeds).map(|seed| {
                let mut run = Run::new(&machine, delivery, bursts(&machine, *gap, 1, seed), seed);
                (run.setup.handler_services, run.setup.sender) = (*services, *sender);
                run
            }));
        }
    }
    for (_, sets) in CACHES {
        let machine = with(sets)?;
        for entry in deliveries::all() {
            for rate in RATES {
                let times =
                    pattern
                        .times(1_000_000 / rate * us, rate)
                        .take(if quick { 150 } else { 2000 });
                runs.push(Run::new(&machine, entry.name, times.collect(), rate));
            }
        }
    }
    Ok(runs)
}

fn simulate(
    machine: &Machine,
    pattern: &Pattern,
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<Findings, Error> {
    let runs = runs(machine, pattern, request.quick)?;
    let (mut done, what) = (0, format!("of {} runs", runs.len()));
    let results = batch::collect(
        runs.len(),
        request.threads,
        |at: usize| runs[at].run(),
        |ended| {
            done += usize::from(ended.is_some());
            progress(Progress { what: &what, done });
            match cancel.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        },
    );
    let mut found = Vec::with_capacity(runs.len());
    for result in results.into_iter().flatten() {
        found.push(result?);
    }
    if cancel.is_cancelled() || found.len() < runs.len() {
        return Err(Error::Cancelled);
    }
    let seeds = runs
        .iter()
        .take_while(|run| run.delivery == "immediate")
        .count();
    let mut found = found.into_iter();
    let mut some = |count: usize| found.by_ref().take(count).collect::<Vec<Ran>>();
    let mut pair = || {
        [some(seeds), some(seeds)]
            .iter()
            .map(|runs| Ran::mean(runs))
            .collect::<Vec<_>>()
    };
    let (on, off) = (pair(), pair());
    let all = deliveries::all().len();
    Ok(Findings {
        on,
        off,
        steady: some(all),
        sparse: some(all),
        cases: CASES.iter().map(|_| [some(seeds), some(seeds)]).collect(),
        rates: some(CACHES.len() * all * RATES.len()),
        kept: adversaries(
            if request.quick { 1 << 22 } else { 1 << 26 },
            request.threads,
            progress,
            cancel,
        )?,
    })
}

fn reproduction(machine: &Machine, found: &Findings, quick: bool) -> Reproduction {
    let us = microsecond(machine) as f64;
    let summary = summary::summary(found, us);
    Reproduction {
        paper: "Paper 3 (periodic communication between cores)",
        title: "Messages between cores: published and ours",
        sample: format!(
            "{FRAMES} frames of 66 bytes, one in {GAP} us, on the machine nec, means of {} seeds",
            if quick { 24 } else { 96 }
        ),
        rows: summary::rows(found, &summary),
        summary: serde_json::to_string(&summary).expect("plain data has a JSON form"),
        claim: "code recorded, constants from the paper and public data; the gap between frames, the banks and the \
         size of layer 2's code were chosen with figures in view",
        bars: summary::bars(&summary),
        missed: summary::missed(&summary, found, us),
        tables: summary::tables(found, &summary, us),
        figures: figures::figures(found, us),
    }
}

#[cfg(test)]
mod tests;
