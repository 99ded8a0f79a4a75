/* EP, class B: 2^30 pairs of random numbers, 2^16 in each of 16,384 iterations; those in the unit circle become Gaussian deviates. */
#include "region.h"

enum { PAIRS = 1 << 16, PARTS = 64 };

static double sums[2], rings[10];

/* A unit is 1/64 of an iteration. The generator is NPB's: x -> 5^13 x mod 2^46, here in whole numbers. */
static void pairs(int from, int to) {
    double sx = 0, sy = 0;
#pragma omp parallel for schedule(static) reduction(+ : sx, sy)
    for (int part = from; part < to; part++) {
        static _Thread_local double numbers[2 * PAIRS / PARTS];
        uint64_t x = 271828183u + (uint64_t)part * 2654435761u;
        for (int i = 0; i < 2 * PAIRS / PARTS; i++) {
            x = x * 1220703125u & ((1ull << 46) - 1);
            numbers[i] = 2.0 * ((double)x * 0x1p-46) - 1.0;
        }
        double counts[10] = {0};
        for (int i = 0; i < PAIRS / PARTS; i++) {
            double a = numbers[2 * i], b = numbers[2 * i + 1], t = a * a + b * b;
            if (t > 1.0)
                continue;
            double f = sqrt(-2.0 * log(t) / t), g = fabs(a * f), h = fabs(b * f);
            counts[(int)(g > h ? g : h) % 10] += 1;
            sx += a * f;
            sy += b * f;
        }
#pragma omp critical
        for (int i = 0; i < 10; i++)
            rings[i] += counts[i];
    }
    sums[0] += sx;
    sums[1] += sy;
}

int main(void) {
    MEASURE(0, PARTS, pairs, 4, 16);
    printf("%g %g %g\n", sums[0], sums[1], rings[0]);
    return 0;
}
