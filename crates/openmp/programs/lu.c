/* A pipelined sweep as LU has it: within one region each thread waits for its neighbour by reading a flag of the program's own, again and again,
 * so threads need each other to run, whatever the runtime's way of waiting is. Checks the result against plain loops. */
#include "check.h"
#include <omp.h>

enum { MOST = 256, LINE = 16 };

static int n;
static volatile long flag[(MOST + 1) * LINE];

#define AT(i, j) ((size_t)(i) * (size_t)n + (size_t)(j))

static void cell(double *u, int i, int j)
{
    u[AT(i, j)] = 0.5 * u[AT(i, j)] + 0.25 * (u[AT(i - 1, j)] + u[AT(i, j - 1)]) + 0.001;
}

/* Sweeps `layers` layers. Thread t has a block of columns and begins row i of a layer when thread t - 1 has done its part of that row. */
static void sweep(double *u, int layers)
{
    for (int t = 0; t <= MOST; t++)
        flag[t * LINE] = 0;
#pragma omp parallel num_threads(omp_get_max_threads() < MOST ? omp_get_max_threads() : MOST)
    {
        int size = omp_get_num_threads();
        int me = omp_get_thread_num();
        int first = 1 + (n - 1) * me / size;
        int last = 1 + (n - 1) * (me + 1) / size;
        for (long layer = 0; layer < layers; layer++) {
            for (int i = 1; i < n; i++) {
                long turn = layer * n + i;
                if (me > 0) {
                    while (__atomic_load_n(&flag[(me - 1) * LINE], __ATOMIC_ACQUIRE) < turn)
                        ;
                }
                for (int j = first; j < last; j++)
                    cell(u, i, j);
                __atomic_store_n(&flag[me * LINE], turn, __ATOMIC_RELEASE);
            }
            /* Each layer uses what all threads left of the one before. */
#pragma omp barrier
        }
    }
}

/* A loop between sweeps, as LU has them. */
static double scale(double *u)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            u[AT(i, j)] = u[AT(i, j)] * 0.999 + 0.0005;
            sum += u[AT(i, j)];
        }
    }
    return sum;
}

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    n = (int)option(argc, argv, "size", quick ? 64 : 512);
    int rounds = (int)option(argc, argv, "rounds", quick ? 3 : 80);
    size_t number = (size_t)n * (size_t)n;
    double *u = malloc(sizeof(double) * number), *plain = malloc(sizeof(double) * number);
    for (size_t i = 0; i < number; i++)
        u[i] = plain[i] = (double)(i % 101) / 101;
    double begin = seconds();
    for (int round = 0; round < rounds; round++) {
        sweep(u, 4);
        scale(u);
    }
    printf("seconds %.6f\n", seconds() - begin);
    for (int round = 0; round < rounds; round++) {
        for (int layer = 0; layer < 4; layer++) {
            for (int i = 1; i < n; i++)
                for (int j = 1; j < n; j++)
                    cell(plain, i, j);
        }
        for (size_t i = 0; i < number; i++)
            plain[i] = plain[i] * 0.999 + 0.0005;
    }
    CHECK(memcmp(u, plain, sizeof(double) * number) == 0, "the same bits as plain loops");
    return finish();
}
