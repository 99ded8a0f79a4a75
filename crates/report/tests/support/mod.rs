//! A report to test with: a small list scheduler runs a made-up picture under rules that differ as dispatchers do.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tanada_report::{Event, Origin, OriginCounts, Report, RunResult, Seconds, Timeline, Unit};

const STAGES: [&str; 8] = [
    "luma residual",
    "luma prediction",
    "luma reconstruction",
    "luma deblocking",
    "chroma residual and prediction",
    "chroma reconstruction",
    "Cb deblocking",
    "Cr deblocking",
];

/// `tasks` tasks of eight stages in row pairs as T groups; a worker that changes stage pays for it.
pub(crate) fn timeline(policy: &str, workers: u16, tasks: u64, keeps_stage: bool) -> Timeline {
    let mut timeline = Timeline::new(&format!("{policy}, picture 7"), policy, Unit::Ns, workers);
    timeline.picture = Some(7);
    let names = STAGES.map(|name| timeline.intern(name));
    let mut clock = vec![1_000_u64; usize::from(workers)];
    let mut last = vec![u64::MAX; usize::from(workers)];
    let per_stage = tasks.div_ceil(8);
    for task in 0..tasks {
        // Stage by stage in long runs, or a little of everything in turn.
        let (stage, item) = if keeps_stage {
            let chunk = per_stage.div_ceil(15).max(1);
            (
                (task / chunk) % 8,
                task / (chunk * 8) * chunk + task % chunk,
            )
        } else {
            (task % 8, task / 8)
        };
        let worker = (0..usize::from(workers))
            .min_by_key(|&w| clock[w])
            .expect("there are workers");
        let cold = if last[worker] == stage { 0 } else { 900 };
        last[worker] = stage;
        let length = 700 + (task * 7919 % 11) * 60 + stage * 40 + cold;
        let start = clock[worker] + 90;
        clock[worker] = start + length;
        let origin = match task % 17 {
            0 => Origin::Stolen(((worker + 1) % usize::from(workers)) as u16),
            n if n < 4 => Origin::Handed,
            n if n < 9 => Origin::Own,
            _ => Origin::Pool,
        };
        let t = 1 + (item * 15 / per_stage) as u32;
        let event = Event {
            worker: worker as u16,
            task,
            name: names[stage as usize],
            t,
            s: stage as u32 + 1,
            start,
            end: clock[worker],
            origin,
        };
        timeline.events.push(event);
    }
    timeline
}

/// Seven policies, a run and a timeline each.
pub(crate) fn report(workers: u16, tasks: u64) -> Report {
    let mut report = Report::new("H.264 under seven dispatchers");
    report.command = "tanada compare demo.264".to_owned();
    report.machine = "2 cores, 1 package\nL2 2 MB per core, L3 32 MB shared".to_owned();
    let policies = [
        ("serial", 60.0),
        ("fcfs", 100.0),
        ("lcfs", 97.3),
        ("ts", 139.7),
        ("random-steal", 118.4),
        ("near-steal", 119.0),
        ("locality-steal", 133.1),
    ];
    for (index, (policy, fps)) in policies.into_iter().enumerate() {
        let timeline = timeline(
            policy,
            workers,
            tasks,
            matches!(policy, "ts" | "locality-steal"),
        );
        let mut origins = OriginCounts::default();
        timeline
            .events
            .iter()
            .for_each(|event| origins.add(event.origin));
        let mut run = RunResult::new("h264", "demo.264", policy, workers);
        run.machine = "Example CPU".to_owned();
        run.groups = "a".to_owned();
        run.tasks_mode = "mb".to_owned();
        run.frames = Some(128);
        run.fps = Some(fps);
        run.ratio_to_fcfs = Some(fps / 100.0);
        run.seconds = Seconds::of(&[128.0 / fps, 127.0 / fps, 129.5 / fps]);
        run.tasks = Some(tasks * 128);
        run.mean_task_ns = Some(1_234.5 + index as f64);
        run.scheduling_ns_per_task = Some(91.25);
        run.utilisation = Some(0.84);
        run.steals = Some(origins.stolen);
        run.origins = Some(origins);
        run.identical = Some(true);
        report.runs.push(run);
        report.timelines.push(timeline);
    }
    report
}

/// Where the browser is, or `None` with a loud word.
pub(crate) fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| {
            ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name))
        })
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        eprintln!(
            "SKIPPED: no chromium; `apt install chromium` makes this test look at the page in a browser"
        );
    }
    found
}

/// The document after its script ran in a headless browser that has no network; the page must not complain.
pub(crate) fn dump_dom(chromium: &Path, page: &Path, arguments: &[&str]) -> String {
    let (document, log) = run_browser(chromium, page, arguments);
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("CONSOLE") && !line.contains("willReadFrequently"))
        .collect();
    assert!(
        complaints.is_empty(),
        "the page complained: {complaints:#?}"
    );
    document
}

/// As [`dump_dom`], of a page that is meant to be refused something.
pub(crate) fn dump_dom_quiet(chromium: &Path, page: &Path, arguments: &[&str]) -> String {
    run_browser(chromium, page, arguments).0
}

fn run_browser(chromium: &Path, page: &Path, arguments: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().expect("a folder for the browser's profile");
    let output = profile.path().join("dom.html");
    let errors = profile.path().join("errors.txt");
    let mut child = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--proxy-server=127.0.0.1:9",
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
        ])
        .arg(format!(
            "--user-data-dir={}",
            profile.path().join("profile").display()
        ))
        .args(arguments)
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stdout(std::fs::File::create(&output).expect("the folder can be written to"))
        .stderr(std::fs::File::create(&errors).expect("the folder can be written to"))
        .stdin(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let deadline = Instant::now() + Duration::from_secs(90);
    while child
        .try_wait()
        .expect("the browser can be waited for")
        .is_none()
    {
        if Instant::now() > deadline {
            child.kill().expect("the browser can be stopped");
            panic!("the browser took longer than 90 s");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = std::fs::read_to_string(&errors).unwrap_or_default();
    let document = std::fs::read_to_string(&output).expect("the browser wrote the document");
    (document, log)
}
