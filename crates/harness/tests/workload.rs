//! The harness with a workload of its own, which is run and not recorded, and which goes wrong as a test asks.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tanada_harness::compare::{self, Candidate, Error, Options};
use tanada_harness::rounds::Pools;
use tanada_harness::run;
use tanada_report::Engine;
use tanada_runtime::Cancel;
use tanada_workloads::options::{Kind, Name, OptionSpec, Purpose, Values};
use tanada_workloads::workload::{
    Description, Done, Output, Prepared, RecordError, RunError, Site, Way, recorder_of,
};
use tanada_workloads::{Workload, values_of};

const WRONG: [Name; 5] = [
    Name::new("nothing"),
    Name::new("input"),
    Name::new("run"),
    Name::new("today"),
    Name::new("tasks"),
];

const OPTIONS: &[OptionSpec] =
    &[OptionSpec::new("wrong", "WHAT", Kind::Named(&WRONG), "What goes wrong").default("nothing")];

/// Counts to 100, by tens.
struct Counting;

struct Ready {
    wrong: &'static str,
    counts: [AtomicU32; 10],
    last: &'static str,
    done: Done,
}

impl Workload for Counting {
    fn description(&self) -> &'static Description {
        &Description {
            name: "counting",
            about: "Counts to 100",
            details: "",
            options: OPTIONS,
            test_options: &[],
        }
    }

    fn prepare(&self, values: &Values, site: &Site) -> Result<Box<dyn Prepared>, RunError> {
        assert_eq!(site.workers, 2);
        match values.name("wrong") {
            "input" => Err(RunError::Input("nothing to count".to_owned())),
            wrong => Ok(Box::new(Ready {
                wrong,
                counts: [const { AtomicU32::new(0) }; 10],
                last: "",
                done: Done::default(),
            })),
        }
    }
}

impl Prepared for Ready {
    fn title(&self) -> String {
        "Counting".to_owned()
    }

    fn input(&self) -> String {
        "to=100".to_owned()
    }

    fn set_up(&mut self, _: Way<'_>, _: &Cancel) -> Result<(), RunError> {
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
        Ok(())
    }

    fn run(
        &mut self,
        way: Way<'_>,
        cancel: &Cancel,
        _: Option<&mut dyn Output>,
    ) -> Result<(), RunError> {
        let (counts, done) = (&self.counts, &self.done);
        let count = |at: usize| {
            counts[at].fetch_add(10, Relaxed);
            done.add();
        };
        self.last = match way {
            Way::Sequential => {
                (0..10).for_each(count);
                "sequential"
            }
            Way::Today(pool) | Way::Tasks(pool) => {
                pool.scope_with_cancel(cancel, |s| {
                    for at in 0..10 {
                        s.task("ten").index(at as u64).register(move |_| count(at));
                    }
                })?;
                match way {
                    Way::Today(_) => "today",
                    _ => "tasks",
                }
            }
        };
        match self.wrong {
            "run" if self.last == "tasks" => Err(RunError::Input("a bad number".to_owned())),
            _ => Ok(()),
        }
    }

    fn result(&mut self, output: &mut dyn Output) {
        for (at, count) in self.counts.iter().enumerate() {
            let more = u32::from(self.wrong == self.last && at == 3);
            output.begin();
            output.write(&(count.load(Relaxed) + more).to_le_bytes());
        }
    }

    fn part(&self) -> &'static str {
        "ten"
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}

fn values(wrong: &str) -> Values {
    let values = values_of(&Counting, Purpose::Run);
    values.with(&[("wrong", wrong)]).expect("a right name")
}

fn compared(wrong: &str) -> Result<compare::Found, Error> {
    let candidates = ["fcfs", "ts"].map(|name| Candidate::registered(name).expect("it is known"));
    let options = Options {
        pools: Pools {
            workers: Some(2),
            ..Pools::default()
        },
        repeat: 2,
        ..Options::default()
    };
    compare::run(&Counting, &values(wrong), &candidates, &options)
}

#[test]
fn a_workload_that_cannot_be_recorded_is_compared_natively() {
    let found = compared("nothing").expect("it runs");
    assert_eq!(found.differences, []);
    let rows: Vec<&str> = found.report.runs.iter().map(|run| &*run.policy).collect();
    assert_eq!(rows, ["sequential", "today", "fcfs", "ts"]);
    for run in &found.report.runs {
        assert_eq!((run.engine, &*run.input), (Engine::Native, "to=100"));
        assert_eq!(run.seconds.expect("it was timed").repeats, 2);
        assert!(run.ratio_to_fcfs.is_some() && run.fps.is_none());
        let tasks = (run.workers == 2 && run.policy != "today").then_some(10);
        assert_eq!(
            (run.tasks, run.identical.is_some()),
            (tasks, run.workers == 2)
        );
    }
    assert_eq!(found.report.timelines.len(), 2);
    assert!(
        found
            .report
            .timelines
            .iter()
            .all(|one| one.events.len() == 10)
    );
    let error = recorder_of(&Counting).err().expect("it has no recorder");
    assert!(matches!(error, RecordError::NotRecordable { .. }));
    let text = error.to_string();
    assert!(text.contains("counting") && text.contains("h264"), "{text}");
}

#[test]
fn a_wrong_result_is_found_and_named() {
    let what = "1 of 10 tens differ from those of the sequential run, ten 3 first";
    for (wrong, rows) in [("today", &["today"][..]), ("tasks", &["fcfs", "ts"])] {
        let found = compared(wrong).expect("it runs");
        let named: Vec<&str> = found.differences.iter().map(|one| &*one.policy).collect();
        assert_eq!(named, rows);
        assert!(
            found.differences.iter().all(|one| one.what == what),
            "{found:?}"
        );
        for run in &found.report.runs[1..] {
            assert_eq!(
                run.identical,
                Some(!rows.contains(&&*run.policy)),
                "{run:?}"
            );
        }
    }
}

#[test]
fn what_fails_is_said() {
    let error = compared("input").expect_err("it cannot be prepared");
    assert!(matches!(error, Error::Prepare(_)), "{error:?}");
    let error = compared("run").expect_err("it does not run").to_string();
    assert_eq!(error, "a bad number");
}

/// Takes some bytes, and no more.
struct Full(usize);

impl Output for Full {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.saturating_sub(bytes.len());
    }

    fn is_broken(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn rounds_end_when_the_output_is_broken() {
    let rounds = |room: usize| {
        let mut prepared = Counting
            .prepare(&values("nothing"), &Site::new(2))
            .expect("it can be prepared");
        let options = run::Options {
            policies: vec!["fcfs".to_owned(), "ts".to_owned()],
            pools: Pools {
                workers: Some(2),
                ..Pools::default()
            },
            rounds: 3,
            events: false,
            forks: false,
        };
        let mut output = Full(room);
        let report = run::run(
            "counting",
            &mut *prepared,
            &options,
            &Cancel::new(),
            Some(&mut output),
        );
        let report = report.expect("it runs");
        let times = report
            .runs
            .iter()
            .map(|run| run.seconds.map(|seconds| seconds.repeats));
        let tasks = report.runs.iter().map(|run| run.tasks);
        (times.collect::<Vec<_>>(), tasks.collect::<Vec<_>>())
    };
    // The result of the first run takes 40 bytes.
    assert_eq!(rounds(41), (vec![Some(3); 2], vec![Some(10); 2]));
    assert_eq!(rounds(40), (vec![Some(1), None], vec![None; 2]));
}
