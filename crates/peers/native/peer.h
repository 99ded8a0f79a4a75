/* What the shared object of a native peer offers. It offers only the functions of the cases that it takes part in. */
#ifndef PEERS_PEER_H
#define PEERS_PEER_H

#include "body.h"

#ifdef __cplusplus
#define PEERS_API extern "C" __attribute__((visibility("default")))
#else
#define PEERS_API __attribute__((visibility("default")))
#endif

/* Starts and stops the workers. */
PEERS_API void peer_open(uint32_t workers);
PEERS_API void peer_close(void);

/* Builds the wavefront, runs it `frames` times, one frame after the other, and drops it. */
PEERS_API void peer_graph_build(void);
PEERS_API void peer_graph_run(uint32_t frames);
PEERS_API void peer_graph_drop(void);

/* One parallel region: `peers_task` once for each worker. */
PEERS_API void peer_region(void);

/* Runs `peers_task` for 0 to `tasks`, which wait for nothing: as a loop (`scope` is 0), or task by task. */
PEERS_API void peer_flat(uint32_t scope, uint32_t tasks);

/* Runs `tasks` tasks that others register while they run: each the next (`shape` is 0), task n the tasks 2n + 1 and 2n + 2 (1), one of them
 * all others (2). */
PEERS_API void peer_grow(uint32_t shape, uint32_t tasks);

/* A node of a binary tree; null for none. */
struct peers_node {
    const struct peers_node *left, *right;
    uint64_t value;
};

/* A recursion that forks without a cutoff; its result. `kernel` 0: the Fibonacci number `size`. 1: the rest, `size - 1` and so on, and
 * `peers_task(size)`, which is forked. 2: the sum of the values of `tree`. 3: the number of nodes of a tree whose root has `size` children.
 * 4: the sum of the numbers below `size`, a power of ten. 5: the number of ways to place `size` queens. */
PEERS_API uint64_t peer_fork(uint32_t kernel, uint32_t size, const struct peers_node *tree);

/* A number that looks random (SplitMix64). */
static inline uint64_t peers_hash(uint64_t number) {
    uint64_t mixed = number * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

/* The children of a node of kernel 3. */
static inline uint32_t peers_twigs(uint64_t name) { return name < UINT64_MAX / 100000 * 12480 ? 8 : 0; }

/* `sweeps` Jacobi sweeps over `size` x `size` points, from `a` to `b` and back. The pointers are to the first point; rows are `stride`
 * apart, and the field has a border of one point, which stays as it is. */
PEERS_API void peer_stencil(float *a, float *b, size_t size, size_t stride, uint32_t sweeps);

/* A rectangle of points: columns `x` to `x + w` of rows `y` to `y + h`. */
struct peers_tile {
    size_t x, y, w, h;
};

/* Builds the graph of `sweeps` sweeps in which a task is one sweep over one of `count` tiles and waits for that tile and its neighbours in
 * the sweep before (bands of `strips` tiles follow one another); runs it on fields as those of `peer_stencil`. `peer_graph_drop` drops it. */
PEERS_API void peer_tiles_build(const struct peers_tile *tiles, size_t count, size_t strips, uint32_t sweeps);
PEERS_API void peer_tiles_run(float *a, float *b, size_t stride);

/* Runs all steps of the Cholesky factorisation of the matrix of body.h. What can be built before is built by `peer_cholesky_build`, if the
 * peer has graphs that are built once; `peer_graph_drop` drops it. */
PEERS_API void peer_cholesky_build(void);
PEERS_API void peer_cholesky_run(void);

/* Decodes an H.264 stream and gives each frame to `frame`, as planes and bytes a row of luma and chroma; how many there were. */
typedef void (*peer_frame)(void *context, const uint8_t *const planes[3], const size_t strides[2], size_t width, size_t height);
PEERS_API uint64_t peer_decode(const uint8_t *stream, size_t length, peer_frame frame, void *context);

#endif
