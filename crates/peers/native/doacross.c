/* OpenMP without tasks: a loop over rows whose iterations wait for each other (`ordered(2)`, `depend(sink)` and `depend(source)`), which
 * is the interface that OpenMP has for wavefronts. */
#include "peer.h"

#include <omp.h>

static int workers_now = 1;

void peer_open(uint32_t workers) {
    workers_now = (int)workers;
    omp_set_dynamic(0);
    omp_set_num_threads(workers_now);
#pragma omp parallel
    {
    }
}

void peer_close(void) {}

void peer_graph_build(void) {}

void peer_graph_drop(void) {}

/* A thread runs whole rows from left to right, so the left neighbour needs no wait, and neither does the last task of a row, for which the
 * task before it has waited. (A `sink` outside of the loop is ignored by the standard, but waits for ever when clang 14 has compiled it with
 * a column beyond the last one. Hence the conditions.) */
static void two_edges(int rows, int columns) {
#pragma omp for ordered(2) schedule(static, 1)
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            if (column + 1 < columns) {
#pragma omp ordered depend(sink : row - 1, column + 1)
            }
            peers_task((uint32_t)(row * columns + column));
#pragma omp ordered depend(source)
        }
}

static void three_edges(int rows, int columns) {
#pragma omp for ordered(2) schedule(static, 1)
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            if (column + 1 < columns) {
#pragma omp ordered depend(sink : row, column - 1) depend(sink : row - 1, column) depend(sink : row - 1, column + 1)
            } else {
#pragma omp ordered depend(sink : row, column - 1) depend(sink : row - 1, column)
            }
            peers_task((uint32_t)(row * columns + column));
#pragma omp ordered depend(source)
        }
}

void peer_graph_run(uint32_t frames) {
    const int rows = (int)peers_rows, columns = (int)peers_columns;
#pragma omp parallel num_threads(workers_now)
    for (uint32_t frame = 0; frame < frames; frame++) {
        if (peers_edges == 2)
            two_edges(rows, columns);
        else
            three_edges(rows, columns);
    }
}
