/* StarPU: tasks whose dependencies follow from the data that they name. */
#include "peer.h"

#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>

static starpu_data_handle_t *handles = NULL;
static uint32_t handles_of = 0;

static size_t index_of(uint32_t i, uint32_t j) { return (size_t)i * (i + 1) / 2 + j; }

static void run_step(void *buffers[], void *arguments) {
    (void)buffers;
    uint32_t i, j, k;
    starpu_codelet_unpack_args(arguments, &i, &j, &k);
    peers_cholesky_step(i, j, k);
}

static struct starpu_codelet factor = {.cpu_funcs = {run_step}, .nbuffers = 1, .modes = {STARPU_RW}};
static struct starpu_codelet divide = {.cpu_funcs = {run_step}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};
static struct starpu_codelet square = {.cpu_funcs = {run_step}, .nbuffers = 2, .modes = {STARPU_R, STARPU_RW}};
static struct starpu_codelet update = {.cpu_funcs = {run_step}, .nbuffers = 3, .modes = {STARPU_R, STARPU_R, STARPU_RW}};

void peer_open(uint32_t workers) {
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = (int)workers;
    conf.ncuda = 0;
    conf.nopencl = 0;
    setenv("STARPU_SILENT", "1", 0);
    if (starpu_init(&conf) != 0) {
        fprintf(stderr, "StarPU does not start\n");
        exit(1);
    }
}

static void forget(void) {
    for (size_t at = 0; at < index_of(handles_of, 0); at++)
        starpu_data_unregister(handles[at]);
    free(handles);
    handles = NULL;
    handles_of = 0;
}

void peer_close(void) { starpu_shutdown(); }

void peer_graph_drop(void) { forget(); }

/* Registers the tiles; tasks are made at each run. */
void peer_cholesky_build(void) {
    handles = malloc(index_of(peers_tiles, 0) * sizeof *handles);
    handles_of = peers_tiles;
    for (uint32_t i = 0; i < peers_tiles; i++)
        for (uint32_t j = 0; j <= i; j++)
            starpu_matrix_data_register(&handles[index_of(i, j)], STARPU_MAIN_RAM, (uintptr_t)peers_tile_at(i, j), peers_tile_side,
                                        peers_tile_side, peers_tile_side, sizeof(double));
}

#define STEP(codelet, i, j, k, ...)                                                                                    \
    starpu_task_insert(codelet, STARPU_VALUE, &(i), sizeof(i), STARPU_VALUE, &(j), sizeof(j), STARPU_VALUE, &(k), sizeof(k), \
                       __VA_ARGS__, 0)

void peer_cholesky_run(void) {
    for (uint32_t k = 0; k < peers_tiles; k++) {
        starpu_data_handle_t kk = handles[index_of(k, k)];
        STEP(&factor, k, k, k, STARPU_RW, kk);
        for (uint32_t i = k + 1; i < peers_tiles; i++)
            STEP(&divide, i, k, k, STARPU_R, kk, STARPU_RW, handles[index_of(i, k)]);
        for (uint32_t i = k + 1; i < peers_tiles; i++) {
            starpu_data_handle_t ik = handles[index_of(i, k)];
            for (uint32_t j = k + 1; j < i; j++)
                STEP(&update, i, j, k, STARPU_R, ik, STARPU_R, handles[index_of(j, k)], STARPU_RW, handles[index_of(i, j)]);
            STEP(&square, i, i, k, STARPU_R, ik, STARPU_RW, handles[index_of(i, i)]);
        }
    }
    starpu_task_wait_for_all();
}
