/* The Cholesky factorisation of a matrix of `--size` rows in tiles of `--tile` (a multiple of 8), by tasks with `depend`. Checks the
 * factor: times its transpose it is the matrix. */
#include "check.h"
#include "tiles.h"
#include <omp.h>

static int n, t, tiles;

/* Tiles lie one after the other; in a tile, columns do. */
static double *tile_of(double *a, int i, int j)
{
    return a + ((size_t)i * (size_t)tiles + (size_t)j) * (size_t)t * (size_t)t;
}

static double *at(double *a, int i, int j)
{
    return tile_of(a, i / t, j / t) + (j % t) * t + i % t;
}

static double entry(int i, int j)
{
    return i == j ? n + 1.0 : 1.0 / (1 + abs(i - j) % 37) + (double)((i ^ j) % 5) / 10;
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    n = (int)option(argc, argv, "size", quick ? 128 : 1024);
    t = (int)option(argc, argv, "tile", quick ? 16 : 64) / LANES * LANES;
    tiles = n / t;
    n = tiles * t;
    size_t bytes = sizeof(double) * (size_t)n * (size_t)n;
    double *a = malloc(bytes);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            *at(a, i, j) = entry(i, j);
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < tiles; k++) {
        double *kk = tile_of(a, k, k);
#pragma omp task depend(inout : kk[0]) firstprivate(kk)
        factor(t, kk);
        for (int i = k + 1; i < tiles; i++) {
            double *ik = tile_of(a, i, k);
#pragma omp task depend(in : kk[0]) depend(inout : ik[0]) firstprivate(kk, ik)
            divide(t, kk, ik);
        }
        for (int i = k + 1; i < tiles; i++) {
            for (int j = k + 1; j <= i; j++) {
                double *ik = tile_of(a, i, k), *jk = tile_of(a, j, k), *ij = tile_of(a, i, j);
#pragma omp task depend(in : ik[0], jk[0]) depend(inout : ij[0]) firstprivate(ik, jk, ij)
                update(t, ik, jk, ij);
            }
        }
    }
    printf("seconds %.6f\n", seconds() - begin);
    /* Some rows are enough to see a wrong tile: each row of the product uses all tiles to its left. The last row uses every row's. */
    double worst = 0;
    for (int i = n - 1; i >= 0; i -= quick ? 1 : n / 24 + 1) {
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k <= j; k++)
                sum += *at(a, i, k) * *at(a, j, k);
            worst = fmax(worst, fabs(sum - entry(i, j)));
        }
    }
    CHECK(worst < 1e-9 * n, "the factor times its transpose");
    return finish();
}
