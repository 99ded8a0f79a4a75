//! What a broadcast and a region cost beside their work: empty bodies, so all that is measured is the engine and the governor.
//!
//! `cargo run --release -p tanada-runtime --example region_cost -- [ROUNDS]`
//!
//! Each round calls each of them some hundred times, in turns; printed is the least time a call of all rounds, in nanoseconds, on pools of
//! 1 to 4 workers. `alone` is a region whose team is the calling thread: a decision, its begin and its end, without a call of workers.
use std::time::Instant;
use tanada_policy::{Shape, Waiting, governors::regions};
use tanada_runtime::{Pool, PoolBuilder};

const CALLS: u32 = 300;

/// Returns the time of a call in nanoseconds.
fn time(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Adds a governor that decides for one thread always.
fn alone(builder: PoolBuilder) -> PoolBuilder {
    let one = Shape {
        cores: 1,
        threads_per_core: 1,
    };
    let settings = regions::Settings {
        fixed: Some((one, Waiting::AsIs)),
        ..regions::Settings::default()
    };
    let entry = regions::find("fixed").expect("it is registered");
    builder.region_governor_with(move |site| (entry.make)(site, &settings))
}

fn main() {
    let rounds = std::env::args().nth(1);
    let rounds: u32 = rounds.map_or(200, |word| word.parse().expect("a number of rounds"));
    println!(
        "| workers | broadcast | region, all | region, predict | alone | in a task: broadcast | region, all | alone |"
    );
    for workers in 1..=4 {
        let build = |builder: PoolBuilder| builder.workers(workers).build().expect("a pool");
        let all = build(Pool::builder());
        let predict = build(Pool::builder().region_governor("predict"));
        let alone = build(alone(Pool::builder()));
        let mut least = [f64::INFINITY; 7];
        let regions = [&all, &predict, &alone].map(|pool| pool.region("empty"));
        let [of_all, of_predict, of_alone] = &regions;
        let run = |region: &tanada_runtime::Region| region.run(None, |_| ()).expect("a region");
        let broadcast = || all.broadcast(|_| ()).map(drop).expect("a broadcast");
        let mut keep = |at: usize, time: f64| least[at] = least[at].min(time);
        for _ in 0..rounds {
            keep(0, time(broadcast));
            keep(1, time(|| run(of_all)));
            keep(2, time(|| run(of_predict)));
            keep(3, time(|| run(of_alone)));
            let inside = |pool: &Pool, call: &(dyn Fn() + Sync)| {
                let mut taken = 0.0;
                pool.scope(|s| {
                    s.task("calls").register(|_| taken = time(call));
                })
                .expect("a graph that ends");
                taken
            };
            keep(4, inside(&all, &broadcast));
            keep(5, inside(&all, &|| run(of_all)));
            keep(6, inside(&alone, &|| run(of_alone)));
        }
        let figures: Vec<String> = least.iter().map(|time| format!("{time:.0}")).collect();
        println!("| {workers} | {} |", figures.join(" | "));
    }
}
