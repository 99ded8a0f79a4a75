//! The schema: every report survives a round trip, and every damaged one is refused with a clear message.

#[cfg(feature = "render")]
mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use tanada_report::{
    Accesses, CacheUse, Engine, Event, Limits, NameUse, Origin, OriginCounts, Report, Reuse,
    RunResult, Seconds, Stalls, Timeline, Unit, from_json, to_json, to_perfetto, validate,
};

const WORKERS: u16 = 5;

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Handed),
        Just(Origin::Own),
        Just(Origin::Pool),
        Just(Origin::Mailbox),
        (0..WORKERS).prop_map(Origin::Stolen),
    ]
}

prop_compose! {
    // Up to 2^49 ns (six days): a Chrome trace has microseconds as floats, which are exact to 15 digits.
    fn event()(
        worker in 0..WORKERS, task: u64, name in 0_u32..3, t: u32, s: u32,
        start in 0_u64..1 << 49, length in 0_u64..1 << 40, origin in origin(),
    ) -> Event {
        Event { worker, task, name, t, s, start, end: start + length, origin }
    }
}

prop_compose! {
    fn timeline()(
        label: String, policy in "[a-z-]{1,12}", cycles: bool, picture in proptest::option::of(any::<u64>()),
        names in proptest::collection::vec(any::<String>(), 3), events in proptest::collection::vec(event(), 0..50),
    ) -> Timeline {
        Timeline {
            label, policy, picture, names,
            engine: if cycles { Engine::Simulated } else { Engine::Native },
            unit: if cycles { Unit::Cycles } else { Unit::Ns },
            workers: WORKERS,
            events: events.into_iter().collect(),
        }
    }
}

fn positive() -> impl Strategy<Value = f64> {
    (proptest::num::f64::POSITIVE | proptest::num::f64::ZERO).prop_map(f64::abs)
}

prop_compose! {
    fn run()(
        policy in "[a-z-]{1,12}", input: String, groups: String, tasks_mode: String, machine: String,
        times in proptest::collection::vec(positive(), 0..5), fps in proptest::option::of(positive()),
        tasks: Option<u64>, cycles: Option<u64>, identical: Option<bool>, counts: [u32; 5],
        extra in proptest::collection::btree_map(".*", any::<i64>(), 0..4), bound in proptest::option::of(positive()),
    ) -> RunResult {
        let [handed, own, pool, mailbox, stolen] = counts.map(u64::from);
        RunResult {
            machine, groups, tasks_mode, fps, tasks, cycles, identical, bound,
            seconds: Seconds::of(&times).filter(|seconds| seconds.median.is_finite()),
            steals: Some(stolen),
            origins: Some(OriginCounts { handed, own, pool, mailbox, stolen }),
            extra: extra.into_iter().map(|(key, value)| (key, Value::from(value))).collect(),
            ..RunResult::new("h264", &input, &policy, WORKERS)
        }
    }
}

proptest! {
    #[test]
    fn every_report_survives_the_round_trip(
        title: String,
        runs in proptest::collection::vec(run(), 0..4),
        timelines in proptest::collection::vec(timeline(), 0..4),
    ) {
        let report = Report { runs, timelines, ..Report::new(&title) };
        let text = to_json(&report).unwrap();
        prop_assert_eq!(from_json(&text).unwrap(), report);
    }

    #[test]
    fn damaged_text_is_an_error_and_no_panic(position in 0_usize..2000, byte: u8) {
        let mut text = to_json(&sample()).unwrap().into_bytes();
        let position = position % text.len();
        text[position] = byte;
        let _ = from_json(&String::from_utf8_lossy(&text));
    }

    #[test]
    fn perfetto_has_one_complete_event_a_task_in_order(
        timelines in proptest::collection::vec(timeline(), 1..4),
    ) {
        let report = Report { timelines, ..Report::new("t") };
        check_perfetto(&report);
    }
}

fn check_perfetto(report: &Report) {
    let trace: Value = serde_json::from_str(&to_perfetto(report)).expect("the trace is JSON");
    let all = trace["traceEvents"].as_array().expect("a list of events");
    for (pid, timeline) in report.timelines.iter().enumerate() {
        let of_phase = |phase: &'static str| {
            all.iter()
                .filter(move |event| event["pid"] == pid && event["ph"] == phase)
        };
        let lanes = of_phase("M")
            .filter(|event| event["name"] == "thread_name")
            .count();
        assert_eq!(lanes, usize::from(timeline.workers));
        let tasks: Vec<&Value> = of_phase("X").collect();
        assert_eq!(tasks.len(), timeline.events.len());
        // Complete events have both ends, so each start is paired by construction; their content must be true.
        let factor = if timeline.unit == Unit::Ns { 1e3 } else { 1.0 };
        let read = |task: &Value, key: &str| {
            (task[key].as_f64().expect("a number") * factor).round() as u64
        };
        assert!(
            tasks
                .windows(2)
                .all(|pair| read(pair[0], "ts") <= read(pair[1], "ts")),
            "not in order of start"
        );
        let key = |worker: u64, start, task: u64, t: u64, s: u64, origin: &str| {
            (worker, start, task, t, s, origin.to_owned())
        };
        let number = |value: &Value| value.as_u64().expect("a whole number");
        let mut written: Vec<_> = tasks
            .iter()
            .map(|task| {
                let arguments = &task["args"];
                let origin = arguments["origin"].as_str().expect("a word");
                assert_eq!(arguments.get("victim").is_some(), origin == "stolen");
                let (t, s) = (number(&arguments["T"]), number(&arguments["S"]));
                key(
                    number(&task["tid"]),
                    read(task, "ts"),
                    number(&arguments["task"]),
                    t,
                    s,
                    origin,
                )
            })
            .collect();
        let mut meant: Vec<_> = timeline
            .events
            .iter()
            .map(|e| {
                key(
                    e.worker.into(),
                    e.start,
                    e.task,
                    e.t.into(),
                    e.s.into(),
                    e.origin.kind(),
                )
            })
            .collect();
        written.sort();
        meant.sort();
        assert_eq!(written, meant);
    }
}

fn sample() -> Report {
    let mut report = Report::new("sample");
    let mut run = RunResult::new("h264", "demo.264", "ts", 2);
    run.fps = Some(123.456);
    report.runs.push(run);
    let mut timeline = Timeline::new("ts, picture 3", "ts", Unit::Ns, 2);
    let name = timeline.intern("luma residual");
    for task in 0..4 {
        let start = task * 100;
        let origin = if task == 3 {
            Origin::Stolen(1)
        } else {
            Origin::Pool
        };
        timeline.events.push(Event {
            worker: 0,
            task,
            name,
            t: 1,
            s: 2,
            start,
            end: start + 90,
            origin,
        });
    }
    report.timelines.push(timeline);
    report
}

/// Returns a simulated run with all its parts on two cores of 100 cycles.
fn with_parts() -> RunResult {
    let name = |name: &str, misses| NameUse {
        name: name.to_owned(),
        accesses: 10,
        misses,
    };
    let core = Stalls {
        compute: 40,
        l1i: 5,
        l1d: 6,
        l2: 7,
        deeper: 8,
        memory_queue: 9,
        scheduling: 10,
        idle: 15,
    };
    RunResult {
        engine: Engine::Simulated,
        cycles: Some(100),
        bound: Some(60.0),
        limits: Some(Limits {
            work: 60.0,
            critical_path: 50.0,
            channels: None,
        }),
        stalls: vec![core; 2],
        caches: vec![CacheUse {
            cache: "l1d".to_owned(),
            bytes: Some(8192),
            accesses: 20,
            misses: 5,
            unavoidable: Some(2),
            by_name: vec![name("front", 2), name("rear", 3)],
        }],
        writebacks: Some(3),
        reuse: vec![Reuse {
            accesses: Accesses::Data,
            line: 64,
            touches: 10,
            first: 2,
            buckets: vec![5, 3],
            sampled: 0.5,
        }],
        ..RunResult::new("h264", "demo.264", "ts", 2)
    }
}

#[test]
fn the_parts_of_a_simulated_run_survive_the_round_trip() {
    let mut report = sample();
    report.runs.push(with_parts());
    let text = to_json(&report).unwrap();
    assert_eq!(from_json(&text).unwrap(), report);
    // An older report has none of the keys, and a report without the parts writes none of them.
    let old = to_json(&sample()).unwrap();
    for key in ["stalls", "limits", "caches", "reuse", "writebacks"] {
        assert!(!old.contains(key), "{key}");
    }
    assert_eq!(from_json(&old).unwrap(), sample());
}

#[test]
fn parts_that_do_not_make_their_whole_are_refused() {
    let refused = |change: fn(&mut RunResult)| {
        let mut report = sample();
        report.runs = vec![with_parts()];
        change(&mut report.runs[0]);
        validate(&report).expect_err("it was accepted").to_string()
    };
    let cases = [
        ("of 1 workers", refused(|run| run.stalls.truncate(1))),
        (
            "of worker 1 make 101",
            refused(|run| run.stalls[1].idle += 1),
        ),
        (
            "too large a sum",
            refused(|run| run.stalls[0].compute = u64::MAX),
        ),
        (
            "5 misses and 6 unavoidable",
            refused(|run| run.caches[0].unavoidable = Some(6)),
        ),
        ("21 misses", refused(|run| run.caches[0].misses = 21)),
        (
            "do not sum",
            refused(|run| run.caches[0].by_name[1].misses = 2),
        ),
        (
            "do not sum",
            refused(|run| run.caches[0].by_name[0].accesses = u64::MAX),
        ),
        ("its 10 touches", refused(|run| run.reuse[0].first = 3)),
        ("lines of 48", refused(|run| run.reuse[0].line = 48)),
        ("sampled at 0", refused(|run| run.reuse[0].sampled = 0.0)),
        (
            "above `bound`",
            refused(|run| {
                run.limits = Some(Limits {
                    work: 70.0,
                    critical_path: 1.0,
                    channels: None,
                })
            }),
        ),
        (
            "not a number",
            refused(|run| {
                run.limits = Some(Limits {
                    work: f64::NAN,
                    critical_path: 1.0,
                    channels: None,
                })
            }),
        ),
    ];
    for (expected, message) in cases {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

fn refused(change: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(&to_json(&sample()).unwrap()).unwrap();
    change(&mut value);
    from_json(&value.to_string())
        .expect_err("a damaged report was read")
        .to_string()
}

#[test]
fn another_version_is_a_clear_error_even_with_unknown_keys() {
    let message = refused(|report| {
        report["schema"] = json!("tanada-report 2");
        report["new key"] = json!(1);
    });
    assert!(
        message.contains("tanada-report 2") && message.contains("tanada-report 1"),
        "{message}"
    );
}

#[test]
fn what_is_no_report_is_a_clear_error() {
    assert!(
        from_json("{}")
            .unwrap_err()
            .to_string()
            .contains("no key `schema`")
    );
    assert!(
        from_json("fps,policy\n1,ts")
            .unwrap_err()
            .to_string()
            .contains("not a report")
    );
    assert!(from_json("").is_err());
    let text = to_json(&sample()).unwrap();
    assert!(from_json(&text[..text.len() / 2]).is_err());
}

#[test]
fn contradictions_are_refused_with_their_place() {
    let events = |report: &mut Value, column: &str, value: Value| {
        report["timelines"][0]["events"][column] = value
    };
    let cases: [(&str, String); 9] = [
        (
            "worker 7 of 2",
            refused(|r| events(r, "worker", json!([0, 7, 0, 0]))),
        ),
        (
            "column `task` has 3",
            refused(|r| events(r, "task", json!([0, 1, 2]))),
        ),
        (
            "starts at 500 and ends at 190",
            refused(|r| events(r, "start", json!([0, 500, 200, 300]))),
        ),
        (
            "name 9 of 1",
            refused(|r| events(r, "name", json!([0, 0, 0, 9]))),
        ),
        (
            "stolen from worker 5",
            refused(|r| events(r, "origin", json!([0, 0, 9, 0]))),
        ),
        (
            "origin 70000",
            refused(|r| events(r, "origin", json!([0, 0, 70000, 0]))),
        ),
        (
            "later than 2^53",
            refused(|r| events(r, "end", json!([90, 190, 290, u64::MAX]))),
        ),
        (
            "`workers` is 0",
            refused(|r| r["runs"][0]["workers"] = json!(0)),
        ),
        (
            "unknown field `fsp`",
            refused(|r| r["runs"][0]["fsp"] = json!(3)),
        ),
    ];
    for (expected, message) in cases {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[cfg(feature = "render")]
#[test]
fn runs_of_threads_come_back_and_contradictions_are_refused() {
    let report = support::threads();
    let text = to_json(&report).unwrap();
    assert_eq!(from_json(&text).unwrap(), report);
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        change(&mut value["runs"][1]["threads"]);
        let error = from_json(&value.to_string()).expect_err("a damaged report was read");
        error.to_string()
    };
    type Change<'a> = &'a dyn Fn(&mut Value);
    let cases: [(&str, Change<'_>); 7] = [
        ("hardware thread 2 do not sum to the makespan", &|run| {
            run["hardware"][2]["cycles"][0] = json!(1)
        }),
        ("do not sum to `instructions`", &|run| {
            run["instructions"] = json!(1)
        }),
        ("3 hardware threads, `workers` is 4", &|run| {
            run["hardware"].as_array_mut().map(Vec::pop);
        }),
        ("barrier 5 do not sum", &|run| {
            run["waits"][0]["cycles"] = json!(8999)
        }),
        ("`series` do not sum to the run's", &|run| {
            run["series"]["instructions"][3] = json!(0)
        }),
        ("misses of `l1d` in `series` do not sum", &|run| {
            run["series"]["misses"][0]["misses"][3] = json!(0)
        }),
        ("40 intervals of instructions and another number", &|run| {
            run["series"]["width"].as_array_mut().map(Vec::pop);
        }),
    ];
    for (expected, change) in cases {
        let message = refused(change);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn what_json_cannot_hold_is_not_written() {
    let mut report = sample();
    report.runs[0].fps = Some(f64::NAN);
    assert!(
        to_json(&report)
            .unwrap_err()
            .to_string()
            .contains("`fps` is NaN")
    );
    report.runs[0].fps = Some(f64::INFINITY);
    assert!(to_json(&report).is_err());
}

#[test]
fn a_hundred_thousand_events_stay_small() {
    let mut report = sample();
    for task in 4..100_000 {
        let event = Event {
            task,
            start: task * 100,
            end: task * 100 + 90,
            ..report.timelines[0].events.get(0).unwrap()
        };
        report.timelines[0].events.push(event);
    }
    let bytes = to_json(&report).unwrap().len();
    assert!(bytes < 4_000_000, "{bytes} bytes");
}

#[test]
fn median_and_minimum() {
    let seconds = Seconds::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
    assert_eq!(
        (seconds.min, seconds.median, seconds.repeats),
        (1.0, 2.5, 4)
    );
    assert_eq!(Seconds::of(&[]), None);
}
