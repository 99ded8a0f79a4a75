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

/* The size of the wavefront, for those who build it. */
extern uint32_t peers_columns, peers_rows;

/* One row of a Jacobi sweep: a weighted mean of each point and its four neighbours. The pointers are to the first of `columns` points; a
 * point to either side of them is read, too. */
void peers_stencil_row(float *to, const float *above, const float *here, const float *below, size_t columns);

#ifdef __cplusplus
}
#endif
#endif
