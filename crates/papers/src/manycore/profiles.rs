//! The measured regions of the nine programs: `data/profiles.json`, which `tanada reproduce manycore --measure` makes.

use super::programs::{PROGRAMS, program};
use crate::{Error, Progress, Request};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use tanada_runtime::Cancel;
use tanada_sim::regions::{Program, Region, Work, measure};
use tanada_sim::{Machine, tanada_trace::threads::ThreadTrace};
use tanada_workloads::kernels;

const STORED: &str = include_str!("data/profiles.json");

/// A program of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    program: String,
    regions: Vec<StoredRegion>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredRegion {
    name: String,
    units_per_iteration: u64,
    /// For 1, 2, ... siblings on a core, a unit's instructions, lines from the second level, streamed, fetched, written.
    work: Vec<[f64; 5]>,
}

/// Returns the nine programs.
pub(super) fn programs() -> Vec<Program> {
    let stored: Vec<Stored> =
        serde_json::from_str(STORED).expect("the file is part of the program");
    let regions = |one: Stored| {
        let each = one.regions.into_iter().map(|region| Region {
            units_per_iteration: region.units_per_iteration,
            work: region.work.into_iter().map(read).collect(),
        });
        program(&one.program, each.collect())
    };
    stored.into_iter().map(regions).collect()
}

fn read([instructions, second_level, streamed, fetched, written]: [f64; 5]) -> Work {
    Work {
        instructions,
        second_level,
        streamed,
        fetched,
        written,
    }
}

/// Compiles the kernels, records each with a team of four threads, and returns what the file holds.
///
/// # Errors
/// If a compiler or the emulator is not there, a kernel fails, or `cancel` stopped the work.
pub(super) fn measured(
    machine: &Machine,
    request: &Request,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &Cancel,
) -> Result<String, Error> {
    let input = |error: &dyn std::fmt::Display| Error::Input(error.to_string());
    let Some(tanada) = &request.tanada else {
        return Err(Error::Usage(
            "no command that records programs is there".to_owned(),
        ));
    };
    let folder = tempfile::tempdir().map_err(|error| input(&error))?;
    let mut all = Vec::new();
    for (done, (name, regions)) in PROGRAMS.iter().enumerate() {
        let what = format!("recording {name}");
        progress(Progress { what: &what, done });
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let binary = kernels::build_regions(name, folder.path()).map_err(|error| input(&error))?;
        let path = folder.path().join(format!("{name}.tnb"));
        record(tanada, &binary, &path)?;
        let trace = ThreadTrace::open(&path).map_err(|error| input(&error))?;
        let found = measure(&trace, machine).map_err(|error| input(&error))?;
        if found.len() != regions.len() {
            return Err(Error::Input(format!("{name} has {} regions", found.len())));
        }
        let stored = found
            .iter()
            .zip(*regions)
            .map(|(region, name)| StoredRegion {
                name: (*name).to_owned(),
                units_per_iteration: region.units_per_iteration,
                work: region.work.iter().map(write).collect(),
            });
        all.push(Stored {
            program: (*name).to_owned(),
            regions: stored.collect(),
        });
    }
    Ok(serde_json::to_string(&all).expect("plain data has a JSON form") + "\n")
}

/// Thousandths are enough.
fn write(work: &Work) -> [f64; 5] {
    [
        work.instructions,
        work.second_level,
        work.streamed,
        work.fetched,
        work.written,
    ]
    .map(|value| (value * 1000.0).round() / 1000.0)
}

fn record(tanada: &Path, binary: &Path, trace: &Path) -> Result<(), Error> {
    let mut command = Command::new(tanada);
    command
        .arg("record")
        .arg("-o")
        .arg(trace)
        .arg("--")
        .arg(binary);
    command.env("OMP_NUM_THREADS", "4").stdin(Stdio::null());
    let ran = command.output();
    let ran = ran.map_err(|error| Error::Input(format!("{}: {error}", tanada.display())))?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(Error::Input(format!(
            "{} cannot be recorded: {}",
            binary.display(),
            String::from_utf8_lossy(&ran.stderr).trim()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_regions_that_the_programs_invoke() {
        let programs = programs();
        let names: Vec<&str> = programs.iter().map(|one| &*one.name).collect();
        assert_eq!(names, PROGRAMS.map(|(name, _)| name));
        for (program, (name, regions)) in programs.iter().zip(PROGRAMS) {
            assert_eq!(program.regions.len(), regions.len(), "{name}");
            for region in 0..regions.len() as u32 {
                assert!(
                    program.step.iter().any(|one| one.region == region),
                    "{name} {region}"
                );
            }
            for region in &program.regions {
                assert_eq!(region.work.len(), 4, "{name}");
                let first = region.work[0].instructions;
                // Siblings do the same work, whatever it costs.
                let same = |work: &Work| (work.instructions / first - 1.0).abs() < 0.05;
                assert!(
                    first > 0.0 && region.work.iter().all(same),
                    "{name} {region:?}"
                );
            }
        }
    }
}
