//! Cases that can be worked out on paper.

use super::{invoke, machine, plain, program};
use tanada_policy::governors::regions::{Settings, find};
use tanada_policy::{Decision, Waiting};
use tanada_sim::regions::core::{Issue, cycles_per_instruction};
use tanada_sim::regions::{Invocation, Machinery, Switch, Work};

/// Returns a full team beside which nobody looks at a flag.
fn full(cores: u16, threads_per_core: u16) -> Decision {
    Decision {
        waiting: Waiting::Sleep(0),
        ..super::full(cores, threads_per_core)
    }
}

const ISSUE: Issue = Issue {
    spacing: 2,
    second_level: 20,
    memory: 100,
    poll: 3,
};

#[test]
fn one_thread_issues_every_other_cycle_and_four_share_the_slots() {
    let work = plain()[0];
    let pace =
        |members, waiting, pause| cycles_per_instruction(&ISSUE, &work, members, waiting, pause);
    assert_eq!(pace(1, 0, 0), 2.0);
    assert_eq!(pace(2, 0, 0), (2.0 * 4096.0 + 1.0) / 4096.0);
    // Three and four threads have all slots: as many cycles as instructions, and the last one's second cycle.
    assert_eq!(pace(3, 0, 0), (3.0 * 4096.0 + 1.0) / 4096.0);
    assert_eq!(pace(4, 0, 0), (4.0 * 4096.0 + 1.0) / 4096.0);
    // Three that poll take three of four slots from the one that works; with a pause, hardly any.
    assert!((pace(1, 3, 0) - 4.0).abs() < 0.01);
    assert!(pace(1, 3, 1000) < 2.02);
}

#[test]
fn lines_stall_their_member_alone() {
    // A line of the second level after every second instruction: 2 + 2 + 20 cycles for two instructions.
    let near = Work {
        instructions: 1000.0,
        second_level: 500.0,
        ..Work::default()
    };
    assert_eq!(cycles_per_instruction(&ISSUE, &near, 1, 0, 0), 12.0);
    // A streamed line counts as one, a fetched one waits for the memory.
    let streamed = Work {
        second_level: 250.0,
        streamed: 250.0,
        ..near
    };
    assert_eq!(cycles_per_instruction(&ISSUE, &streamed, 1, 0, 0), 12.0);
    let far = Work {
        second_level: 0.0,
        fetched: 250.0,
        ..near
    };
    assert_eq!(cycles_per_instruction(&ISSUE, &far, 1, 0, 0), 27.0);
}

#[test]
fn iterations_come_in_rounds() {
    let machine = machine(&[]);
    let of = |iterations, decision| {
        let program = program(plain(), invoke(iterations));
        let mut machinery = Machinery::new(&machine, &program).expect("it runs regions");
        machinery.time(&invoke(iterations), decision)
    };
    // Four members on four cores: one iteration each is 8,192 cycles; fork and join are two levels of 10 cycles each.
    assert_eq!(of(4, full(4, 1)), 8192.0 + 40.0);
    assert_eq!(of(5, full(4, 1)), 2.0 * 8192.0 + 40.0);
    assert_eq!(of(8, full(4, 1)), 2.0 * 8192.0 + 40.0);
    // Two iterations on a team of two on a core each: one round. On one core, two threads take a cycle more.
    assert_eq!(of(2, full(2, 1)), 8192.0 + 20.0);
    assert_eq!(of(2, full(1, 2)), 8193.0 + 20.0);
    // Team of 16, two iterations: both on the first core.
    assert_eq!(of(2, full(4, 4)), 8193.0 + 80.0);
}

#[test]
fn the_memory_slows_all_alike() {
    // 64 bytes a cycle are one line a cycle. Four members want 4 x 4,096 lines in 8,192 cycles: twice as much. So they take 16,384.
    let lines = Work {
        instructions: 4096.0,
        written: 4096.0,
        ..Work::default()
    };
    let machine = machine(&["regions.memory_bytes_per_100_cycles=6400"]);
    let program = program(vec![lines; 4], invoke(4));
    let mut machinery = Machinery::new(&machine, &program).expect("it runs regions");
    let time = machinery.time(&invoke(4), full(4, 1));
    assert!((time - 40.0 - 16384.0).abs() < 1e-6, "{time}");
    // Two members want just what there is.
    let time = machinery.time(&invoke(2), full(2, 1));
    assert!((time - 20.0 - 8192.0).abs() < 1e-6, "{time}");
}

#[test]
fn a_pipeline_fills_and_drains() {
    // Four members, ten steps: 13 stages of an iteration and a hop.
    let machine = machine(&[]);
    let pipeline = Invocation {
        steps: 10,
        ..invoke(4)
    };
    let program = program(plain(), pipeline);
    let mut machinery = Machinery::new(&machine, &program).expect("it runs regions");
    assert_eq!(
        machinery.time(&pipeline, full(4, 1)),
        13.0 * (8192.0 + 10.0) + 40.0
    );
}

#[test]
fn switches_cost_barriers_and_the_look_at_a_flag() {
    let machine = machine(&[]);
    let program = program(plain(), invoke(4));
    let machinery = Machinery::new(&machine, &program).expect("it runs regions");
    let waiting = |waiting| Switch::Waiting(waiting);
    // 16 hardware threads: two trees of four levels of 10 cycles.
    assert_eq!(machinery.switch(16, 12, waiting(Waiting::Spin)), 80.0);
    assert_eq!(machinery.switch(12, 16, waiting(Waiting::Spin)), 80.0);
    assert_eq!(machinery.switch(12, 16, waiting(Waiting::AsIs)), 180.0);
    assert_eq!(
        machinery.switch(12, 16, waiting(Waiting::Delay(1000))),
        1080.0
    );
    assert_eq!(machinery.switch(12, 12, waiting(Waiting::Spin)), 0.0);
    assert!(machinery.switch(12, 16, Switch::Creation) > 1000.0 * 80.0);
}

#[test]
fn runs_under_a_governor_have_its_teams_and_the_cost_of_switching() {
    let machine = machine(&[]);
    let program = program(plain(), invoke(4));
    let mut machinery = Machinery::new(&machine, &program).expect("it runs regions");
    let settings = Settings {
        fixed: Some((full(4, 1).shape, Waiting::Sleep(0))),
        ..Settings::default()
    };
    let mut fixed = (find("fixed").expect("it is there").make)(&machinery.site(), &settings);
    let mut seen = Vec::new();
    let ran = machinery.run(fixed.as_mut(), |outcome| {
        seen.push((outcome.decision, outcome.time))
    });
    let team = full(4, 1);
    assert_eq!(seen, [(team, 8192 + 40 + 80)]);
    assert_eq!(
        (ran.cycles, ran.switching, ran.regions[0].0),
        (8312.0, 80.0, 1)
    );
}

#[test]
fn measuring_counts_shared_lines_once() {
    use tanada_sim::regions::measure;
    use tanada_sim::tanada_trace::threads::ThreadTrace;
    // Two regions of a team of four: a warm-up and a measured one, in which all load the same line and one of their own, twice.
    let mut text = String::from("tanada-threads 1\n");
    for thread in 0..4 {
        text += &match thread {
            0 => "thread 0\ncreate 1\ncreate 2\ncreate 3\n".to_owned(),
            other => format!("thread {other} parent=0\n"),
        };
        text += "region 0 4\nendregion\n";
        if thread == 0 {
            text += "mark 3 0 2\n";
        }
        text += "region 0 4\n";
        for address in [
            0x10000,
            0x20000 + thread * 0x1000,
            0x10000,
            0x20000 + thread * 0x1000,
        ] {
            text += &format!("b 0x400000 8 2\nr 2 {address:#x} 8\n");
        }
        text += "endregion\n";
        if thread == 0 {
            text += "mark 4 0 4\n";
        }
        text += "exit\n";
    }
    let trace =
        ThreadTrace::parse(text.as_bytes(), "t").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let regions = measure(&trace, &machine(&[])).expect("it is measured");
    assert_eq!((regions.len(), regions[0].units_per_iteration), (1, 2));
    for (siblings, work) in (1..).zip(&regions[0].work) {
        // Four units of which each member did one: eight instructions; the shared line is fetched once.
        assert_eq!(work.instructions, 8.0);
        let fetched = f64::from(siblings) + 1.0;
        assert_eq!(
            work.fetched + work.streamed,
            fetched / f64::from(siblings),
            "{siblings}"
        );
        assert_eq!((work.second_level, work.written), (0.0, 0.0));
    }
}
