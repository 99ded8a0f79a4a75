//! The command line: which cases are measured, on which peers, and in which settings.

use crate::cases::{self, Case, Job};
use crate::child::Current;
use crate::native;
use crate::output::{self, Result as Line};
use crate::peers::{self, Peer, Setting};
use crate::samples::{Row, Sample, Series};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use tanada_harness::rounds::{Lane, Turn, in_turns};

const HELP: &str = "\
Examples:
  peers wavefront build
  peers wavefront --quick --workers 2 --peer tanada/random-steal,onetbb,rayon
  peers wavefront --params body=100ns,edges=2 --json

The best of all rounds counts. A cell of a table has, in parentheses, the ratio to the best row that is no lower limit
made by hand (floor/), the distance of the median round, and the setting. A peer that is not installed is named, with what would install it.
Exit codes: 0 good, 1 a peer failed, 2 wrong usage or nothing to measure, 130 stopped by Ctrl-C.";

/// Measures Tanada beside what people use today: each case on every peer that is installed, in turns, each in its best setting.
#[derive(Debug, Parser)]
#[command(name = "peers", after_help = HELP)]
struct Args {
    /// What is measured; without a name, everything
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// One JSON object a line on standard output: case, params, peer, workers, metric, value, unit
    #[arg(long)]
    json: bool,
    /// Fewer repetitions of the same: at most a few minutes a case
    #[arg(long)]
    quick: bool,
    /// Numbers of workers, instead of those of the case; separated by commas, or the option again
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Vec<u16>,
    /// Only these peers; separated by commas, or the option again
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    peer: Vec<String>,
    /// Only these params, such as body=100ns,edges=2; the option again for more (params may hold commas)
    #[arg(long, value_name = "PARAMS")]
    params: Vec<String>,
    /// How many times each peer has its turn, instead of what the case says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Lists cases, their params, and peers, and measures nothing
    #[arg(long)]
    list: bool,
    /// Prints the tables of an earlier run with --json, and measures nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "list"])]
    read: Option<PathBuf>,
}

pub(crate) fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        print(&list());
        return ExitCode::SUCCESS;
    }
    if let Some(file) = &args.read {
        let text = std::fs::read_to_string(file).map_err(Into::into);
        return match text.and_then(|text| output::read(&text)) {
            Ok(tables) => {
                print(&tables);
                ExitCode::SUCCESS
            }
            Err(error) => {
                note(&format!("peers: {}: {error}", file.display()));
                ExitCode::from(2)
            }
        };
    }
    let plan = match plan(&args) {
        Ok(plan) => plan,
        Err(message) => {
            note(&format!("peers: {message}"));
            return ExitCode::from(2);
        }
    };
    for turn in &plan {
        for Peer { name, absent, .. } in &turn.absent {
            let (case, why) = (turn.case.name, absent.as_deref().unwrap_or_default());
            note(&format!("{case}: {name} is absent: {why}"));
        }
    }
    for why in plan.iter().filter_map(|turn| turn.nothing(&args)) {
        note(&format!("peers: {why}"));
    }
    if plan.iter().all(|turn| turn.nothing(&args).is_some()) {
        return ExitCode::from(2);
    }
    let current = Current::default();
    let handle = current.clone();
    // Without the handler Ctrl-C ends this process, as by default; a child ends with its parent.
    let _ = ctrlc::set_handler(move || {
        if handle.stop() {
            std::process::exit(130);
        }
    });
    let mut good = true;
    for turn in plan.iter().filter(|turn| turn.nothing(&args).is_none()) {
        match measure(turn, &args, &current) {
            Ok(complete) => good &= complete,
            Err(()) => {
                note("peers: stopped");
                return ExitCode::from(130);
            }
        }
    }
    ExitCode::from(u8::from(!good))
}

/// One case and its peers.
struct Plan {
    case: &'static Case,
    params: Vec<String>,
    workers: Vec<u16>,
    here: Vec<Peer>,
    absent: Vec<Peer>,
}

impl Plan {
    /// Returns why there is nothing to measure; `None`: there is something.
    fn nothing(&self, args: &Args) -> Option<String> {
        let case = self.case.name;
        if self.params.is_empty() {
            return Some(match args.params.is_empty() {
                true => format!("{case} finds nothing here to work on"),
                false => format!("{case} has no {}", args.params.join(", ")),
            });
        }
        if !self.here.is_empty() {
            return None;
        }
        Some(match self.absent.is_empty() {
            true => format!(
                "{} {} no {case}; --list shows who has it",
                args.peer.join(", "),
                if args.peer.len() == 1 { "has" } else { "have" }
            ),
            false => format!("no peer that has {case} is installed"),
        })
    }
}

/// Returns the error message for an unknown `name` of a `what`; `right` are the known names.
fn unknown<S: ToString>(what: &str, name: &str, right: impl IntoIterator<Item = S>) -> String {
    let right = Vec::from_iter(right.into_iter().map(|one| one.to_string())).join(", ");
    let all = what.strip_suffix('s').unwrap_or(what);
    format!("unknown {what} \"{name}\"; the {all}s are {right}")
}

/// Returns what the arguments ask for.
///
/// # Errors
/// A line for people that names the wrong argument and the right ones.
fn plan(args: &Args) -> Result<Vec<Plan>, String> {
    let names = || cases::all().iter().map(|case| case.name);
    let mut chosen: Vec<&'static Case> = Vec::new();
    for name in &args.cases {
        chosen.push(cases::find(name).ok_or_else(|| unknown("case", name, names()))?);
    }
    if chosen.is_empty() {
        chosen = cases::all().iter().collect();
    }
    let all = peers::all();
    for name in &args.peer {
        if !all.iter().any(|peer| peer.name == *name) {
            return Err(unknown("peer", name, all.into_iter().map(|peer| peer.name)));
        }
    }
    let known = Vec::from_iter(chosen.iter().flat_map(|case| (case.params)()));
    if let Some(wrong) = args.params.iter().find(|params| !known.contains(params)) {
        return Err(unknown("params", wrong, known));
    }
    let turn = |case: &'static Case| {
        let wanted = |peer: &Peer| {
            peer.cases.contains(&case.name)
                && (args.peer.is_empty() || args.peer.contains(&peer.name))
        };
        let peers = all.iter().filter(|peer| wanted(peer)).cloned();
        let (here, absent) = peers.partition(|peer| peer.absent.is_none());
        let mut params = (case.params)();
        params.retain(|params| args.params.is_empty() || args.params.contains(params));
        Plan {
            case,
            params,
            workers: match args.workers.is_empty() {
                true => case.workers.to_vec(),
                false => args.workers.clone(),
            },
            here,
            absent,
        }
    };
    Ok(chosen.iter().map(|case| turn(case)).collect())
}

/// Runs a case and prints its results. Returns whether no peer failed.
///
/// # Errors
/// Ctrl-C stopped the case; nothing was printed.
fn measure(turn: &Plan, args: &Args, current: &Current) -> Result<bool, ()> {
    let case = turn.case;
    let rounds = [case.rounds, case.quick_rounds][usize::from(args.quick)];
    let rounds = args.rounds.unwrap_or(rounds);
    let entrants = entrants(turn, args.quick, native::rate());
    let progress = progress(u64::from(rounds) * entrants.len() as u64);
    let lanes = in_turns(rounds, entrants, |round, (job, setting)| {
        job.first = round == 0;
        progress.set_message(format!("{} {} {}", case.name, job.peer, setting.label));
        let samples = current.measure(job, setting);
        progress.inc(1);
        match samples {
            _ if current.is_stopped() => Err(()),
            Ok(samples) => Ok(Turn::Sample(samples)),
            Err(why) => {
                progress.dec_length(u64::from(rounds - round - 1));
                Ok(Turn::Failed(why))
            }
        }
    })?;
    progress.finish_and_clear();
    let results = results(turn, &lanes);
    if args.json {
        print(&output::json(case, &results));
    } else {
        let mut text = output::table(case, &results);
        for Peer { name, absent, .. } in &turn.absent {
            let why = absent.as_deref().unwrap_or_default();
            text += &format!("absent: {name}: {why}\n");
        }
        print(&(text + "\n"));
    }
    for why in lanes.iter().filter_map(|lane| lane.failed.as_ref()) {
        note(&format!("peers: {why}"));
    }
    Ok(lanes.iter().all(|lane| lane.failed.is_none()))
}

/// A peer at one number of workers in one setting.
type Entrant = (Job, &'static Setting);

/// Returns what has a turn in each round: all peers.
fn entrants(turn: &Plan, quick: bool, rate: f64) -> Vec<Entrant> {
    let mut entrants = Vec::new();
    for peer in &turn.here {
        for workers in peer.workers(&turn.workers) {
            for setting in peer.settings(turn.case.name, workers) {
                let job = Job {
                    case: turn.case.name.to_owned(),
                    peer: peer.name.clone(),
                    workers,
                    quick,
                    first: true,
                    rate,
                    params: turn.params.clone(),
                };
                entrants.push((job, setting));
            }
        }
    }
    entrants
}

/// Returns all rows of a case: the best of each peer's settings and rounds.
fn results(turn: &Plan, lanes: &[Lane<Entrant, Vec<Sample>>]) -> Vec<Line> {
    let mut lines = Vec::new();
    for peer in &turn.here {
        for workers in peer.workers(&turn.workers) {
            let mine = |job: &Job| job.workers == workers && job.peer == peer.name;
            let of_peer = lanes.iter().filter(|lane| mine(&lane.engine.0));
            let samples = of_peer.flat_map(|lane| {
                let samples = lane.samples.iter().flatten().cloned();
                samples.map(|sample| (lane.engine.1.label, sample))
            });
            let series = Series::collect(workers, samples);
            let derived = (turn.case.derive)(&series).into_iter();
            let rows = derived.chain(series.iter().flat_map(Series::rows));
            lines.extend(rows.map(|row: Row| Line {
                peer: peer.name.clone(),
                workers,
                row,
            }));
        }
    }
    lines
}

/// Returns the text of `--list`.
fn list() -> String {
    let mut text = "Cases\n".to_owned();
    for case in cases::all() {
        let (name, about, params) = (case.name, case.about, (case.params)().join(" "));
        text += &format!("  {name:<22} {about}\n  {:<22} {params}\n", "");
    }
    text += "\nPeers\n";
    for peer in peers::all() {
        let cases = peer.cases.join(" ");
        text += &format!("  {:<22} {} [{cases}]\n", peer.name, peer.about);
        if let Some(why) = &peer.absent {
            text += &format!("  {:<22} absent: {why}\n", "");
        }
    }
    text
}

/// Returns a progress bar of `steps` steps on standard error. The bar is hidden if standard error is no terminal.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}")
        .expect("a template of known words");
    ProgressBar::new(steps).with_style(style)
}

/// Writes to standard output. A closed pipe is no error: its reader has what it wanted.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to standard error.
fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_sound_and_help_shows_an_example() {
        let mut command = <Args as clap::CommandFactory>::command();
        command.build();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        assert!(
            help.contains("Examples:") && help.contains("--quick"),
            "{help}"
        );
    }

    #[test]
    fn an_absent_peer_is_set_apart_and_not_measured() {
        let args = Args::parse_from(["peers", "wavefront", "--quick"]);
        let mut turn = plan(&args).expect("right names").remove(0);
        let mut peer = turn.here.pop().expect("a peer is here");
        peer.absent = Some("not installed".to_owned());
        turn.absent.push(peer.clone());
        assert!(
            entrants(&turn, true, 1.0)
                .iter()
                .all(|(job, _)| job.peer != peer.name)
        );
    }

    #[test]
    fn names_of_cases_may_follow_any_option() {
        let words = ["peers", "--workers", "2", "--peer", "rayon", "--peer"];
        let more = ["chili", "--params", "body=1us,edges=2", "wavefront"];
        let args = Args::parse_from(words.into_iter().chain(more));
        assert_eq!(
            (args.cases, args.workers, args.peer, args.params),
            (
                vec!["wavefront".to_owned()],
                vec![2],
                vec!["rayon".to_owned(), "chili".to_owned()],
                vec!["body=1us,edges=2".to_owned()]
            )
        );
    }

    #[test]
    fn a_peer_without_a_case_is_named() {
        let args = Args::parse_from(["peers", "h264", "wavefront", "--peer", "onetbb,rayon"]);
        let why: Vec<_> = plan(&args)
            .expect("right names")
            .iter()
            .map(|turn| turn.nothing(&args))
            .collect();
        assert_eq!(
            why,
            [
                Some("onetbb, rayon have no h264; --list shows who has it".to_owned()),
                None
            ]
        );
    }

    #[test]
    fn peers_workers_and_params_can_be_chosen() {
        let words = [
            "peers",
            "wavefront",
            "--peer",
            "tanada/fcfs,rayon",
            "--workers",
            "1,3",
            "--params",
            "body=1us,edges=2",
        ];
        let turn = plan(&Args::parse_from(words))
            .expect("right names")
            .remove(0);
        let names: Vec<&str> = turn.here.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(
            (names, turn.workers, turn.params),
            (
                vec!["tanada/fcfs", "rayon"],
                vec![1, 3],
                vec!["body=1us,edges=2".to_owned()]
            )
        );
    }
}
