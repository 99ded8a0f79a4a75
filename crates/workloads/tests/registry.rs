//! What every registered workload keeps: options that make sense, and the same result in every way and under every
//! policy.

use md5::{Digest as _, Md5};
use std::ops::ControlFlow;
use tanada_policy::registry;
use tanada_runtime::{Cancel, Pool, Recorder};
use tanada_trace::{BinaryWriter, Groups, Trace};
use tanada_workloads::options::Kind;
use tanada_workloads::workload::{Output, Prepared, Way};
use tanada_workloads::{Purpose, Site, Values, Workload, all, find, values_of};

const PURPOSES: [Purpose; 2] = [Purpose::Run, Purpose::Record];

/// The values of the test options that exist for `purpose`.
fn small(workload: &dyn Workload, purpose: Purpose) -> Values {
    let mut values = values_of(workload, purpose);
    for (flag, text) in workload.description().test_options {
        if values.has(flag) {
            values.set(flag, text).expect("test options are right");
        }
    }
    values
}

/// The parts of a result, each as its MD5.
#[derive(Default)]
struct Parts(Vec<Md5>);

impl Output for Parts {
    fn begin(&mut self) {
        self.0.push(Md5::new());
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.0.is_empty() {
            self.begin();
        }
        self.0.last_mut().expect("a part was begun").update(bytes);
    }
}

fn result(prepared: &mut dyn Prepared, way: Way<'_>) -> (Vec<Vec<u8>>, String) {
    let cancel = Cancel::new();
    prepared.set_up(way, &cancel).expect("it can be set up");
    let mut parts = Parts::default();
    prepared
        .run(way, &cancel, Some(&mut parts))
        .expect("it runs to its end");
    prepared.result(&mut parts);
    let sums = parts.0.into_iter().map(|part| part.finalize().to_vec());
    (sums.collect(), prepared.found())
}

#[test]
fn names_and_options_make_sense() {
    for workload in all() {
        let name = workload.name();
        assert!(
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()),
            "{name}"
        );
        assert_eq!(find(name).expect("it is registered").name(), name);
        assert!(
            !workload.description().about.is_empty()
                && !workload.description().about.ends_with('.'),
            "{name}"
        );
        for purpose in PURPOSES {
            // Reads all defaults.
            let values = Values::new(workload.options(), purpose);
            assert_eq!(values.purpose(), purpose);
        }
        let mut flags: Vec<&str> = Vec::new();
        for spec in workload.options() {
            let all = spec.aliases.iter().copied().chain([spec.flag]);
            for flag in all {
                assert!(!flags.contains(&flag), "{name}: --{flag} is there twice");
                flags.push(flag);
            }
            assert!(
                !spec.help.is_empty() && !spec.help.ends_with('.'),
                "{name}: --{}",
                spec.flag
            );
            assert_eq!(
                spec.placeholder.is_empty(),
                spec.kind == Kind::Switch,
                "{name}: --{}",
                spec.flag
            );
        }
    }
    let error = find("nothing").expect_err("there is none").to_string();
    assert!(
        all().iter().all(|workload| error.contains(workload.name())),
        "{error}"
    );
}

#[test]
fn every_way_and_policy_has_the_same_result() {
    for workload in all() {
        let name = workload.name();
        let values = small(*workload, Purpose::Run);
        let site = Site::new(3);
        let mut prepared = workload
            .prepare(&values, &site)
            .expect("it can be prepared");
        let wanted = result(&mut *prepared, Way::Sequential);
        assert!(!wanted.0.is_empty(), "{name} has no result");
        assert_eq!(prepared.flaws(), None, "{name}");
        for entry in registry::native() {
            let pool = Pool::builder().workers(3).policy(entry.name);
            let pool = pool.build().expect("a pool");
            let tasks = result(&mut *prepared, Way::Tasks(&pool));
            assert!(tasks == wanted, "{name} as tasks under {}", entry.name);
        }
        for workers in [1, 3] {
            let pool = Pool::builder().workers(workers).build().expect("a pool");
            let today = result(&mut *prepared, Way::Today(&pool));
            assert!(today == wanted, "{name} as loops on {workers} workers");
        }
    }
}

#[test]
fn steps_are_counted_and_a_cancelled_run_says_so() {
    for workload in all() {
        let name = workload.name();
        let values = small(*workload, Purpose::Run);
        let mut prepared = workload
            .prepare(&values, &Site::new(2))
            .expect("it can be prepared");
        let pool = Pool::builder().workers(2).build().expect("a pool");
        let done = prepared.done();
        for way in [Way::Sequential, Way::Tasks(&pool)] {
            let before = done.steps();
            result(&mut *prepared, way);
            let steps = done.steps() - before;
            assert!(
                steps > 0 && prepared.steps().is_none_or(|known| known == steps),
                "{name}: {steps}"
            );
        }
        let cancel = Cancel::new();
        for way in [Way::Sequential, Way::Tasks(&pool), Way::Today(&pool)] {
            prepared
                .set_up(way, &Cancel::new())
                .expect("it can be set up");
            cancel.cancel();
            let stopped = prepared.run(way, &cancel, None);
            assert!(
                stopped.is_err_and(|error| error.is_cancelled()),
                "{name}: {way:?}"
            );
        }
    }
}

#[test]
fn a_recording_has_the_tasks_of_a_run_and_is_the_same_again() {
    for workload in all() {
        let Some(recorder) = workload.recorder() else {
            continue;
        };
        let name = workload.name();
        let values = small(*workload, Purpose::Run).small_recording(workload.options());
        let site = Site::new(2);
        let record = || {
            let mut writer = BinaryWriter::new(Vec::new()).expect("memory can be written to");
            let seen = &mut |_| ControlFlow::Continue(());
            let recording = recorder.record(&values, &site, &mut writer, seen);
            let recording = recording.expect("it can be recorded");
            (
                recording,
                writer.finish().expect("memory can be written to"),
            )
        };
        let (recording, bytes) = record();
        assert!(record().1 == bytes, "{name}: two recordings differ");
        let trace = Trace::parse(&bytes, name, &Groups::Plain).expect("it can be read");
        assert_eq!(trace.len() as u64, recording.recorded.total.tasks, "{name}");
        assert!(
            !recording.extent.is_empty() && !recording.costs.is_empty(),
            "{name}"
        );
        for grouping in trace.groupings() {
            assert!(Trace::parse(&bytes, name, &Groups::Named(grouping.clone())).is_ok());
        }
        // All tasks that do the work are recorded; those that parse or show need not be.
        let recorder = Recorder::sums();
        let pool = Pool::builder().workers(2).observer(recorder.clone());
        let pool = pool.build().expect("a pool");
        let values = small(*workload, Purpose::Run);
        let mut prepared = workload
            .prepare(&values, &site)
            .expect("it can be prepared");
        prepared
            .set_up(Way::Tasks(&pool), &Cancel::new())
            .expect("it can be set up");
        recorder.take();
        prepared
            .run(Way::Tasks(&pool), &Cancel::new(), None)
            .expect("it runs");
        let tasks = recorder.take().totals.tasks;
        let recorded = recording.recorded.total.tasks;
        if workload.forks() {
            // Pieces are no tasks. A run counts leaves.
            let iterations = values.count("iterations");
            let leaves = ("leaves", prepared.done().steps() / iterations);
            assert!(
                recording.counts.contains(&leaves),
                "{name}: {leaves:?} an iteration, recorded {:?}",
                recording.counts
            );
        } else {
            assert!(
                recorded <= tasks && recorded * 2 > tasks,
                "{name}: {recorded} of {tasks} tasks are recorded"
            );
        }
        let stopped = workload.recorder().expect("as above").record(
            &small(*workload, Purpose::Record),
            &site,
            &mut BinaryWriter::new(Vec::new()).expect("memory can be written to"),
            &mut |_| ControlFlow::Break(()),
        );
        assert!(stopped.is_err(), "{name} does not stop");
    }
}
