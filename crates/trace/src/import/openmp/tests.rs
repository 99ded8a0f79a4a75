//! Marks of OpenMP tasks that a program could cause, and some that none could.

use super::super::tests::{import_with, recorded};
use super::super::{Imported, openmp_tasks};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

/// Imports what `lines` say, as `recorded` reads them. The code at OFFSET of a file is named `f` and the number.
fn from_marks(lines: &str) -> Result<(Imported, String), String> {
    let (trace, marks) = recorded(lines);
    let mut name_of = |path: &str, offset: u64| {
        assert_eq!(path, "/a program");
        format!("f{offset:x}")
    };
    import_with(&marks, |marks, options, to| {
        openmp_tasks(&trace, marks, "marks", options, &mut name_of, to)
    })
}

const HEAD: &str = "
    hello openmp-1
    code c1 1 /a program
    code c2 2 /a program";

/// What runs when the tasks at these addresses run, without waiting.
fn runs(addresses: &[&str]) -> String {
    let run = |address: &&str| format!("\nstart {address}\nend");
    addresses.iter().map(run).collect()
}

#[test]
fn dependences_are_of_the_last_that_used_an_address() {
    let lines = format!(
        "{HEAD}
        region
        L 1,1
        out 100
        task a0 c1 1 0 0 0
        in 100
        out 200
        task b0 c2 1 7 64 0
        in 100
        task c0 c2 1 0 0 0
        in 100
        in 200
        out 100
        task d0 c1 1 0 0 0
        set 100
        task e0 c1 1 0 0 0
        set 100
        task f0 c1 1 0 0 0
        all
        task a1 c1 1 0 0 0
        in 300
        task a2 c1 1 0 0 0
        wait all{}
        woke
        regioned",
        runs(&["a0", "b0", "c0", "d0", "e0", "f0", "a1", "a2"])
    );
    let (imported, text) = from_marks(&lines).expect("good marks");
    assert_eq!(
        text,
        "task 0 S=1 depth=1 name=f1 h:out=1\n\
         task 1 S=2 depth=1 name=f2 h:priority=7 h:footprint=64 h:in=1 h:out=2\ndep 0 1\n\
         task 2 depth=1 name=f2 h:in=1\ndep 0 2\n\
         task 3 S=1 depth=1 name=f1 h:in=1,2 h:out=1\ndep 0 3\ndep 1 3\ndep 2 3\n\
         task 4 depth=1 name=f1 h:set=1\ndep 3 4\n\
         task 5 depth=1 name=f1 h:set=1\ndep 3 5\n\
         task 6 depth=1 name=f1 h:all=0\ndep 1 6\ndep 3 6\ndep 4 6\ndep 5 6\n\
         task 7 depth=1 name=f1 h:in=3\ndep 6 7\n"
    );
    assert_eq!((imported.tasks, imported.dropped_accesses), (8, 1));
}

#[test]
fn a_task_that_waits_is_cut() {
    let lines = format!(
        "{HEAD}
        region
        task a0 c1 1 0 0 0
        wait all
        start a0
        L 1,1
        (
        L 2,1
        wait children
        woke
        L 3,1
        task b0 c2 2 0 0 0
        task d0 c2 2 0 0 0
        wait children
        L 4,1
        start b0
        L 5,1
        task e0 c2 3 0 0 0
        end
        start d0
        end
        woke
        L 6,1
        end
        start e0
        S 7,1
        end
        woke
        regioned
        region
        task a0 c1 1 0 0 0
        wait all{}
        woke
        regioned",
        runs(&["a0"])
    );
    let (imported, text) = from_marks(&lines).expect("good marks");
    assert_eq!(
        text,
        "task 0 depth=1 name=f1\nr 0x1 1\nr 0x3 1\n\
         task 1 depth=2 name=f2\ndep 0 1\nr 0x5 1\n\
         task 2 depth=2 name=f2\ndep 0 2\n\
         task 3 depth=1 name=f1 h:part=2\ndep 0 3\ndep 1 3\ndep 2 3\nr 0x6 1\n\
         task 4 depth=3 name=f2\ndep 1 4\nw 0x7 1\n\
         dep 3 5\ndep 4 5\ntask 5 name=wait\n\
         task 6 depth=1 name=f1\ndep 5 6\n"
    );
    assert_eq!((imported.reads, imported.writes), (4, 1));
    assert_eq!(imported.dropped_accesses, 2);
}

#[test]
fn events_are_part_of_a_tasks_end() {
    let lines = format!(
        "{HEAD}
        region
        out 100
        task a0 c1 1 0 0 1
        in 100
        task b0 c2 1 0 0 0
        task d0 c2 1 0 0 0
        wait all{}
        start d0
        fulfil a0
        end{}
        woke
        regioned",
        runs(&["a0"]),
        runs(&["b0"]),
    );
    let (_, text) = from_marks(&lines).expect("good marks");
    assert_eq!(
        text,
        "task 0 S=1 depth=1 name=f1 h:out=1\ntask 1 depth=1 name=f2\n\
         task 2 depth=1 name=f2 h:in=1\ndep 0 2\ndep 1 2\n"
    );
}

#[test]
fn marks_that_no_program_causes_are_faults() {
    let task = "task a0 c1 1 0 0 0";
    for (body, why) in [
        (
            "wait children\nstart a0",
            "the start of a task that was not created",
        ),
        ("end", "the end of a task although none runs"),
        ("woke", "the end of a wait that did not begin"),
        ("wait group", "a wait for nothing that there is"),
        ("wait children\nwait all", "a wait inside of another one"),
        ("regioned", "the end of a region that did not begin"),
        ("task a0 c9 1 0 0 0", "a task whose code has no mark"),
        ("team 4", "a team of 4 threads"),
        ("fulfil a0", "the event of a task that was not created"),
        ("wait all 3", "a mark with surplus words"),
        ("dance", "an unknown mark"),
        (&format!("{task}\nstart a0"), "where nothing waits"),
        (
            &format!("{task}\n{task}"),
            "a task at the address of another",
        ),
        (
            &format!("{task}\nfulfil a0"),
            "an event that the task does not have",
        ),
        (
            &format!("{task}\nwait all\nstart a0\nwait all\nstart a0"),
            "the start of a task that has begun",
        ),
        (
            &format!("{task}\nwait all\nstart a0\ngroup\nend"),
            "in a group that has not ended",
        ),
        (
            &format!("{task}\nwait all\nstart a0"),
            "the program did not come to its end",
        ),
        (
            &format!("{task}\ntask b0 c1 1 0 0 0\nwait all\nstart a0\non 1\nwait all\nstart b0"),
            "tasks of two threads of the program at the same time",
        ),
    ] {
        let error = from_marks(&format!("{HEAD}\n{body}")).expect_err(body);
        assert!(error.contains(why), "{body}: {error}");
    }
    let error = from_marks("hello 2").expect_err("another version");
    assert!(error.contains("version 2"), "{error}");
    let error = from_marks("region").expect_err("no version");
    assert!(error.contains("a mark before the first one"), "{error}");
}

/// A part of a task in the model, or of the code outside of tasks.
type Node = usize;

#[derive(Default)]
struct Made {
    parent: Option<usize>,
    /// The groups and the region in which it was created, from the outermost on.
    scopes: Vec<usize>,
    uses: Vec<(u64, char)>,
    /// Nodes that come before its first one.
    after: Vec<Node>,
    /// Its last node, once it runs.
    last: Option<Node>,
    parts: usize,
    over: bool,
}

/// A program that does what random numbers say, and the order of its tasks by the words of the standard.
struct Model {
    random: u64,
    marks: String,
    tasks: Vec<Made>,
    queue: VecDeque<usize>,
    /// For each node, those right before it.
    before: Vec<Vec<Node>>,
    /// For each part of a task, its node.
    nodes: BTreeMap<(usize, usize), Node>,
    scopes: usize,
    /// Tasks that have started.
    started: usize,
}

/// What runs.
struct Here {
    task: Option<usize>,
    node: Node,
    scopes: Vec<usize>,
}

impl Model {
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn say(&mut self, mark: impl std::fmt::Display) {
        let _ = writeln!(self.marks, "{mark}");
    }

    fn node(&mut self, before: Vec<Node>) -> Node {
        self.before.push(before);
        self.before.len() - 1
    }

    /// Whether the later one of two siblings waits for the earlier one, which a walk over all between them finds out.
    fn conflict(one: &[(u64, char)], other: &[(u64, char)]) -> bool {
        let all = |uses: &[(u64, char)]| uses.iter().any(|use_| use_.1 == 'a');
        if all(one) && !other.is_empty() || all(other) && !one.is_empty() {
            return true;
        }
        one.iter().any(|a| {
            let same = other.iter().filter(|b| b.0 == a.0);
            same.clone().any(|b| a.1 == 'o' || b.1 == 'o' || a.1 != b.1)
        })
    }

    fn create(&mut self, here: &Here) -> usize {
        let number = self.tasks.len();
        let mut uses: Vec<(u64, char)> = (0..self.draw(4))
            .map(|_| {
                (
                    1 + self.draw(3),
                    ['i', 'i', 'o', 's'][self.draw(4) as usize],
                )
            })
            .collect();
        uses.sort_unstable();
        uses.dedup_by_key(|use_| use_.0);
        if self.draw(12) == 0 {
            uses = vec![(0, 'a')];
        }
        for &(address, kind) in &uses {
            match kind {
                'i' => self.say(format_args!("in {address:x}")),
                's' => self.say(format_args!("set {address:x}")),
                'o' => self.say(format_args!("out {address:x}")),
                _ => self.say("all"),
            }
        }
        let code = 0x1000 + number;
        self.say(format_args!("code {code:x} {number:x} /a program"));
        self.say(format_args!("task {:x} {code:x} 1 0 0 0", 0x100 + number));
        self.tasks.push(Made {
            parent: here.task,
            scopes: here.scopes.clone(),
            uses,
            after: vec![here.node],
            ..Made::default()
        });
        number
    }

    fn comes_before(&self, one: Node, other: Node) -> bool {
        let mut left = vec![other];
        let mut seen = BTreeSet::new();
        while let Some(node) = left.pop() {
            if node == one {
                return true;
            }
            left.extend(self.before[node].iter().filter(|&&node| seen.insert(node)));
        }
        false
    }

    fn siblings_before(&self, number: usize) -> impl Iterator<Item = usize> {
        let of = &self.tasks[number];
        (0..number).filter(move |&other| {
            let other = &self.tasks[other];
            other.parent == of.parent
                && other.scopes[0] == of.scopes[0]
                && Model::conflict(&other.uses, &of.uses)
        })
    }

    fn is_ready(&self, number: usize) -> bool {
        self.siblings_before(number)
            .all(|other| self.tasks[other].over)
    }

    fn descends(&self, number: usize, of: Option<usize>) -> bool {
        let mut at = Some(number);
        while let Some(number) = at {
            at = self.tasks[number].parent;
            if at == of {
                return true;
            }
        }
        false
    }

    /// Runs a queued task that may run in the task `of`. Returns whether there was one.
    fn help(&mut self, of: Option<usize>) -> bool {
        let fits = |number: &usize| self.is_ready(*number) && self.descends(*number, of);
        let Some(at) = self.queue.iter().position(fits) else {
            return false;
        };
        let number = self.queue.remove(at).expect("it was there");
        self.run(number);
        true
    }

    fn run(&mut self, number: usize) {
        self.started += 1;
        self.say(format_args!("start {:x}", 0x100 + number));
        let before = self.siblings_before(number);
        let mut after: Vec<Node> = before.filter_map(|other| self.tasks[other].last).collect();
        after.extend(&self.tasks[number].after);
        let node = self.node(after);
        self.nodes.insert((number, 1), node);
        self.tasks[number].parts = 1;
        self.tasks[number].last = Some(node);
        self.scopes += 1;
        let mut here = Here {
            task: Some(number),
            node,
            scopes: vec![self.scopes],
        };
        self.body(&mut here, 3);
        self.tasks[number].over = true;
        self.say("end");
    }

    /// Waits for the tasks `set`, which are all that `is_in` holds for.
    fn wait(&mut self, here: &mut Here, what: &str, is_in: &dyn Fn(&Model, usize) -> bool) {
        self.say(format_args!("wait {what}"));
        let started = self.started;
        let set: Vec<usize> = loop {
            let set = (0..self.tasks.len()).filter(|&task| is_in(self, task));
            let set: Vec<usize> = set.collect();
            if set.iter().all(|&task| self.tasks[task].over) {
                break set;
            }
            assert!(self.help(here.task), "a task that is waited for can run");
        };
        self.woke(here, &set, started);
    }

    fn woke(&mut self, here: &mut Here, set: &[usize], started: usize) {
        self.say("woke");
        let mut before: Vec<Node> = set
            .iter()
            .filter_map(|&task| self.tasks[task].last)
            .collect();
        let more = before
            .iter()
            .any(|&last| !self.comes_before(last, here.node));
        if here.task.is_some() && !more && self.started == started {
            return; // it goes on as it was
        }
        before.push(here.node);
        here.node = self.node(before);
        if let Some(task) = here.task {
            let made = &mut self.tasks[task];
            made.parts += 1;
            made.last = Some(here.node);
            self.nodes.insert((task, made.parts), here.node);
        }
    }

    fn body(&mut self, here: &mut Here, most: u64) {
        for _ in 0..self.draw(most + 1) {
            let task = here.task;
            match self.draw(10) {
                0..5 if self.tasks.len() < 40 => {
                    let number = self.create(here);
                    self.queue.push_back(number);
                }
                5 if self.tasks.len() < 40 => {
                    // It runs at once: what it depends on was waited for before, and it has no uses of its own here.
                    let number = self.create_plain(here);
                    let address = 0x100 + number;
                    self.say(format_args!("wait task {address:x}"));
                    let started = self.started;
                    self.run(number);
                    self.woke(here, &[number], started);
                }
                6 => {
                    let first = here.scopes[0];
                    self.wait(here, "children", &move |model, other| {
                        let other = &model.tasks[other];
                        other.parent == task && other.scopes[0] == first
                    });
                }
                7 => {
                    self.scopes += 1;
                    let group = self.scopes;
                    self.say("group");
                    here.scopes.push(group);
                    self.body(here, most);
                    self.wait(here, "group", &move |model, other| {
                        model.is_below(other, group)
                    });
                    here.scopes.pop();
                }
                8 => {
                    self.say("wait nothing");
                    let started = self.started;
                    self.help(task);
                    self.woke(here, &[], started);
                }
                _ => {}
            }
        }
    }

    fn create_plain(&mut self, here: &Here) -> usize {
        let code = 0x1000 + self.tasks.len();
        let number = self.tasks.len();
        self.say(format_args!("code {code:x} {number:x} /a program"));
        self.say(format_args!("task {:x} {code:x} 1 0 0 0", 0x100 + number));
        self.tasks.push(Made {
            parent: here.task,
            scopes: here.scopes.clone(),
            after: vec![here.node],
            ..Made::default()
        });
        number
    }

    /// Whether a task or one that it descends from was created in this group or region.
    fn is_below(&self, number: usize, scope: usize) -> bool {
        let mut at = Some(number);
        while let Some(number) = at {
            if self.tasks[number].scopes.contains(&scope) {
                return true;
            }
            at = self.tasks[number].parent;
        }
        false
    }

    fn of(seed: u64) -> Model {
        let mut model = Model {
            random: seed | 1,
            marks: "hello openmp-1\n".to_owned(),
            tasks: Vec::new(),
            queue: VecDeque::new(),
            before: Vec::new(),
            nodes: BTreeMap::new(),
            scopes: 0,
            started: 0,
        };
        let node = model.node(Vec::new());
        let mut here = Here {
            task: None,
            node,
            scopes: Vec::new(),
        };
        for _ in 0..2 {
            model.scopes += 1;
            let region = model.scopes;
            model.say("region");
            here.scopes.push(region);
            model.body(&mut here, 12);
            model.wait(&mut here, "all", &move |model, other| {
                model.is_below(other, region)
            });
            here.scopes.pop();
            model.say("regioned");
        }
        model
    }
}

/// Returns, for each name, the names of all that come before it. Nodes without a name are passed through.
fn closure(
    before: &[Vec<Node>],
    names: &BTreeMap<Node, (usize, usize)>,
) -> BTreeMap<(usize, usize), BTreeSet<(usize, usize)>> {
    let mut all: Vec<BTreeSet<Node>> = Vec::new();
    for node in before {
        let mut above = BTreeSet::new();
        for &other in node {
            above.insert(other);
            above.extend(&all[other]);
        }
        all.push(above);
    }
    let named =
        |nodes: &BTreeSet<Node>| nodes.iter().filter_map(|n| names.get(n).copied()).collect();
    names
        .iter()
        .map(|(&node, &name)| (name, named(&all[node])))
        .collect()
}

proptest! {
    /// Parts and their order are those of the standard, in programs that do what random numbers say.
    #[test]
    fn parts_are_ordered_as_the_standard_orders_them(seed in any::<u64>()) {
        let model = Model::of(seed);
        let (_, text) = from_marks(&model.marks).map_err(|error| {
            TestCaseError::fail(format!("{error}\n{}", model.marks))
        })?;
        let mut names = BTreeMap::new();
        let mut edges = BTreeSet::new();
        let mut count = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "task" => {
                    let id: usize = words[1].parse().expect("an ID");
                    count = count.max(id + 1);
                    let find = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
                    let part = find("h:part=").map_or(1, |part| part.parse().expect("a number"));
                    if let Some(number) = find("name=f") {
                        let number = usize::from_str_radix(number, 16).expect("a number");
                        names.insert(id, (number, part));
                    }
                }
                _ => {
                    let ends: Vec<usize> = words[1..].iter().map(|id| id.parse().expect("an ID")).collect();
                    prop_assert!(edges.insert((ends[0], ends[1])), "an edge twice");
                }
            }
        }
        let mut before = vec![Vec::new(); count];
        for &(from, to) in &edges {
            prop_assert!(from < to);
            before[to].push(from);
        }
        let expected = model.nodes.iter().map(|(&name, &node)| (node, name)).collect();
        let expected = closure(&model.before, &expected);
        let found = closure(&before, &names);
        prop_assert_eq!(&found, &expected, "{}\n{}", model.marks, text);
    }
}
