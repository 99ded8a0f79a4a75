/* What every program of this bench calls, whichever runtime it belongs to: one copy of machine code for all of them.
 *
 * It is linked into the `peers` executable, which exports it; shared objects of native peers find it there. */
#ifndef PEERS_BODY_H
#define PEERS_BODY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The body of task `index`: counts itself for its thread, then spins without touching memory. */
void peers_task(uint32_t index);

/* The size of the wavefront, and how many tasks an inner task waits for: 3, or 2 without the edge that the two others imply. */
extern uint32_t peers_columns, peers_rows, peers_edges;

/* Whether task `at` waits for the task on its left (`at - 1`), above (`at - peers_columns`), above right (`at - peers_columns + 1`).
 * The task above comes before the one above right, so `peers_edges == 2` leaves out the edge from it; in the last column, which has no
 * task above right, it comes before the one on the left. */
static inline int peers_after_left(uint32_t at) { return at % peers_columns > 0; }
static inline int peers_after_up(uint32_t at) { return peers_edges == 3 && at >= peers_columns; }
static inline int peers_after_up_right(uint32_t at) {
    return at >= peers_columns && at % peers_columns + 1 < peers_columns;
}

/* One row of a Jacobi sweep: a weighted mean of each point and its four neighbours. The pointers are to the first of `columns` points; a
 * point to either side of them is read, too. */
void peers_stencil_row(float *to, const float *above, const float *here, const float *below, size_t columns);

/* The matrix of the Cholesky factorisation: `peers_tiles` x `peers_tiles` tiles of `peers_tile_side` x `peers_tile_side` numbers, of which those with
 * j <= i are kept. `peers_tile_at` is where tile (i, j) lies. */
extern uint32_t peers_tiles, peers_tile_side;
double *peers_tile_at(uint32_t i, uint32_t j);

/* Step k of tile (i, j), k <= j <= i. It waits for step k - 1 of its tile and for the last steps of the tiles that it reads: (i, k) and
 * (j, k) if k < j; (k, k) if k = j < i. */
void peers_cholesky_step(uint32_t i, uint32_t j, uint32_t k);

#ifdef __cplusplus
}
#endif
#endif
