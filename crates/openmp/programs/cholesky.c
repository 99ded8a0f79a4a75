/* The Cholesky factorisation of a matrix of `--size` rows in tiles of `--tile`, by tasks with `depend`. Checks the factor: times its transpose it
 * is the matrix. */
#include "check.h"
#include <math.h>
#include <omp.h>

static int n, t, tiles;

static double *tile_of(double *a, int i, int j)
{
    return a + ((size_t)i * (size_t)tiles + (size_t)j) * (size_t)t * (size_t)t;
}

static void factor(double *a)
{
    for (int k = 0; k < t; k++) {
        a[k * t + k] = sqrt(a[k * t + k]);
        for (int i = k + 1; i < t; i++)
            a[i * t + k] /= a[k * t + k];
        for (int i = k + 1; i < t; i++)
            for (int j = k + 1; j <= i; j++)
                a[i * t + j] -= a[i * t + k] * a[j * t + k];
    }
    for (int i = 0; i < t; i++)
        for (int j = i + 1; j < t; j++)
            a[i * t + j] = 0;
}

/* b = b / transpose of the triangle l */
static void divide(const double *l, double *b)
{
    for (int i = 0; i < t; i++) {
        for (int j = 0; j < t; j++) {
            double sum = b[i * t + j];
            for (int k = 0; k < j; k++)
                sum -= b[i * t + k] * l[j * t + k];
            b[i * t + j] = sum / l[j * t + j];
        }
    }
}

/* c -= a times the transpose of b, in blocks of four columns that the compiler keeps in registers */
static void update(const double *restrict a, const double *restrict b, double *restrict c)
{
    double turned[t * t];
    for (int i = 0; i < t; i++)
        for (int j = 0; j < t; j++)
            turned[j * t + i] = b[i * t + j];
    for (int i = 0; i < t; i++) {
        for (int k = 0; k < t; k++) {
            double x = a[i * t + k];
            for (int j = 0; j < t; j++)
                c[i * t + j] -= x * turned[k * t + j];
        }
    }
}

static double entry(int i, int j)
{
    return i == j ? n + 1.0 : 1.0 / (1 + abs(i - j) % 37) + (double)((i ^ j) % 5) / 10;
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    n = (int)option(argc, argv, "size", quick ? 128 : 1024);
    t = (int)option(argc, argv, "tile", quick ? 16 : 64);
    tiles = n / t;
    n = tiles * t;
    size_t bytes = sizeof(double) * (size_t)n * (size_t)n;
    double *a = malloc(bytes);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            tile_of(a, i / t, j / t)[(i % t) * t + j % t] = entry(i, j);
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < tiles; k++) {
        double *kk = tile_of(a, k, k);
#pragma omp task depend(inout : kk[0]) firstprivate(kk)
        factor(kk);
        for (int i = k + 1; i < tiles; i++) {
            double *ik = tile_of(a, i, k);
#pragma omp task depend(in : kk[0]) depend(inout : ik[0]) firstprivate(kk, ik)
            divide(kk, ik);
        }
        for (int i = k + 1; i < tiles; i++) {
            for (int j = k + 1; j <= i; j++) {
                double *ik = tile_of(a, i, k), *jk = tile_of(a, j, k), *ij = tile_of(a, i, j);
#pragma omp task depend(in : ik[0], jk[0]) depend(inout : ij[0]) firstprivate(ik, jk, ij)
                update(ik, jk, ij);
            }
        }
    }
    printf("seconds %.6f\n", seconds() - begin);
    /* Some rows are enough to see a wrong tile: each row of the product uses all tiles to its left. */
    double worst = 0;
    for (int i = 0; i < n; i += quick ? 1 : 41) {
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k <= j; k++)
                sum += tile_of(a, i / t, k / t)[(i % t) * t + k % t] * tile_of(a, j / t, k / t)[(j % t) * t + k % t];
            worst = fmax(worst, fabs(sum - entry(i, j)));
        }
    }
    CHECK(worst < 1e-9 * n, "the factor times its transpose");
    return finish();
}
