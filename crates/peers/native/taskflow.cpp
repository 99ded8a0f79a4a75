// Taskflow: a header-only library without a Debian package. Its headers are found through CPLUS_INCLUDE_PATH.
#include "peer.h"

#include <memory>
#include <taskflow/taskflow.hpp>
#include <vector>

namespace {
std::unique_ptr<tf::Executor> executor;
std::unique_ptr<tf::Taskflow> graph, region;
} // namespace

void peer_open(uint32_t workers) {
    executor = std::make_unique<tf::Executor>(workers);
    region = std::make_unique<tf::Taskflow>();
    for (uint32_t at = 0; at < workers; at++)
        region->emplace([at] { peers_task(at); });
}

void peer_close(void) {
    region.reset();
    executor.reset();
}

void peer_graph_build(void) {
    graph = std::make_unique<tf::Taskflow>();
    uint32_t columns = peers_columns, tasks = columns * peers_rows;
    std::vector<tf::Task> nodes;
    nodes.reserve(tasks);
    for (uint32_t at = 0; at < tasks; at++) {
        tf::Task task = graph->emplace([at] { peers_task(at); });
        if (at % columns > 0)
            nodes[at - 1].precede(task);
        if (at >= columns)
            nodes[at - columns].precede(task);
        if (at >= columns && at % columns + 1 < columns)
            nodes[at - columns + 1].precede(task);
        nodes.push_back(task);
    }
}

void peer_graph_run(uint32_t frames) {
    for (uint32_t frame = 0; frame < frames; frame++)
        executor->run(*graph).wait();
}

void peer_graph_drop(void) { graph.reset(); }

void peer_region(void) { executor->run(*region).wait(); }
