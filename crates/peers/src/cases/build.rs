//! What it costs to make a graph: the wavefront with empty bodies.
//!
//! `graph=template`: built once, to be run often; `ns_per_build` is the time from nothing to a graph that could be run, `ns_per_rerun` the
//! time of a whole further run, both a node. `graph=dynamic`: tasks are registered one by one while others run; `ns_per_build` is the time
//! from the first registration to the end of the last task, since with some peers a registration runs earlier tasks.
//!
//! `edges=2` and `edges=3` are the graphs of the wavefront case. Tanada's templates drop implied edges when they are built.

use super::{Case, Job};
use crate::Fallible;
use crate::native;
use crate::peers::Peer;
use crate::programs::{COLUMNS, EDGES, ROWS, TASKS};
use crate::samples::Sample;
use std::time::Instant;

pub(crate) const CASE: Case = Case {
    name: "build",
    about: "the cost of building the wavefront's graph a node, and of running it again, with empty bodies; edges as in wavefront",
    workload: None,
    workers: &[1, 2],
    params: || {
        let of = |graph| EDGES.map(|edges| format!("{graph},{}", edges.params()));
        [TEMPLATE, DYNAMIC].map(of).concat()
    },
    rounds: 7,
    quick_rounds: 3,
    measure,
    derive: |_| Vec::new(),
};

const TEMPLATE: &str = "graph=template";
const DYNAMIC: &str = "graph=dynamic";

const RERUNS: u32 = 5;

fn measure(job: &Job, peer: &Peer) -> Fallible<Vec<Sample>> {
    let (templates, dynamic) = peer.graphs();
    let repetitions = if job.quick { 5 } else { 10 };
    let a_node = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(TASKS);
    native::grid(COLUMNS, ROWS, EDGES[0]);
    native::set_body(0.0, job.rate)?;
    let mut program = peer.open(&CASE, job.workers)?;
    let mut samples = Vec::new();
    for edges in EDGES {
        native::grid(COLUMNS, ROWS, edges);
        let [template, registered] =
            [TEMPLATE, DYNAMIC].map(|graph| format!("{graph},{}", edges.params()));
        for _ in 0..repetitions {
            if templates && job.wants(&template) {
                let start = Instant::now();
                program.build(edges);
                samples.push(Sample::new(&template, &[("ns_per_build", a_node(start))]));
                program.run(1);
                for _ in 0..RERUNS {
                    let start = Instant::now();
                    program.run(1);
                    samples.push(Sample::new(&template, &[("ns_per_rerun", a_node(start))]));
                }
                program.discard();
            }
            if dynamic && job.wants(&registered) {
                program.prepare_dynamic(edges);
                let start = Instant::now();
                program.dynamic(edges);
                samples.push(Sample::new(&registered, &[("ns_per_build", a_node(start))]));
            }
        }
    }
    Ok(samples)
}
