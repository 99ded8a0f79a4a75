/* A lower limit made by hand: a count of finished tasks for each row of the wavefront. A thread runs whole rows; before a task it spins
 * until the row above is two tasks ahead, and after it there is one store. The graph has no edges, so `peers_edges` changes nothing. */
#include "threads.h"
#include "peer.h"

static uint32_t workers_now = 1, frames_now = 0;
static struct progress *rows_done = NULL;

/* Counts go on from frame to frame. Every task comes before the last one of its frame, for which the next frame's first row waits. */
static void work(void *context, uint32_t thread) {
    (void)context;
    const size_t columns = peers_columns, rows = peers_rows;
    for (uint32_t frame = 0; frame < frames_now; frame++) {
        const size_t before = frame * columns;
        for (size_t row = thread; row < rows; row += workers_now) {
            struct progress *above = &rows_done[row > 0 ? row - 1 : rows - 1];
            size_t seen = row > 0 ? 0 : progress_wait(above, before);
            for (size_t column = 0; column < columns; column++) {
                const size_t ahead = column + 2 < columns ? column + 2 : columns;
                if (row > 0 && seen < before + ahead)
                    seen = progress_wait(above, before + ahead);
                peers_task((uint32_t)(row * columns + column));
                progress_set(&rows_done[row], before + column + 1);
            }
        }
    }
}

void peer_open(uint32_t workers) { workers_now = workers; }

void peer_close(void) {}

void peer_graph_build(void) { rows_done = progress_new(peers_rows); }

void peer_graph_run(uint32_t frames) {
    frames_now = frames;
    for (uint32_t row = 0; row < peers_rows; row++)
        progress_set(&rows_done[row], 0);
    on_threads(workers_now, work, NULL);
}

void peer_graph_drop(void) {
    free(rows_done);
    rows_done = NULL;
}
