// oneTBB: its flow graph, its parallel loops.
#include "peer.h"

#include "cholesky.h"
#include "tiles.h"

#include <deque>
#include <memory>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {
using node = tbb::flow::continue_node<tbb::flow::continue_msg>;

std::unique_ptr<tbb::global_control> control;
std::unique_ptr<tbb::task_arena> arena;
uint32_t workers_now = 1;
std::unique_ptr<tbb::flow::graph> graph;
// Nodes have addresses of their own, and a deque keeps them without an allocation each.
std::deque<node> nodes;
struct tiles cut;
size_t roots = 0;
} // namespace

void peer_open(uint32_t workers) {
    workers_now = workers;
    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, workers);
    arena = std::make_unique<tbb::task_arena>(int(workers));
    arena->initialize();
}

void peer_close(void) {
    arena.reset();
    control.reset();
}

void peer_graph_build(void) {
    arena->execute([] {
        graph = std::make_unique<tbb::flow::graph>();
        uint32_t columns = peers_columns, tasks = columns * peers_rows;
        for (uint32_t at = 0; at < tasks; at++) {
            node &self = nodes.emplace_back(*graph, [at](tbb::flow::continue_msg m) {
                peers_task(at);
                return m;
            });
            if (peers_after_left(at))
                tbb::flow::make_edge(nodes[at - 1], self);
            if (peers_after_up(at))
                tbb::flow::make_edge(nodes[at - columns], self);
            if (peers_after_up_right(at))
                tbb::flow::make_edge(nodes[at - columns + 1], self);
        }
    });
}

void peer_graph_run(uint32_t frames) {
    arena->execute([frames] {
        for (uint32_t frame = 0; frame < frames; frame++) {
            nodes[0].try_put(tbb::flow::continue_msg());
            graph->wait_for_all();
        }
    });
}

void peer_graph_drop(void) {
    arena->execute([] {
        nodes.clear();
        graph.reset();
    });
}

void peer_region(void) {
    arena->execute([] {
        tbb::parallel_for(
            0u, workers_now, [](uint32_t at) { peers_task(at); }, tbb::simple_partitioner());
    });
}

void peer_flat(uint32_t scope, uint32_t tasks) {
    arena->execute([=] {
        if (scope) {
            tbb::task_group group;
            for (uint32_t at = 0; at < tasks; at++)
                group.run([at] { peers_task(at); });
            group.wait();
        } else {
            tbb::parallel_for(0u, tasks, [](uint32_t at) { peers_task(at); });
        }
    });
}

namespace {
void chain(tbb::task_group &group, uint32_t at, uint32_t tasks) {
    if (at < tasks)
        group.run([&group, at, tasks] {
            peers_task(at);
            chain(group, at + 1, tasks);
        });
}

void tree(tbb::task_group &group, uint32_t at, uint32_t tasks) {
    if (at < tasks)
        group.run([&group, at, tasks] {
            peers_task(at);
            tree(group, 2 * at + 1, tasks);
            tree(group, 2 * at + 2, tasks);
        });
}
} // namespace

void peer_grow(uint32_t shape, uint32_t tasks) {
    arena->execute([=] {
        tbb::task_group group;
        if (shape == 0)
            chain(group, 0, tasks);
        else if (shape == 1)
            tree(group, 0, tasks);
        else
            for (uint32_t at = 0; at < tasks; at++)
                group.run([at] { peers_task(at); });
        group.wait();
    });
}

void peer_stencil(float *a, float *b, size_t size, size_t stride, uint32_t sweeps) {
    arena->execute([=] {
        float *from = a, *to = b;
        for (uint32_t sweep = 0; sweep < sweeps; sweep++) {
            tbb::parallel_for(
                tbb::blocked_range<size_t>(0, size),
                [=](const tbb::blocked_range<size_t> &rows) {
                    for (size_t y = rows.begin(); y < rows.end(); y++) {
                        const float *here = from + y * stride;
                        peers_stencil_row(to + y * stride, here - stride, here, here + stride, size);
                    }
                },
                tbb::static_partitioner());
            std::swap(from, to);
        }
    });
}

void peer_tiles_build(const struct peers_tile *all, size_t count, size_t strips, uint32_t sweeps) {
    cut.keep(all, count, strips);
    roots = sweeps > 0 ? count : 0;
    arena->execute([=] {
        graph = std::make_unique<tbb::flow::graph>();
        for (uint32_t sweep = 0; sweep < sweeps; sweep++)
            for (size_t at = 0; at < count; at++) {
                node &self = nodes.emplace_back(*graph, [at, sweep](tbb::flow::continue_msg m) {
                    cut.sweep(at, sweep);
                    return m;
                });
                if (sweep > 0)
                    cut.each_before(at, [&](size_t from) {
                        tbb::flow::make_edge(nodes[(sweep - 1) * count + from], self);
                    });
            }
    });
}

void peer_tiles_run(float *a, float *b, size_t stride) {
    cut.field(a, b, stride);
    arena->execute([] {
        for (size_t at = 0; at < roots; at++)
            nodes[at].try_put(tbb::flow::continue_msg());
        graph->wait_for_all();
    });
}

void peer_cholesky_build(void) {
    arena->execute([] {
        graph = std::make_unique<tbb::flow::graph>();
        cholesky_graph<node *>(
            [](uint32_t i, uint32_t j, uint32_t k) {
                return &nodes.emplace_back(*graph, [=](tbb::flow::continue_msg m) {
                    peers_cholesky_step(i, j, k);
                    return m;
                });
            },
            [](node *before, node *self) { tbb::flow::make_edge(*before, *self); });
    });
}

void peer_cholesky_run(void) {
    arena->execute([] {
        nodes[0].try_put(tbb::flow::continue_msg());
        graph->wait_for_all();
    });
}

namespace {
template <class First, class Second> void both(const First &first, const Second &second) {
    tbb::task_group group;
    group.run(second);
    first();
    group.wait();
}

uint64_t fib(uint32_t n) {
    if (n < 2)
        return n;
    uint64_t a, b;
    both([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
    return a + b;
}

uint64_t comb(uint32_t teeth) {
    if (teeth == 0)
        return 0;
    uint64_t rest;
    both([&] { rest = comb(teeth - 1); }, [&] { peers_task(teeth); });
    return rest + 1;
}

uint64_t sum(const peers_node *node) {
    if (!node)
        return 0;
    uint64_t left, right;
    both([&] { left = sum(node->left); }, [&] { right = sum(node->right); });
    return node->value + left + right;
}

uint64_t uts(uint64_t name, uint32_t count);

uint64_t uts_children(uint64_t name, uint32_t first, uint32_t last) {
    if (last - first == 1) {
        uint64_t child = peers_hash(name + last);
        return uts(child, peers_twigs(child));
    }
    uint32_t middle = first + (last - first) / 2;
    uint64_t a, b;
    both([&] { a = uts_children(name, first, middle); }, [&] { b = uts_children(name, middle, last); });
    return a + b;
}

uint64_t uts(uint64_t name, uint32_t count) { return count == 0 ? 1 : 1 + uts_children(name, 0, count); }

uint64_t skynet(uint64_t from, uint64_t size);

uint64_t skynet_children(uint64_t from, uint64_t size, uint64_t first, uint64_t last) {
    if (last - first == 1)
        return skynet(from + first * size, size);
    uint64_t middle = first + (last - first) / 2;
    uint64_t a, b;
    both([&] { a = skynet_children(from, size, first, middle); }, [&] { b = skynet_children(from, size, middle, last); });
    return a + b;
}

uint64_t skynet(uint64_t from, uint64_t size) {
    return size == 1 ? from : skynet_children(from, size / 10, 0, 10);
}

struct board {
    uint32_t rows, row, columns, left, right;
};

uint64_t queens(board at);

uint64_t places(board at, uint32_t free) {
    uint32_t first = free & -free;
    if (free == 0)
        return 0;
    if (free == first)
        return queens({at.rows, at.row + 1, at.columns | free, (at.left | free) << 1, (at.right | free) >> 1});
    uint64_t a, b;
    both([&] { a = places(at, first); }, [&] { b = places(at, free & ~first); });
    return a + b;
}

uint64_t queens(board at) {
    if (at.row == at.rows)
        return 1;
    return places(at, ~(at.columns | at.left | at.right) & ((1u << at.rows) - 1));
}

uint64_t run_kernel(uint32_t kernel, uint32_t size, const peers_node *tree) {
    switch (kernel) {
    case 0:
        return fib(size);
    case 1:
        return comb(size);
    case 2:
        return sum(tree);
    case 3:
        return uts(0, size);
    case 4:
        return skynet(0, size);
    default:
        return queens({size, 0, 0, 0, 0});
    }
}
} // namespace

uint64_t peer_fork(uint32_t kernel, uint32_t size, const peers_node *tree) {
    uint64_t result = 0;
    arena->execute([&] { result = run_kernel(kernel, size, tree); });
    return result;
}
