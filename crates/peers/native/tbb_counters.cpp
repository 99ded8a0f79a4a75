// A lower limit made by hand: dependency counts beside an implicit graph; of the released tasks the first runs at once, the others are
// oneTBB tasks. A count that reads 1 needs no atomic operation.
#include "peer.h"

#include <atomic>
#include <memory>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {
std::unique_ptr<tbb::global_control> control;
std::unique_ptr<tbb::task_arena> arena;
std::unique_ptr<std::atomic<uint32_t>[]> counts;

uint32_t predecessors(uint32_t at) {
    return peers_after_left(at) + peers_after_up(at) + peers_after_up_right(at);
}

bool release(uint32_t at) {
    std::atomic<uint32_t> &count = counts[at];
    return count.load(std::memory_order_acquire) == 1 || count.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void run(tbb::task_group &group, uint32_t at) {
    const uint32_t columns = peers_columns, rows = peers_rows;
    for (;;) {
        counts[at].store(predecessors(at), std::memory_order_relaxed);
        peers_task(at);
        const uint32_t column = at % columns, row = at / columns;
        const uint32_t none = UINT32_MAX;
        uint32_t next = none;
        auto offer = [&](uint32_t to) {
            if (!release(to))
                return;
            if (next == none)
                next = to;
            else
                group.run([&group, to] { run(group, to); });
        };
        if (column + 1 < columns)
            offer(at + 1);
        if (row + 1 < rows && column > 0)
            offer(at + columns - 1);
        if (row + 1 < rows && peers_edges == 3)
            offer(at + columns);
        if (next == none)
            return;
        at = next;
    }
}
} // namespace

void peer_open(uint32_t workers) {
    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, workers);
    arena = std::make_unique<tbb::task_arena>(int(workers));
    arena->initialize();
}

void peer_close(void) {
    arena.reset();
    control.reset();
}

void peer_graph_build(void) {
    uint32_t tasks = peers_columns * peers_rows;
    counts = std::make_unique<std::atomic<uint32_t>[]>(tasks);
    for (uint32_t at = 0; at < tasks; at++)
        counts[at].store(predecessors(at), std::memory_order_relaxed);
}

void peer_graph_run(uint32_t frames) {
    arena->execute([frames] {
        for (uint32_t frame = 0; frame < frames; frame++) {
            tbb::task_group group;
            run(group, 0);
            group.wait();
        }
    });
}

void peer_graph_drop(void) { counts.reset(); }
