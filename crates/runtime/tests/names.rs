//! Names that are made while the program runs: in errors, recordings and hints.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tanada_policy::{Dispatcher, Env, Hints, Origin, Ready, Site, Wake, WorkerId};
use tanada_runtime::{GraphError, Name, Pool, Recorder, TemplateBuilder};

#[test]
fn errors_and_recordings_have_the_names() {
    let recorder = Recorder::all();
    let builder = Pool::builder().workers(2).observer(recorder.clone());
    let pool = builder.build().expect("a pool");
    for user in ["Ada", "Grace"] {
        let name = format!("task of {user}");
        let left = pool.scope(|s| {
            s.task(&name).index(7).count(1).register(|_| ());
            s.task(name.clone()).register(|_| ());
            s.task(Arc::<str>::from("shared")).register(|_| ());
        });
        let GraphError::Unresolved { tasks } = left.expect_err("a task is left") else {
            panic!("another error");
        };
        assert_eq!(tasks.to_string(), format!("task of {user}[7]"));
        let mut builder = TemplateBuilder::<()>::new();
        builder.task(format!("node of {user}"), 3, |(), _| ());
        let template = builder.build().expect("no cycle");
        template
            .instance()
            .run(&pool, &())
            .expect("a run that ends");
    }
    let recorded = recorder.take();
    let names: BTreeSet<&str> = recorded.tasks.iter().map(|task| task.name).collect();
    let wanted = [
        "node of Ada",
        "node of Grace",
        "shared",
        "task of Ada",
        "task of Grace",
    ];
    assert_eq!(names, BTreeSet::from(wanted));
}

/// First come, first served; writes down what identifies the code of each task.
struct Codes(Mutex<Vec<Ready>>);

static CODES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

impl Dispatcher for Codes {
    type Local = ();

    fn build(site: &Site<'_>) -> (Self, Vec<()>) {
        let locals = vec![(); usize::from(site.placement.workers())];
        (Codes(Mutex::default()), locals)
    }

    fn inject<E: Env>(&self, env: &mut E, task: Ready) {
        CODES.lock().expect("no panic").push(env.hints(&task).code);
        self.0.lock().expect("no panic").push(task);
        env.wake(Wake::Anyone);
    }

    fn ready<E: Env>(&self, _local: &mut (), env: &mut E, task: Ready) {
        self.inject(env, task);
    }

    fn next<E: Env>(&self, _local: &mut (), _env: &mut E) -> Option<(Ready, Origin)> {
        Some((self.0.lock().expect("no panic").pop()?, Origin::Pool))
    }

    fn may_have(&self, _worker: WorkerId) -> bool {
        !self.0.lock().expect("no panic").is_empty()
    }
}

#[test]
fn tasks_of_one_name_have_one_code() {
    let pool = Pool::builder()
        .workers(1)
        .build_with::<Codes>("codes")
        .expect("a pool");
    pool.scope(|s| {
        for index in 0..6 {
            s.task(format!("kind {}", index % 2))
                .index(index)
                .register(|_| ());
        }
        s.task(String::from("kind 0"))
            .hints(Hints::default().with_code(5))
            .register(|_| ());
    })
    .expect("a graph that ends");
    let codes = CODES.lock().expect("no panic");
    let [a, b] = [codes[0], codes[1]];
    assert!(a != b && a != 0 && b != 0);
    assert_eq!(*codes, [a, b, a, b, a, b, 5]);
    let name = Name::intern("kind 0").as_str();
    assert!(std::ptr::eq(
        name,
        Name::from(String::from("kind 0")).as_str()
    ));
}

#[test]
fn names_are_interned_by_threads_at_once() {
    let texts: Vec<String> = (0..200).map(|number| format!("text {number}")).collect();
    let intern = || {
        texts
            .iter()
            .map(|text| Name::intern(text).as_str().as_ptr().addr())
    };
    let addresses: Vec<Vec<usize>> = std::thread::scope(|threads| {
        let threads: Vec<_> = (0..4)
            .map(|_| threads.spawn(|| intern().collect()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(addresses.iter().all(|one| *one == addresses[0]));
    assert_eq!(
        addresses[0].iter().collect::<BTreeSet<_>>().len(),
        texts.len()
    );
}
