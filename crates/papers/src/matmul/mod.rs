//! Paper 5, customizable scheduling of lightweight threads: its matrix product on eight simulated sockets (figs 3, 5, 6 and 7), why its
//! policy did not gain, and what does.
//!
//! docs/reproduce-matmul.md has the claim, what was calibrated on what, and the results.

mod cases;
mod figures;
mod published;
mod simulating;
mod summary;

use crate::{Error, Found, Paper, Progress, Reproduction, Request};
use cases::{Case, Chip, Results, Scheme, cases};
use simulating::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tanada_runtime::Cancel;
use tanada_sim::machines;
use tanada_trace::Trace;
use tanada_workloads::options::{Kind, OptionSpec, Values};

/// The paper, as the registry has it.
pub(crate) struct Matmul;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "seeds",
        "N",
        Kind::Count(1, 1000),
        "Simulate each case with N seeds, and show the means",
    )
    .default("3"),
    OptionSpec::new(
        "today",
        "",
        Kind::Switch,
        "Simulate repeated iterations on two sockets of today, too (epyc2)",
    ),
    OptionSpec::new(
        "set",
        "KEY=VALUE",
        Kind::Texts,
        "Replace a value of the machine opteron: memory.fill_cycles=20, scheduler.steal_cycles=1600",
    ),
];

impl Paper for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn about(&self) -> &'static str {
        "Paper 5, scheduling of lightweight threads: a matrix product on eight sockets (figs 3, 5, 6, 7), and why depth hints did not help"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn examples(&self) -> &'static [&'static str] {
        &[
            "--quick",
            "--json -o matmul.html",
            "--set memory.fill_cycles=20",
        ]
    }

    fn inputs(&self, _values: &Values) -> Vec<PathBuf> {
        Vec::new()
    }

    fn reproduce(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
    ) -> Result<Found, Error> {
        let opteron = request.machine("opteron")?;
        let epyc2 = machines::find("epyc2").expect("the machine is part of the program");
        let seeds = match request.quick {
            true => 1,
            false => request.values.count("seeds"),
        };
        let cases = cases(request.quick, request.values.switch("today"));
        let sources: BTreeSet<Source> = cases.iter().map(|case| case.source()).collect();
        let sources: Vec<Source> = sources.into_iter().collect();
        let record = |at: usize| sources[at].record();
        let traces = request.all(sources.len(), "recordings", progress, cancel, record)?;
        let traces: BTreeMap<Source, Trace> = sources.into_iter().zip(traces).collect();
        // The long ones first: at the end no thread waits for another for long.
        let mut runs: Vec<(Case, u64)> = (1..=seeds)
            .flat_map(|seed| cases.iter().map(move |&case| (case, seed)))
            .filter(|(case, seed)| case.chip == Chip::Opteron || *seed == 1)
            .collect();
        runs.sort_by_key(|(case, _)| {
            (
                std::cmp::Reverse(case.iterations),
                std::cmp::Reverse(case.cores),
            )
        });
        let one = |number: usize| {
            let (case, seed) = runs[number];
            let mut sets = vec![case.pages.set().to_owned()];
            if let Scheme::DepthAware(_, hint) = case.scheme {
                sets.push(format!("scheduler.peeks={}", hint.name()));
            }
            let wrong = |error: tanada_sim::MachineError| Error::Usage(error.to_string());
            let machine = match case.chip {
                Chip::Opteron => &opteron,
                Chip::Epyc2 => &epyc2,
            };
            let machine = machine.with_cores(case.machine_cores()).map_err(wrong)?;
            let machine = machine.overridden(&sets).map_err(wrong)?;
            let go_on = || !cancel.is_cancelled();
            let policy = case.scheme.policy();
            simulating::run(&traces[&case.source()], &machine, policy, seed, &go_on)
        };
        let found = request.all(runs.len(), "simulations", progress, cancel, one)?;
        let mut results = Results::default();
        for ((case, _), found) in runs.iter().zip(found) {
            results.0.entry(*case).or_default().push(found);
        }
        Ok(Found::Figures(Box::new(reproduction(
            &results,
            seeds,
            request.quick,
        ))))
    }
}

fn reproduction(results: &Results, seeds: u64, quick: bool) -> Reproduction {
    let summary = summary::summary(results);
    Reproduction {
        paper: "Paper 5 (customizable scheduling of lightweight threads)",
        title: "A matrix product on eight sockets: published and ours",
        sample: format!(
            "768 x 768 floats down to blocks of 32 x 32 on the machine opteron; means of {seeds} seed{}",
            if seeds == 1 { "" } else { "s" }
        ),
        rows: summary::rows(results, &summary),
        summary: serde_json::to_string(&summary).expect("plain data has a JSON form"),
        claim: "costs of the paper's machine, one of them (memory) calibrated on where Original stops; all other rows judge it",
        bars: summary::bars(&summary),
        missed: summary::missed(results, &summary),
        tables: summary::tables(results, quick),
        figures: figures::figures(results, quick),
    }
}

#[cfg(test)]
mod tests;
