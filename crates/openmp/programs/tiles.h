/* The three steps of a Cholesky factorisation on tiles of `t` x `t` numbers, `t` a multiple of 8, column after column. The peers bench
 * measures other runtimes with them, too. */
#ifndef TILES_H
#define TILES_H

#include <math.h>

/* a = the triangle whose product with its transpose a was */
static inline void factor(int t, double *a)
{
    for (int k = 0; k < t; k++) {
        double root = sqrt(a[k * t + k]);
        for (int i = 0; i < k; i++)
            a[k * t + i] = 0;
        a[k * t + k] = root;
        for (int i = k + 1; i < t; i++)
            a[k * t + i] /= root;
        for (int j = k + 1; j < t; j++)
            for (int i = j; i < t; i++)
                a[j * t + i] -= a[k * t + i] * a[k * t + j];
    }
}

/* Some numbers of a column, as many as a register of the processor holds: compilers keep wider ones in memory. Two registers a column, where
 * there are no wider ones, give a processor with two multipliers enough to do. */
#if defined __AVX512F__
enum { LANES = 8, PARTS = 1 };
#elif defined __AVX__
enum { LANES = 4, PARTS = 2 };
#else
enum { LANES = 2, PARTS = 2 };
#endif
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double))));

/* b = b / transpose of the triangle l */
static inline void divide(int t, const double *restrict l, double *restrict b)
{
    for (int i = 0; i < t; i += LANES * PARTS) {
        for (int j = 0; j < t; j++) {
            lanes *to = (lanes *)&b[j * t + i], sum[PARTS];
            for (int p = 0; p < PARTS; p++)
                sum[p] = to[p];
            for (int k = 0; k < j; k++)
                for (int p = 0; p < PARTS; p++)
                    sum[p] -= ((lanes *)&b[k * t + i])[p] * l[k * t + j];
            for (int p = 0; p < PARTS; p++)
                to[p] = sum[p] / l[j * t + j];
        }
    }
}

/* c -= a times the transpose of b */
static inline void update(int t, const double *restrict a, const double *restrict b, double *restrict c)
{
    for (int i = 0; i < t; i += LANES * PARTS) {
        for (int j = 0; j < t; j += 4) {
            lanes sum[4][PARTS];
            for (int column = 0; column < 4; column++)
                for (int p = 0; p < PARTS; p++)
                    sum[column][p] = ((lanes *)&c[(j + column) * t + i])[p];
            for (int k = 0; k < t; k++)
                for (int column = 0; column < 4; column++)
                    for (int p = 0; p < PARTS; p++)
                        sum[column][p] -= ((const lanes *)&a[k * t + i])[p] * b[k * t + j + column];
            for (int column = 0; column < 4; column++)
                for (int p = 0; p < PARTS; p++)
                    ((lanes *)&c[(j + column) * t + i])[p] = sum[column][p];
        }
    }
}

#endif
