/* Fast Fourier transforms of a cube of `--size` points a side (a power of two), there and back. Checks that the values come back, and that the
 * transform of a wave is one peak. */
#include "check.h"
#include <complex.h>
#include <math.h>
#include <omp.h>

static int n;
static double complex *roots;

/* The transform of `n` values in `line`; `sign` is -1 there and +1 back. */
static void transform(double complex *line, int sign)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j |= bit;
        if (i < j) {
            double complex t = line[i];
            line[i] = line[j];
            line[j] = t;
        }
    }
    for (int length = 2; length <= n; length *= 2) {
        int step = n / length;
        for (int i = 0; i < n; i += length) {
            for (int k = 0; k < length / 2; k++) {
                double complex root = sign < 0 ? roots[k * step] : conj(roots[k * step]);
                double complex a = line[i + k], b = line[i + k + length / 2] * root;
                line[i + k] = a + b;
                line[i + k + length / 2] = a - b;
            }
        }
    }
}

/* Transforms all lines along one axis, whose neighbours are `stride` apart. */
static void axis(double complex *cube, size_t stride, int sign)
{
#pragma omp parallel
    {
        double complex *line = malloc(sizeof *line * (size_t)n);
#pragma omp for collapse(2) schedule(static)
        for (int a = 0; a < n; a++) {
            for (int b = 0; b < n; b++) {
                size_t N = (size_t)n;
                size_t first = stride == 1 ? ((size_t)a * N + (size_t)b) * N
                             : stride == N ? (size_t)a * N * N + (size_t)b
                                           : (size_t)a * N + (size_t)b;
                for (int i = 0; i < n; i++)
                    line[i] = cube[first + stride * (size_t)i];
                transform(line, sign);
                for (int i = 0; i < n; i++)
                    cube[first + stride * (size_t)i] = line[i];
            }
        }
        free(line);
    }
}

static void all_axes(double complex *cube, int sign)
{
    size_t N = (size_t)n;
    axis(cube, 1, sign);
    axis(cube, N, sign);
    axis(cube, N * N, sign);
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    n = (int)option(argc, argv, "size", quick ? 16 : 64);
    int rounds = (int)option(argc, argv, "rounds", quick ? 3 : 12);
    const double pi = 3.14159265358979323846;
    size_t N = (size_t)n, points = N * N * N;
    roots = malloc(sizeof *roots * N);
    for (int i = 0; i < n; i++)
        roots[i] = cexp(-2 * pi * I * i / n);
    double complex *cube = malloc(sizeof *cube * points), *kept = malloc(sizeof *kept * points);
    unsigned long x = 1;
    for (size_t i = 0; i < points; i++) {
        x = spin(x, 1);
        kept[i] = (double)(x >> 40) / (1 << 24) + I * (double)((x >> 16) & 0xffffff) / (1 << 24);
    }
    double begin = seconds();
    for (int round = 0; round < rounds; round++) {
        memcpy(cube, kept, sizeof *cube * points);
        all_axes(cube, -1);
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < points; i++)
            cube[i] /= (double)points;
        all_axes(cube, 1);
        double worst = 0;
#pragma omp parallel for reduction(max : worst)
        for (size_t i = 0; i < points; i++)
            worst = fmax(worst, cabs(cube[i] - kept[i]));
        CHECK(worst < 1e-10, "values come back");
    }
    printf("seconds %.6f\n", seconds() - begin);
    /* The wave with 3, 5 and 2 periods along the axes. */
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            for (size_t k = 0; k < N; k++)
                cube[(i * N + j) * N + k] = cexp(2 * pi * I * (double)(3 * i + 5 * j + 2 * k) / n);
    all_axes(cube, -1);
    for (size_t i = 0; i < points; i++) {
        double expected = i == (3 * N + 5) * N + 2 ? (double)points : 0;
        CHECK(cabs(cube[i] - expected) < 1e-6 * (double)points, "a wave is one peak");
    }
    return finish();
}
