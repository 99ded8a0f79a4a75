//! Paper 4, dynamic cores x threads per core: figs 1, 2 and 6 to 8, with measured regions on a simulated Xeon Phi.
//!
//! Nine kernels with the regions of the NAS parallel benchmarks were recorded once; what an iteration of each region does is kept in
//! `data/profiles.json`, so a reproduction needs no emulator. docs/reproduce-manycore.md has the claim, what was chosen by what,
//! and the results.

mod figures;
mod profiles;
mod programs;
mod published;
mod simulating;
mod summary;

use crate::{Error, Found, Paper, Progress, Reproduction, Request};
use simulating::OfProgram;
use std::path::PathBuf;
use tanada_runtime::Cancel;
use tanada_workloads::options::{Kind, OptionSpec, Values};

/// The paper, as the registry has it.
pub(crate) struct Manycore;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "measure",
        "",
        Kind::Switch,
        "Record the kernels again and print what their regions do: the file data/profiles.json",
    ),
    OptionSpec::new(
        "set",
        "KEY=VALUE",
        Kind::Texts,
        "Replace a value of the machine phi: regions.hop_cycles=300, l2.miss_cycles=250",
    ),
];

impl Paper for Manycore {
    fn name(&self) -> &'static str {
        "manycore"
    }

    fn about(&self) -> &'static str {
        "Paper 4, dynamic cores x threads per core: best shapes (figs 1, 2), waiting and switching (figs 6, 7), gains (fig. 8)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn examples(&self) -> &'static [&'static str] {
        &["--quick", "--json -o manycore.html", "--measure"]
    }

    fn inputs(&self, _values: &Values) -> Vec<PathBuf> {
        Vec::new()
    }

    fn without_page(&self) -> &'static [&'static str] {
        &["measure"]
    }

    fn reproduce(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &Cancel,
    ) -> Result<Found, Error> {
        let machine = request.machine("phi")?;
        if request.values.switch("measure") {
            return profiles::measured(&machine, request, progress, cancel).map(Found::Json);
        }
        let programs = profiles::programs();
        let one = |number: usize| {
            let found = simulating::simulate(&machine, &programs[number], request.quick);
            Ok::<_, Error>(found)
        };
        let found = request.all(programs.len(), "programs", progress, cancel, one)?;
        let switches = summary::switches(&machine, &programs[0]);
        Ok(Found::Figures(Box::new(reproduction(
            &found,
            &switches,
            request.quick,
        ))))
    }
}

fn reproduction(
    found: &[OfProgram],
    switches: &[(&'static str, f64)],
    quick: bool,
) -> Reproduction {
    let summary = summary::summary(found);
    Reproduction {
        paper: "Paper 4 (dynamic cores x threads per core)",
        title: "Cores x threads per core: published and ours",
        sample: format!(
            "nine programs of class B (IS, MG: C) on the machine phi{}",
            if quick {
                ", with the cores of fig. 1's axis only"
            } else {
                ""
            }
        ),
        rows: summary::rows(found, switches),
        summary: serde_json::to_string(&summary).expect("plain data has a JSON form"),
        claim: "one machine for all programs; FT's block and the second level's replacement were chosen with FT's shape in view",
        bars: summary::bars(&summary),
        missed: summary::missed(&summary, found, quick),
        tables: summary::tables(found, switches),
        figures: figures::figures(found, switches),
    }
}

#[cfg(test)]
mod tests;
