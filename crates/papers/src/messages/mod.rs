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
use simulating::{FRAMES, PERIOD, Ran, Run, bursts, microsecond};
use std::path::PathBuf;
use tanada_policy::deliveries;
use tanada_runtime::Cancel;
use tanada_sim::Machine;
use tanada_sim::rtos::arrivals::Pattern;
use tanada_sim::rtos::receiver::{PDCP_STEPS, Sender};
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

/// A case of the sensitivity table.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Values of the machine.
    sets: &'static [&'static str],
    gap: Gap,
    /// Further services that the handlers call.
    services: usize,
    sender: Sender,
    /// What a PDCP task executes.
    pdcp: &'static [&'static str],
}

/// What the published share of handlers may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handlers {
    /// The functions that the paper's table 2 names, with the service that they call.
    Functions,
    /// These, and entry and exit of their interrupts.
    Interrupts,
}

/// The time from one frame to the next.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// What immediate delivery alone says: [`Calibrated::gap`].
    Calibrated,
    /// So many microseconds.
    Us(u64),
    /// What immediate delivery says if layer 2 computes for [`Calibrated::longer`] more cycles a frame: by this reading of the
    /// published share of handlers.
    Longer(Handlers),
}

const AS_IT_IS: Case = Case {
    name: "as it is",
    sets: &[],
    gap: Gap::Calibrated,
    services: 0,
    sender: Sender::Outside,
    pdcp: &PDCP_STEPS,
};

const fn with(name: &'static str, sets: &'static [&'static str]) -> Case {
    Case {
        name,
        sets,
        ..AS_IT_IS
    }
}

const fn at_gap(name: &'static str, us: u64) -> Case {
    Case {
        name,
        gap: Gap::Us(us),
        ..AS_IT_IS
    }
}

const fn handlers(name: &'static str, services: usize) -> Case {
    Case {
        name,
        services,
        ..AS_IT_IS
    }
}

const fn executing(name: &'static str, pdcp: &'static [&'static str]) -> Case {
    Case {
        name,
        pdcp,
        ..AS_IT_IS
    }
}

const CASES: &[Case] = &[
    AS_IT_IS,
    at_gap("gap 50 us", 50),
    at_gap("gap 75 us", 75),
    at_gap("gap 100 us", 100),
    at_gap("gap 150 us", 150),
    at_gap("gap 200 us", 200),
    with("caches of 2 KB", &["l1.size=2K"]),
    with("caches of 8 KB", &["l1.size=8K"]),
    with("caches of 16 KB", &["l1.size=16K"]),
    with("lines of 32 bytes", &["l1.line=32"]),
    with("lru", &["l1.replacement=lru"]),
    with("fifo", &["l1.replacement=fifo"]),
    with("writes allocate", &["rtos.write_miss=allocate"]),
    handlers("handlers with 1 more service", 1),
    handlers("handlers with 2 more", 2),
    handlers("handlers with 4 more", 4),
    executing(
        "PDCP without filters",
        &["parse_pdcp", "decompress", "copy_payload"],
    ),
    executing(
        "PDCP without filters and headers",
        &["parse_pdcp", "copy_payload"],
    ),
    executing(
        "PDCP with 2 more pieces of code",
        &[
            "parse_pdcp",
            "decompress",
            "copy_payload",
            "classify",
            "isig_tim",
            "iact_tsk counts",
        ],
    ),
    executing(
        "PDCP twice as much on the same code",
        &[
            "parse_pdcp",
            "decompress",
            "copy_payload",
            "classify",
            "parse_pdcp",
            "decompress",
            "copy_payload",
            "classify",
        ],
    ),
    Case {
        name: "layer 2 so long that handlers take 7.5%",
        gap: Gap::Longer(Handlers::Functions),
        ..AS_IT_IS
    },
    Case {
        name: "so long that handlers with entry and exit do",
        gap: Gap::Longer(Handlers::Interrupts),
        ..AS_IT_IS
    },
    with("banks interleaved by rows", &["rtos.bank_size=1K"]),
    Case {
        name: "a core sends",
        sender: Sender::Core,
        ..AS_IT_IS
    },
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

/// What immediate delivery alone says of what the paper does not state.
#[derive(Clone, Copy, Debug, Default)]
struct Calibrated {
    /// The gap in microseconds: the shortest at which the receiver has done with a frame, on average, when the next one comes.
    gap: u64,
    /// Cycles by which layer 2 would have to be longer for each frame, for the handlers to take their published share: as functions, and
    /// with entry and exit of their interrupts.
    longer: [u64; 2],
}

/// What was simulated.
#[derive(Debug, Default)]
struct Findings {
    calibrated: Calibrated,
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
            return bounds_json(messages, request, progress, cancel).map(Found::Json);
        }
        let machine = request.machine("nec")?;
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
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<Vec<bounds::Kept>, Error> {
    let pieces = messages.div_ceil(PIECE) as usize;
    let all = deliveries::all();
    let one = |job: usize| {
        let piece = (job % pieces) as u64;
        let some = PIECE.min(messages - piece * PIECE);
        Ok::<_, Error>(bounds::adversary(&all[job / pieces], some, piece))
    };
    let what = "pieces of messages";
    let results = request.all(pieces * all.len(), what, progress, cancel, one)?;
    Ok(results.chunks(pieces).map(bounds::Kept::sum).collect())
}

fn bounds_json(
    messages: u64,
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<String, Error> {
    let kept = adversaries(messages, request, progress, cancel)?;
    let each = deliveries::all()
        .iter()
        .zip(kept)
        .map(|(entry, kept)| kept.json(entry));
    Ok(format!("[{}]\n", each.collect::<Vec<_>>().join(",")))
}

const fn seeds(quick: bool) -> u64 {
    if quick { 24 } else { 96 }
}

/// Calibrates the gap on immediate delivery alone. The paper says of it that each of nine frames raised an interrupt of its own, that
/// these came while layer 2 worked, and that the core idled only after the last: so a frame comes before the receiver has done with the one
/// before it. Of such gaps the one is taken that the receiver can sustain.
fn calibrate(machine: &Machine, quick: bool) -> Result<Calibrated, Error> {
    let us = microsecond(machine);
    let mean = |gap: u64| -> Result<Ran, Error> {
        let run = |seed| Run::new(machine, "immediate", bursts(machine, gap, 1, seed), seed).run();
        let runs: Result<Vec<Ran>, _> = (0..seeds(quick)).map(run).collect();
        Ok(Ran::mean(&runs?))
    };
    let fits = |ran: &Ran, gap: u64| ran.total() <= (FRAMES * gap * us) as f64;
    let (mut short, mut long) = (0, PERIOD);
    while long - short > 1 {
        let gap = u64::midpoint(short, long);
        match fits(&mean(gap)?, gap) {
            true => long = gap,
            false => short = gap,
        }
    }
    let ran = mean(long)?;
    let longer = |which| {
        let wanted = ran.handlers(which) / (published::share("ipi_handlers") / 100.0);
        ((wanted - ran.total()) / FRAMES as f64).max(0.0) as u64
    };
    Ok(Calibrated {
        gap: long,
        longer: [Handlers::Functions, Handlers::Interrupts].map(longer),
    })
}

impl Calibrated {
    fn longer(&self, which: Handlers) -> u64 {
        self.longer[usize::from(which == Handlers::Interrupts)]
    }

    /// Returns the gap of a case in microseconds, and cycles by which layer 2 is longer.
    fn of(&self, gap: Gap, us: u64) -> (u64, u64) {
        match gap {
            Gap::Calibrated => (self.gap, 0),
            Gap::Us(gap) => (gap, 0),
            Gap::Longer(which) => {
                let longer = self.longer(which);
                (self.gap + longer / us, longer)
            }
        }
    }
}

/// Returns what to simulate, in the order of [`Findings`].
fn runs(
    machine: &Machine,
    calibrated: &Calibrated,
    pattern: &Pattern,
    quick: bool,
) -> Result<Vec<Run>, Error> {
    let (seeds, gap) = (seeds(quick), calibrated.gap);
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
                ..Run::new(machine, delivery, bursts(machine, gap, 1, seed), seed)
            }));
        }
    }
    for entry in deliveries::all() {
        runs.push(Run::new(
            machine,
            entry.name,
            bursts(machine, gap, 4 * seeds, 1),
            1,
        ));
    }
    for entry in deliveries::all() {
        // Not at the multiples of the period.
        let times = (1..=seeds).map(|number| (number * 50_000 + number * 137 % PERIOD) * us);
        runs.push(Run::new(machine, entry.name, times.collect(), 1));
    }
    for case in CASES {
        let machine = with(case.sets)?;
        let (gap, longer) = calibrated.of(case.gap, us);
        for delivery in ["immediate", "periodic"] {
            runs.extend((0..seeds).map(|seed| {
                let mut run = Run::new(&machine, delivery, bursts(&machine, gap, 1, seed), seed);
                run.setup.handler_services = case.services;
                run.setup.sender = case.sender;
                run.setup.pdcp = case.pdcp.to_vec();
                run.setup.extra = [longer, 0];
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
    progress(Progress {
        what: "runs: the gap between frames is calibrated",
        done: 0,
    });
    let calibrated = calibrate(machine, request.quick)?;
    let runs = runs(machine, &calibrated, pattern, request.quick)?;
    let one = |at: usize| runs[at].run();
    let found = request.all(runs.len(), "runs", progress, cancel, one)?;
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
        calibrated,
        on,
        off,
        steady: some(all),
        sparse: some(all),
        cases: CASES.iter().map(|_| [some(seeds), some(seeds)]).collect(),
        rates: some(CACHES.len() * all * RATES.len()),
        kept: adversaries(
            if request.quick { 1 << 22 } else { 1 << 26 },
            request,
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
            "{FRAMES} frames of 66 bytes, one in {} us, on the machine nec, means of {} seeds",
            found.calibrated.gap,
            seeds(quick)
        ),
        rows: summary::rows(found, &summary),
        summary: serde_json::to_string(&summary).expect("plain data has a JSON form"),
        claim: "code recorded, constants from the paper and public data, the gap between frames calibrated on immediate delivery \
         alone; the size of layer 2's code was once enlarged with figures in view",
        bars: summary::bars(&summary),
        missed: summary::missed(&summary, found, us),
        tables: summary::tables(found, &summary, us),
        figures: figures::figures(found, us),
    }
}

#[cfg(test)]
mod tests;
