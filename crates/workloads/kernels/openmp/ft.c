/* FT, class B: 512 x 256 x 256 complex numbers; evolution, and transforms along each dimension in blocks of 16, by Stockham's algorithm in
 * two scratch arrays of the thread. A unit is one block of 16 lines, or 16 rows. */
#include "region.h"

enum { NX = 512, NY = 256, NZ = 256, BLOCK = 16, PAD = 18, MOST = NX };

typedef struct {
    double re, im;
} complex_t;

static complex_t *u0, *u1, *roots;
static double *twiddle;
#define AT(x, k, j, i) x[((long)(k) * NY + (j)) * NX + (i)]

static _Thread_local complex_t scratch[2][MOST][PAD];

/* Transforms BLOCK lines of `n` numbers, which lie in scratch[0], and leaves the result there. */
static void transform(int n) {
    int from = 0;
    for (int half = n / 2, step = 1; half >= 1; half /= 2, step *= 2, from = 1 - from)
        for (int k = 0; k < half; k++) {
            complex_t w = roots[half + k];
            for (int s = 0; s < step; s++) {
                complex_t *a = scratch[from][k * step + s], *b = scratch[from][k * step + s + n / 2];
                complex_t *c = scratch[1 - from][2 * k * step + s], *d = scratch[1 - from][(2 * k + 1) * step + s];
                for (int line = 0; line < BLOCK; line++) {
                    double re = a[line].re - b[line].re, im = a[line].im - b[line].im;
                    c[line].re = a[line].re + b[line].re;
                    c[line].im = a[line].im + b[line].im;
                    d[line].re = w.re * re - w.im * im;
                    d[line].im = w.re * im + w.im * re;
                }
            }
        }
    if (from == 1)
        for (int k = 0; k < n; k++)
            for (int line = 0; line < BLOCK; line++)
                scratch[0][k][line] = scratch[1][k][line];
}

static void evolve(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++)
        for (int j = unit % 16 * BLOCK; j < unit % 16 * BLOCK + BLOCK; j++)
            for (int i = 0; i < NX; i++) {
                double t = twiddle[((long)(unit / 16) * NY + j) * NX + i];
                complex_t *x = &AT(u0, unit / 16, j, i);
                x->re *= t;
                x->im *= t;
                AT(u1, unit / 16, j, i) = *x;
            }
}

static void first(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int k = unit / 16, j = unit % 16 * BLOCK;
        for (int line = 0; line < BLOCK; line++)
            for (int i = 0; i < NX; i++)
                scratch[0][i][line] = AT(u1, k, j + line, i);
        transform(NX);
        for (int line = 0; line < BLOCK; line++)
            for (int i = 0; i < NX; i++)
                AT(u1, k, j + line, i) = scratch[0][i][line];
    }
}

static void second(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int k = unit / 32, i = unit % 32 * BLOCK;
        for (int j = 0; j < NY; j++)
            for (int line = 0; line < BLOCK; line++)
                scratch[0][j][line] = AT(u1, k, j, i + line);
        transform(NY);
        for (int j = 0; j < NY; j++)
            for (int line = 0; line < BLOCK; line++)
                AT(u1, k, j, i + line) = scratch[0][j][line];
    }
}

static void third(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int unit = from; unit < to; unit++) {
        int j = unit / 32, i = unit % 32 * BLOCK;
        for (int k = 0; k < NZ; k++)
            for (int line = 0; line < BLOCK; line++)
                scratch[0][k][line] = AT(u1, k, j, i + line);
        transform(NZ);
        for (int k = 0; k < NZ; k++)
            for (int line = 0; line < BLOCK; line++)
                AT(u1, k, j, i + line) = scratch[0][k][line];
    }
}

int main(void) {
    size_t points = (size_t)NX * NY * NZ;
    u0 = region_array(points * sizeof *u0);
    u1 = region_array(points * sizeof *u1);
    twiddle = region_array(points * sizeof *twiddle);
    roots = region_array(sizeof(complex_t) * NX);
    for (int half = 1; half < NX; half *= 2)
        for (int k = 0; k < half; k++)
            roots[half + k] = (complex_t){cos(M_PI * k / half), -sin(M_PI * k / half)};
    MEASURE(0, 16, evolve, 8, 32);
    MEASURE(1, 16, first, 4, 8);
    MEASURE(2, 32, second, 4, 12);
    MEASURE(3, 32, third, 4, 12);
    printf("%g\n", u1[5].re);
    return 0;
}
