//! Forces between bodies by the method of Barnes and Hut: `kernels/barnes.c` as tasks.
//!
//! The C program inserts bodies into one tree under locks. Tasks take no locks: in every step a task sorts a chunk of bodies by the 64
//! octants two levels below the root, a task grows the tree of each octant, one task puts a crown on the 64 trees, and a task walks the
//! tree for a chunk of bodies and moves them. The tree is a function of the bodies, so it is the same. A T group is a phase; S groups
//! are chunks and octants.

use crate::options::{Kind, OptionSpec, Values};
use crate::phased::{Phased, Pieces, Random, SEED, Tasks};
use crate::workload::{Description, RunError};
use std::array::from_fn;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("size", "N", Kind::Count(2, 1 << 22), "Bodies").default("4096"),
    OptionSpec::new("steps", "N", Kind::Count(1, 1000), "Steps of time").default("2"),
    OptionSpec::new(
        "theta",
        "N",
        Kind::Count(1, 100),
        "Hundredths of its distance up to which the side of a cell is small",
    )
    .default("60"),
    OptionSpec::new("chunk", "N", Kind::Count(1, 1 << 16), "Bodies of a task").default("60"),
    SEED,
];

const OCTANTS: usize = 64;
const MAX_DEPTH: u32 = 200;
const DT: f64 = 1.0 / 64.0;
const SOFT: f64 = 1.0 / 4096.0;

type Vector = [f64; 3];

#[derive(Clone, Copy)]
struct Body {
    at: Vector,
    speed: Vector,
}

/// A body as the tree holds it.
#[derive(Clone, Copy)]
struct Leaf {
    body: usize,
    at: Vector,
}

#[derive(Clone, Copy)]
enum Node {
    Nothing,
    Cell(usize),
    Leaf(usize),
}

#[derive(Clone, Copy)]
struct Cell {
    at: Vector,
    mass: f64,
    children: [Node; 8],
}

/// Cells and leaves of a tree, and its root.
struct Tree {
    cells: Vec<Cell>,
    leaves: Vec<Leaf>,
    root: Node,
    /// Half the side of the root of the whole tree.
    half: f64,
}

pub(crate) struct Barnes {
    size: usize,
    steps: usize,
    chunk: usize,
    /// The square of theta.
    apart: f64,
    random: Random,
    bodies: Pieces<Vec<Body>>,
    /// Of each chunk: its largest coordinate.
    reach: Pieces<f64>,
    /// Of each chunk: its bodies by octant.
    sorted: Pieces<[Vec<Leaf>; OCTANTS]>,
    octants: Pieces<Tree>,
    whole: Pieces<Tree>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    Sort(usize),
    Grow(usize),
    Crown,
    Move(usize),
}

fn octant_of(at: &Vector, middle: &Vector) -> usize {
    (0..3).fold(0, |octant, axis| {
        octant | usize::from(at[axis] >= middle[axis]) << axis
    })
}

/// Moves `middle` to the middle of an octant of a cell with half side `side`.
fn descend(middle: &mut Vector, octant: usize, side: f64) {
    for (axis, middle) in middle.iter_mut().enumerate() {
        *middle += if octant >> axis & 1 == 1 {
            0.5 * side
        } else {
            -0.5 * side
        };
    }
}

impl Tree {
    fn new() -> Tree {
        Tree {
            cells: Vec::new(),
            leaves: Vec::new(),
            root: Node::Nothing,
            half: 1.0,
        }
    }

    /// Returns the tree of `leaves` below a node with this middle and half side.
    fn grown(leaves: Vec<Leaf>, middle: Vector, side: f64, mass: f64) -> Tree {
        let mut tree = Tree::new();
        tree.leaves = leaves;
        for leaf in 0..tree.leaves.len() {
            let mut middle = middle;
            tree.root = tree.inserted(tree.root, leaf, &mut middle, side, 0);
        }
        if let Node::Cell(root) = tree.root {
            tree.add_masses(root, mass);
        }
        tree
    }

    fn new_cell(&mut self) -> usize {
        self.cells.push(Cell {
            at: [0.0; 3],
            mass: 0.0,
            children: [Node::Nothing; 8],
        });
        self.cells.len() - 1
    }

    /// Returns what stands in place of `node` once a leaf was inserted there.
    fn inserted(
        &mut self,
        node: Node,
        leaf: usize,
        middle: &mut Vector,
        side: f64,
        depth: u32,
    ) -> Node {
        assert!(depth < MAX_DEPTH, "two bodies are at the same place");
        let cell = match node {
            Node::Nothing => return Node::Leaf(leaf),
            Node::Cell(cell) => cell,
            Node::Leaf(other) => {
                let cell = self.new_cell();
                let octant = octant_of(&self.leaves[other].at, middle);
                self.cells[cell].children[octant] = node;
                cell
            }
        };
        let octant = octant_of(&self.leaves[leaf].at, middle);
        descend(middle, octant, side);
        let child = self.cells[cell].children[octant];
        self.cells[cell].children[octant] =
            self.inserted(child, leaf, middle, 0.5 * side, depth + 1);
        Node::Cell(cell)
    }

    /// Sets mass and centre of a cell from its children, in the order of octants.
    fn add_children(&mut self, cell: usize, body_mass: f64) {
        let (mut mass, mut at) = (0.0, [0.0; 3]);
        for child in self.cells[cell].children {
            let (child_at, child_mass) = match child {
                Node::Nothing => continue,
                Node::Cell(child) => (self.cells[child].at, self.cells[child].mass),
                Node::Leaf(leaf) => (self.leaves[leaf].at, body_mass),
            };
            mass += child_mass;
            for axis in 0..3 {
                at[axis] += child_mass * child_at[axis];
            }
        }
        self.cells[cell].mass = mass;
        self.cells[cell].at = at.map(|at| at / mass);
    }

    fn add_masses(&mut self, cell: usize, body_mass: f64) {
        for child in self.cells[cell].children {
            if let Node::Cell(child) = child {
                self.add_masses(child, body_mass);
            }
        }
        self.add_children(cell, body_mass);
    }

    /// Appends the cells and leaves of another tree, and returns its root as a node of this one.
    fn append(&mut self, other: &Tree) -> Node {
        let (cells, leaves) = (self.cells.len(), self.leaves.len());
        let moved = |node: Node| match node {
            Node::Nothing => Node::Nothing,
            Node::Cell(cell) => Node::Cell(cells + cell),
            Node::Leaf(leaf) => Node::Leaf(leaves + leaf),
        };
        self.leaves.extend_from_slice(&other.leaves);
        self.cells.extend(other.cells.iter().map(|cell| Cell {
            children: cell.children.map(moved),
            ..*cell
        }));
        moved(other.root)
    }
}

/// A body on its way through the tree.
struct Walk<'a> {
    tree: &'a Tree,
    apart: f64,
    body_mass: f64,
    body: usize,
    at: Vector,
    pull: Vector,
}

impl Walk<'_> {
    fn add(&mut self, at: &Vector, mass: f64) {
        let apart: Vector = from_fn(|axis| at[axis] - self.at[axis]);
        let square = apart
            .iter()
            .fold(SOFT, |square, apart| square + apart * apart);
        let force = mass / (square * square.sqrt());
        for (pull, apart) in self.pull.iter_mut().zip(apart) {
            *pull += force * apart;
        }
    }

    /// Adds the pull of all that a cell of this side holds. A cell that looks small from the body pulls as one mass.
    fn add_cell(&mut self, cell: usize, side: f64) {
        let cell = &self.tree.cells[cell];
        let square = (0..3).fold(0.0, |square, axis| {
            square + (cell.at[axis] - self.at[axis]) * (cell.at[axis] - self.at[axis])
        });
        if side * side < self.apart * square {
            return self.add(&cell.at, cell.mass);
        }
        for child in cell.children {
            match child {
                Node::Cell(child) => self.add_cell(child, 0.5 * side),
                Node::Leaf(leaf) if self.tree.leaves[leaf].body != self.body => {
                    self.add(&self.tree.leaves[leaf].at, self.body_mass);
                }
                _ => {}
            }
        }
    }
}

fn reach_of(bodies: &[Body]) -> f64 {
    let numbers = bodies.iter().flat_map(|body| body.at);
    numbers.fold(0.0, |reach: f64, at| reach.max(at.abs()))
}

impl Barnes {
    fn body_mass(&self) -> f64 {
        1.0 / self.size as f64
    }

    /// Returns half the side of the tree's root: a power of 2.
    fn half(&self) -> f64 {
        let reach = (0..self.reach.len()).map(|chunk| *self.reach.read(chunk));
        let (reach, mut half) = (reach.fold(0.0, f64::max), 1.0);
        while half <= reach {
            half *= 2.0;
        }
        half
    }

    fn sort(&self, chunk: usize) {
        let half = self.half();
        let mut sorted = self.sorted.write(chunk);
        sorted.iter_mut().for_each(Vec::clear);
        for (body, Body { at, .. }) in (chunk * self.chunk..).zip(&*self.bodies.read(chunk)) {
            let mut middle = [0.0; 3];
            let first = octant_of(at, &middle);
            descend(&mut middle, first, half);
            let octant = 8 * first + octant_of(at, &middle);
            sorted[octant].push(Leaf { body, at: *at });
        }
    }

    fn grow(&self, octant: usize) {
        let half = self.half();
        let mut leaves = Vec::new();
        for chunk in 0..self.sorted.len() {
            leaves.extend_from_slice(&self.sorted.read(chunk)[octant]);
        }
        let mut middle = [0.0; 3];
        descend(&mut middle, octant / 8, half);
        descend(&mut middle, octant % 8, 0.5 * half);
        *self.octants.write(octant) = Tree::grown(leaves, middle, 0.25 * half, self.body_mass());
    }

    /// Joins the trees of all octants. An octant of the root that has but one body is a leaf.
    fn crown(&self) {
        let mut tree = Tree::new();
        tree.half = self.half();
        let root = tree.new_cell();
        for octant in 0..8 {
            let children: [Node; 8] =
                from_fn(|at| tree.append(&self.octants.read(8 * octant + at)));
            let mut there = children
                .iter()
                .filter(|child| !matches!(child, Node::Nothing));
            let child = match (there.next(), there.next()) {
                (None, _) => Node::Nothing,
                (Some(&Node::Leaf(leaf)), None) => Node::Leaf(leaf),
                _ => {
                    let cell = tree.new_cell();
                    tree.cells[cell].children = children;
                    tree.add_children(cell, self.body_mass());
                    Node::Cell(cell)
                }
            };
            tree.cells[root].children[octant] = child;
        }
        tree.add_children(root, self.body_mass());
        tree.root = Node::Cell(root);
        *self.whole.write(0) = tree;
    }

    fn move_bodies(&self, chunk: usize) {
        let tree = &*self.whole.read(0);
        let mut bodies = self.bodies.write(chunk);
        for (body, Body { at, speed }) in (chunk * self.chunk..).zip(&mut *bodies) {
            let mut walk = Walk {
                tree,
                apart: self.apart,
                body_mass: self.body_mass(),
                body,
                at: *at,
                pull: [0.0; 3],
            };
            if let Node::Cell(root) = tree.root {
                walk.add_cell(root, 2.0 * tree.half);
            }
            for axis in 0..3 {
                speed[axis] += walk.pull[axis] * DT;
                at[axis] += speed[axis] * DT;
            }
        }
        *self.reach.write(chunk) = reach_of(&bodies);
    }
}

impl Phased for Barnes {
    const DESCRIPTION: &'static Description = &Description {
        name: "barnes",
        about: "Forces between bodies by Barnes and Hut's octree",
        details: "After SPLASH-2's Barnes, of which there is a program with POSIX threads too. Bodies that are near each \
        other read nearly the same part of a tree.",
        options: OPTIONS,
        test_options: &[("size", "300"), ("chunk", "20")],
    };
    const RECORDED: bool = false;
    type Task = Task;

    fn bytes(values: &Values) -> u64 {
        let chunks = values.count("size").div_ceil(values.count("chunk"));
        values.count("size") * 1000 + chunks * values.count("steps") * OCTANTS as u64 * 50
    }

    fn new(values: &Values, _workers: u16) -> Result<Self, RunError> {
        let (size, chunk) = (
            values.count("size") as usize,
            values.count("chunk") as usize,
        );
        let (chunks, theta) = (size.div_ceil(chunk), values.count("theta") as f64 / 100.0);
        Ok(Barnes {
            size,
            steps: values.count("steps") as usize,
            chunk,
            apart: theta * theta,
            random: Random::new(values.count(SEED.flag)),
            bodies: Pieces::new(chunks, |_| Vec::new()),
            reach: Pieces::new(chunks, |_| 0.0),
            sorted: Pieces::new(chunks, |_| from_fn(|_| Vec::new())),
            octants: Pieces::new(OCTANTS, |_| Tree::new()),
            whole: Pieces::new(1, |_| Tree::new()),
        })
    }

    fn declare(&self, tasks: &mut Tasks<Task>) {
        let chunks = self.bodies.len();
        let bodies = tasks.array(chunks, (self.chunk * size_of::<Body>()) as u64);
        let [reach, sorted] = [(); 2].map(|()| tasks.array(chunks, 64));
        let octants = tasks.array(OCTANTS, 64);
        let whole = tasks.array(1, 64);
        for _ in 0..self.steps {
            let phase = tasks.phase("sort");
            for chunk in 0..chunks {
                tasks
                    .task(Task::Sort(chunk), (phase, chunk), self.chunk)
                    .read_all((0..chunks).map(|chunk| reach.piece(chunk)))
                    .read(bodies.piece(chunk))
                    .write(sorted.piece(chunk));
            }
            let phase = tasks.phase("grow");
            for octant in 0..OCTANTS {
                tasks
                    .task(Task::Grow(octant), (phase, octant), self.size / OCTANTS)
                    .read_all((0..chunks).map(|chunk| sorted.piece(chunk)))
                    .read_all((0..chunks).map(|chunk| reach.piece(chunk)))
                    .write(octants.piece(octant));
            }
            let phase = tasks.phase("crown");
            tasks
                .task(Task::Crown, (phase, 0), self.size)
                .read_all((0..OCTANTS).map(|octant| octants.piece(octant)))
                .read_all((0..chunks).map(|chunk| reach.piece(chunk)))
                .write(whole.piece(0));
            let phase = tasks.phase("move");
            for chunk in 0..chunks {
                tasks
                    .task(Task::Move(chunk), (phase, chunk), self.chunk)
                    .read(whole.piece(0))
                    .update(bodies.piece(chunk))
                    .write(reach.piece(chunk));
            }
        }
    }

    fn reset(&self) {
        for chunk in 0..self.bodies.len() {
            let first = chunk * self.chunk;
            let places = first..(first + self.chunk).min(self.size);
            let bodies: Vec<Body> = places
                .map(|body| {
                    let unit = |at: usize| self.random.unit((6 * body + at) as u64) - 0.5;
                    Body {
                        // Dense in the middle.
                        at: from_fn(|axis| 4.0 * unit(axis) * unit(axis).abs()),
                        speed: from_fn(|axis| unit(3 + axis)),
                    }
                })
                .collect();
            *self.reach.write(chunk) = reach_of(&bodies);
            *self.bodies.write(chunk) = bodies;
        }
    }

    fn run(&self, task: Task) {
        match task {
            Task::Sort(chunk) => self.sort(chunk),
            Task::Grow(octant) => self.grow(octant),
            Task::Crown => self.crown(),
            Task::Move(chunk) => self.move_bodies(chunk),
        }
    }

    fn visit(&self, word: &mut dyn FnMut(u64)) {
        for chunk in 0..self.bodies.len() {
            for body in &*self.bodies.read(chunk) {
                let numbers = body.at.iter().chain(&body.speed);
                numbers.for_each(|number| word(number.to_bits()));
            }
        }
    }
}
