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

/* Eight numbers of a column, which compilers keep in as few registers as the processor allows. */
enum { LANES = 8 };
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double))));

/* b = b / transpose of the triangle l */
static inline void divide(int t, const double *restrict l, double *restrict b)
{
    for (int i = 0; i < t; i += LANES) {
        for (int j = 0; j < t; j++) {
            lanes sum = *(lanes *)&b[j * t + i];
            for (int k = 0; k < j; k++)
                sum -= *(lanes *)&b[k * t + i] * l[k * t + j];
            *(lanes *)&b[j * t + i] = sum / l[j * t + j];
        }
    }
}

/* c -= a times the transpose of b */
static inline void update(int t, const double *restrict a, const double *restrict b, double *restrict c)
{
    for (int i = 0; i < t; i += LANES) {
        for (int j = 0; j < t; j += 4) {
            double *to = &c[j * t + i];
            lanes c0 = *(lanes *)to, c1 = *(lanes *)(to + t), c2 = *(lanes *)(to + 2 * t), c3 = *(lanes *)(to + 3 * t);
            for (int k = 0; k < t; k++) {
                lanes column = *(const lanes *)&a[k * t + i];
                const double *row = &b[k * t + j];
                c0 -= column * row[0];
                c1 -= column * row[1];
                c2 -= column * row[2];
                c3 -= column * row[3];
            }
            *(lanes *)to = c0, *(lanes *)(to + t) = c1, *(lanes *)(to + 2 * t) = c2, *(lanes *)(to + 3 * t) = c3;
        }
    }
}

#endif
