// Taskflow: a header-only library without a Debian package. Its headers are found through CPLUS_INCLUDE_PATH.
#include "peer.h"

#include <cstdlib>
#include <memory>
#include <taskflow/taskflow.hpp>
#include <vector>

#include "cholesky.h"
#include "tiles.h"

namespace {
std::unique_ptr<tf::Executor> executor;
std::unique_ptr<tf::Taskflow> graph, region, flat;
uint32_t flat_tasks = 0;
bool by_run_n = false;
struct tiles cut;
} // namespace

void peer_open(uint32_t workers) {
    executor = std::make_unique<tf::Executor>(workers);
    by_run_n = std::getenv("PEERS_RUN_N") != nullptr;
    region = std::make_unique<tf::Taskflow>();
    for (uint32_t at = 0; at < workers; at++)
        region->emplace([at] { peers_task(at); });
}

void peer_close(void) {
    region.reset();
    flat.reset();
    executor.reset();
}

void peer_graph_build(void) {
    graph = std::make_unique<tf::Taskflow>();
    uint32_t columns = peers_columns, tasks = columns * peers_rows;
    std::vector<tf::Task> nodes;
    nodes.reserve(tasks);
    for (uint32_t at = 0; at < tasks; at++) {
        tf::Task task = graph->emplace([at] { peers_task(at); });
        if (peers_after_left(at))
            nodes[at - 1].precede(task);
        if (peers_after_up(at))
            nodes[at - columns].precede(task);
        if (peers_after_up_right(at))
            nodes[at - columns + 1].precede(task);
        nodes.push_back(task);
    }
}

void peer_graph_run(uint32_t frames) {
    if (by_run_n)
        executor->run_n(*graph, frames).wait();
    else
        for (uint32_t frame = 0; frame < frames; frame++)
            executor->run(*graph).wait();
}

void peer_graph_drop(void) { graph.reset(); }

void peer_region(void) { executor->run(*region).wait(); }

/* A graph of nodes without edges, built at the first call with that number. */
void peer_flat(uint32_t, uint32_t tasks) {
    if (!flat || flat_tasks != tasks) {
        flat = std::make_unique<tf::Taskflow>();
        flat_tasks = tasks;
        for (uint32_t at = 0; at < tasks; at++)
            flat->emplace([at] { peers_task(at); });
    }
    executor->run(*flat).wait();
}

void peer_tiles_build(const struct peers_tile *all, size_t count, size_t strips, uint32_t sweeps) {
    cut.keep(all, count, strips);
    graph = std::make_unique<tf::Taskflow>();
    std::vector<tf::Task> before, these;
    for (uint32_t sweep = 0; sweep < sweeps; sweep++) {
        for (size_t at = 0; at < count; at++) {
            these.push_back(graph->emplace([at, sweep] { cut.sweep(at, sweep); }));
            if (sweep > 0)
                cut.each_before(at, [&](size_t from) { before[from].precede(these[at]); });
        }
        before = std::move(these);
        these.clear();
    }
}

void peer_tiles_run(float *a, float *b, size_t stride) {
    cut.field(a, b, stride);
    executor->run(*graph).wait();
}

void peer_cholesky_build(void) {
    graph = std::make_unique<tf::Taskflow>();
    cholesky_graph<tf::Task>(
        [](uint32_t i, uint32_t j, uint32_t k) { return graph->emplace([=] { peers_cholesky_step(i, j, k); }); },
        [](tf::Task before, tf::Task node) { before.precede(node); });
}

void peer_cholesky_run(void) { executor->run(*graph).wait(); }
