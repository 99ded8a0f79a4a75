//! Every registered policy under the contended model keeps the scheduling laws, and decides as its own model does.

use crate::common;

use common::{any_extra, any_shape, contended_text, trace};
use proptest::prelude::*;
use std::collections::HashMap;
use tanada_laws::{Event, Log, Promises, check, model, replay};
use tanada_policy::{Origin, Wake, WorkerId, registry};
use tanada_sim::{Machine, Observer, Options, Run, simulate};

/// Writes a log in the order of the calls of the dispatcher. A task's end stands at the decision of the call that it began: its dependency
/// counts fall then.
struct Writer {
    log: Log,
    ended: HashMap<WorkerId, usize>,
}

impl Writer {
    fn decides(&mut self, worker: WorkerId) {
        if let Some(task) = self.ended.remove(&worker) {
            self.log.events.push(Event::End { task, worker });
        }
    }
}

impl Observer for Writer {
    fn ready(&mut self, task: u32, on: WorkerId) {
        self.decides(on);
        self.log.events.push(Event::Ready {
            task: task as usize,
            on,
        });
    }
    fn given(&mut self, worker: WorkerId, task: u32, origin: Origin, _at: u64) {
        self.decides(worker);
        // The policy asked for wake-ups before it answered.
        self.log.events.push(Event::Start {
            task: task as usize,
            worker,
            origin,
        });
    }
    fn idle(&mut self, worker: WorkerId, _at: u64) {
        self.decides(worker);
        self.log.events.push(Event::Idle { worker });
    }
    fn ended(&mut self, run: &Run) {
        self.ended.insert(WorkerId(run.core), run.task as usize);
    }
    fn wake(&mut self, whom: Wake) {
        self.log.events.push(Event::Wake(whom));
    }
}

#[test]
fn every_policy_keeps_the_laws_and_its_own_rule() {
    for entry in registry::all() {
        proptest!(ProptestConfig::with_cases(150), |(
            shape in any_shape(),
            extra in any_extra(),
            cores in 1..6u16,
            seed in any::<u64>(),
        )| {
            let text = contended_text(cores, &shape, &extra);
            let machine = Machine::parse(&text, "m.toml").unwrap();
            let mut writer = Writer {
                log: Log { workers: cores, events: Vec::new() },
                ended: HashMap::new(),
            };
            let options = Options { seed: Some(seed), ..Options::default() };
            let outcome = simulate(&trace(&shape.text()), &machine, entry.name, &options, &mut writer);
            prop_assert!(outcome.is_ok(), "{}: {:?}\n{}", entry.name, outcome.err(), text);
            for worker in (0..cores).map(WorkerId) {
                writer.decides(worker);
            }
            let graph = shape.graph();
            let promises = Promises { greedy: entry.greedy };
            let verdict = check(&graph, &writer.log, promises);
            prop_assert!(verdict.is_ok(), "{}: {:?}\n{:#?}", entry.name, verdict, writer.log);
            let mut model = model(entry.name, &graph, &machine.placement(), seed).expect("every policy has a model");
            let verdict = replay(&graph, &writer.log, model.as_mut());
            prop_assert!(verdict.is_ok(), "{}: {:?}\n{:#?}", entry.name, verdict, writer.log);
        });
    }
}
