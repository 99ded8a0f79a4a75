//! A report for tests: a small list scheduler runs a synthetic picture under rules that differ as dispatchers do.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tanada_report::{
    Accesses, CacheUse, Engine, Event, HardwareUse, LevelMisses, Limits, NameUse, ObjectWaits,
    Origin, OriginCounts, PlanChange, Report, Reuse, RunResult, Seconds, Series, StackUse, Stalls,
    ThreadRun, ThreadWaits, Timeline, Unit,
};

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

/// Returns a timeline of `tasks` tasks of eight stages with row pairs as T groups. A worker that changes the stage takes longer.
pub(crate) fn timeline(policy: &str, workers: u16, tasks: u64, keeps_stage: bool) -> Timeline {
    let mut timeline = Timeline::new(&format!("{policy}, picture 7"), policy, Unit::Ns, workers);
    timeline.picture = Some(7);
    let names = STAGES.map(|name| timeline.intern(name));
    let mut clock = vec![1_000_u64; usize::from(workers)];
    let mut last = vec![u64::MAX; usize::from(workers)];
    let per_stage = tasks.div_ceil(8);
    for task in 0..tasks {
        // Stage by stage in long runs, or each stage in turn.
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

/// Returns a report of seven policies with a run and a timeline each.
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

/// Returns [`report`] with a simulated half: three policies on four cores, with everything that a simulator counts.
pub(crate) fn both_engines(workers: u16, tasks: u64) -> Report {
    let mut report = report(workers, tasks);
    report
        .runs
        .retain(|run| ["fcfs", "ts", "lcfs"].contains(&run.policy.as_str()));
    report
        .timelines
        .retain(|timeline| ["fcfs", "ts", "lcfs"].contains(&timeline.policy.as_str()));
    let mut baseline = None;
    for policy in ["fcfs", "lcfs", "ts"] {
        let (run, timeline) = simulated(policy, 4, tasks);
        let cycles = run.cycles.expect("a simulated run has cycles") as f64;
        let ratio = *baseline.get_or_insert(cycles) / cycles;
        report.runs.push(RunResult {
            ratio_to_fcfs: Some(ratio),
            ..run
        });
        report.timelines.push(timeline);
    }
    report
}

/// Returns a run of a synthetic simulation whose parts sum as those of a real one.
fn simulated(policy: &str, cores: u16, tasks: u64) -> (RunResult, Timeline) {
    let mut timeline = timeline(policy, cores, tasks, policy == "ts");
    timeline.engine = Engine::Simulated;
    timeline.unit = Unit::Cycles;
    timeline.label = format!("{policy} on toshiba-8");
    let makespan = timeline.span().map_or(0, |(_, end)| end);
    let mut stalls = vec![Stalls::default(); usize::from(cores)];
    let mut work = 0;
    for event in timeline.events.iter() {
        let (core, busy) = (
            &mut stalls[usize::from(event.worker)],
            event.end - event.start,
        );
        work += busy;
        core.l1i += busy / 9;
        core.l1d += busy / 12;
        core.l2 += busy / 7;
        core.memory_queue += busy / 11;
        core.compute += busy - busy / 9 - busy / 12 - busy / 7 - busy / 11;
        core.scheduling += 90;
    }
    for core in &mut stalls {
        core.idle = makespan - core.total().expect("small numbers");
    }
    let mut run = RunResult::new("h264", "demo.264, pictures 56 to 63", policy, cores);
    run.engine = Engine::Simulated;
    run.machine = "toshiba-8".to_owned();
    run.cycles = Some(makespan);
    run.tasks = Some(tasks);
    run.utilisation = Some(work as f64 / (makespan * u64::from(cores)) as f64);
    let limits = Limits {
        work: 0.8 * work as f64 / f64::from(cores),
        critical_path: 0.3 * makespan as f64,
        channels: Some(0.2 * makespan as f64),
    };
    run.bound = Some(limits.work);
    run.bound_ratio = Some(makespan as f64 / limits.work);
    run.limits = Some(limits);
    run.stalls = stalls;
    let worse = if policy == "ts" { 1 } else { 2 };
    run.caches = [
        ("l1i", 8 << 10, 40),
        ("l1d", 8 << 10, 60),
        ("l2", 128 << 10, 9),
    ]
    .map(|(cache, bytes, misses)| cache_use(cache, bytes, misses * worse * tasks / 8))
    .into();
    run.writebacks = Some(tasks * worse);
    run.reuse = [Accesses::Instruction, Accesses::Data]
        .map(|accesses| reuse(accesses, tasks, policy == "ts"))
        .into();
    (run, timeline)
}

fn cache_use(cache: &str, bytes: u64, misses: u64) -> CacheUse {
    let by_name: Vec<NameUse> = STAGES
        .iter()
        .zip(1_u64..)
        .map(|(name, part)| NameUse {
            name: (*name).to_owned(),
            accesses: misses * 20,
            misses: misses * part / 4,
        })
        .collect();
    CacheUse {
        cache: cache.to_owned(),
        bytes: Some(bytes),
        accesses: by_name.iter().map(|part| part.accesses).sum(),
        misses: by_name.iter().map(|part| part.misses).sum(),
        unavoidable: Some(misses),
        by_name,
    }
}

fn reuse(accesses: Accesses, tasks: u64, near: bool) -> Reuse {
    let shift = if near { 0.0 } else { 1.5 };
    let buckets: Vec<u64> = (0..16_u32)
        .map(|bucket| {
            let hill = |at: f64| (-(f64::from(bucket) - at).powi(2) / 3.0).exp();
            (tasks as f64
                * (60.0 * (-f64::from(bucket)).exp2() + hill(4.0) + 0.2 * hill(9.0 + shift)))
                as u64
        })
        .collect();
    let first = tasks / 3;
    Reuse {
        accesses,
        line: 64,
        touches: buckets.iter().sum::<u64>() + first,
        first,
        buckets,
        sampled: 1.0,
    }
}

/// Returns a report of logical threads on four hardware threads under two governors, of which the second one parks two of them for a while.
pub(crate) fn threads() -> Report {
    let mut report = Report::new("lu.tnb on tuat");
    report.runs = vec![governed("fifo", 64_000), governed("rs-ss", 40_000)];
    report
}

fn governed(governor: &str, cycles: u64) -> RunResult {
    let mut run = RunResult::new("trace", "lu.tnb", governor, 4);
    run.engine = Engine::Simulated;
    run.machine = "tuat".to_owned();
    run.cycles = Some(cycles);
    run.caches = vec![CacheUse {
        cache: "l1d".to_owned(),
        bytes: Some(4096),
        accesses: 8000,
        misses: 320,
        ..CacheUse::default()
    }];
    // Intervals of both runs have one axis only if the finer ones are joined.
    let interval = if governor == "fifo" { 2000 } else { 1000 };
    let intervals = cycles.div_ceil(interval);
    let each = |sum: u64| vec![sum / intervals; intervals as usize];
    let mut instructions = each(32_000);
    instructions[0] += 32_000 - instructions.iter().sum::<u64>();
    let narrow = |number: u64| governor != "fifo" && (10..30).contains(&number);
    let width = (0..intervals).map(|number| if narrow(number) { 2.0 } else { 4.0 });
    let stacks = (0..12_u64).map(|thread| {
        let number = 0..intervals;
        let accesses = number.map(|number| (number + thread) % 12 * (thread + 1));
        StackUse {
            thread: thread as u32,
            accesses: accesses.collect(),
        }
    });
    let decision = |cycle, width, order: &str, why: &str| PlanChange {
        cycle,
        width,
        order: order.to_owned(),
        why: why.to_owned(),
    };
    let decisions = match governor {
        "fifo" => Vec::new(),
        _ => vec![
            decision(10_000, 2, "by-number", "degraded: miss rate 0.0400"),
            decision(30_000, 4, "fifo", "few threads wait: waiting 1"),
        ],
    };
    let waiting = |thread, cycles| ThreadWaits {
        thread,
        waits: 2,
        cycles,
        longest: cycles - 1,
    };
    run.threads = Some(ThreadRun {
        instructions: 32_000,
        ratio_to_fifo: Some(64_000.0 / cycles as f64),
        causes: ["instructions", "l1d misses", "parked", "idle"]
            .map(str::to_owned)
            .into(),
        hardware: (0..4)
            .map(|number| HardwareUse {
                core: 0,
                instructions: 8000,
                cycles: vec![8000, 3200 + number, 1000, cycles - 12_200 - number],
            })
            .collect(),
        series: Some(Series {
            interval,
            instructions,
            misses: vec![LevelMisses {
                cache: "l1d".to_owned(),
                misses: each(320),
            }],
            width: width.collect(),
            stacks: stacks.collect(),
        }),
        decisions,
        decisions_left: 3,
        waits: vec![ObjectWaits {
            kind: "barrier".to_owned(),
            object: 5,
            waits: 4,
            cycles: 9000,
            longest: 5999,
            threads: vec![waiting(3, 3000), waiting(8, 6000)],
        }],
        waits_left: 0,
    });
    run
}

/// The browser's file. If there is none, the skip is recorded.
pub(crate) fn chromium() -> Option<PathBuf> {
    tanada_testing::program(
        &["chromium", "chromium-browser", "google-chrome"],
        "chromium",
        "looking at the page in a browser",
    )
}

/// Returns the document after its script ran in a headless browser without network. Fails if the page reports an error.
pub(crate) fn dump_dom(chromium: &Path, page: &Path, arguments: &[&str]) -> String {
    let all = [arguments, &["--virtual-time-budget=20000"]].concat();
    let (document, log) = run_browser(chromium, page, &all);
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
        .args(["--proxy-server=127.0.0.1:9", "--enable-logging=stderr"])
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

/// Returns the values of an attribute, in order.
pub(crate) fn attribute(document: &str, name: &str) -> Vec<String> {
    let key = format!("{name}=\"");
    document
        .match_indices(&key)
        .map(|(position, _)| {
            let value = &document[position + key.len()..];
            value[..value.find('"').expect("attributes end")].to_owned()
        })
        .collect()
}

/// Returns the page's body after its script ran.
pub(crate) fn in_browser(report: &Report, arguments: &[&str]) -> Option<String> {
    let chromium = chromium()?;
    let folder = tempfile::tempdir().expect("a folder for the page");
    let page = folder.path().join("report.html");
    std::fs::write(&page, tanada_report::to_html(report).unwrap())
        .expect("the page can be written");
    let document = dump_dom(&chromium, &page, arguments);
    assert_eq!(
        attribute(&document[..2000.min(document.len())], "data-ready"),
        ["yes"],
        "the script did not finish"
    );
    // The page itself, not a quotation in its scripts.
    let body = document.find("<main>").expect("the page has a body");
    let end = document.find("</main>").expect("the body ends");
    Some(document[body..end].to_owned())
}

/// How [`ask`] opens a page.
#[derive(Clone, Copy, Default)]
pub(crate) struct Visit<'a> {
    /// Further arguments of the browser.
    pub(crate) arguments: &'a [&'a str],
    /// Whether time is real and the script runs at once. Otherwise time is virtual and the script runs a second after the page was opened.
    pub(crate) at_once: bool,
    /// Width in pixels of a frame that holds the page, because windows cannot be as narrow as a phone.
    pub(crate) frame: Option<u32>,
}

/// Runs `script` in the page as a reader would use it, and returns the object `found` that the script fills.
pub(crate) fn ask(report: &Report, script: &str, visit: Visit<'_>) -> Option<Value> {
    let chromium = chromium()?;
    let (begin, end) = match visit.at_once {
        true => ("(() => {", "})();"),
        false => ("setTimeout(async () => {", "}, 1000);"),
    };
    let script = format!(
        "<script>{begin} const found = {{}};
        {script}
        const text = 'FOUND' + JSON.stringify(found) + 'DNUOF';
        if (parent === window) document.querySelector('main').append(text); else parent.postMessage(text, '*'); {end}</script>"
    );
    let folder = tempfile::tempdir().expect("a folder for the page");
    let mut page = folder.path().join("report.html");
    let html = tanada_report::to_html(report).expect("the report is sound") + &script;
    std::fs::write(&page, html).expect("the page can be written");
    if let Some(width) = visit.frame {
        page = folder.path().join("frame.html");
        let frame = format!(
            "<body><script>addEventListener('message', (e) => document.body.append(e.data));</script>\
             <iframe src=\"report.html\" style=\"width:{width}px;height:12000px;border:0\"></iframe></body>"
        );
        std::fs::write(&page, frame).expect("the frame can be written");
    }
    let mut all = visit.arguments.to_vec();
    if !visit.at_once {
        all.push("--virtual-time-budget=20000");
    }
    let (document, log) = run_browser(&chromium, &page, &all);
    let start = document.rfind("FOUND{");
    let start = start.unwrap_or_else(|| panic!("the reader's script did not finish:\n{log}")) + 5;
    let text = &document[start..start + document[start..].find("DNUOF").expect("and wrote all")];
    let text = text
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    Some(serde_json::from_str(&text).expect("what it wrote is JSON"))
}
