/* An unstructured gather: values of `--size` cells move along random links, which a loop with uneven rows collects. Checks that no value is lost,
 * and the result against plain loops. */
#include "check.h"
#include <omp.h>

int main(int argc, char **argv)
{
    int quick = has_flag(argc, argv, "quick");
    int cells = (int)option(argc, argv, "size", quick ? 5000 : 200000);
    int rounds = (int)option(argc, argv, "rounds", quick ? 5 : 60);
    size_t number = (size_t)cells;
    /* Cell i gives a part to each of its links, so the sum stays. Few cells have many links. */
    int *start = malloc(sizeof(int) * (number + 1));
    unsigned long x = 27182818;
    start[0] = 0;
    for (int i = 0; i < cells; i++) {
        x = spin(x, 1);
        start[i + 1] = start[i] + ((x >> 40) % 100 == 0 ? 100 : 1 + (int)((x >> 33) % 8));
    }
    int links = start[cells];
    int *from = malloc(sizeof(int) * (size_t)links);
    int *given = calloc(number, sizeof(int));
    for (int l = 0; l < links; l++) {
        x = spin(x, 1);
        from[l] = (int)((x >> 33) % (unsigned)cells);
        given[from[l]]++;
    }
    long *now = malloc(sizeof(long) * number), *next = malloc(sizeof(long) * number), *plain = malloc(sizeof(long) * number);
    long total = 0;
    for (int i = 0; i < cells; i++) {
        now[i] = plain[i] = 1000000 + i % 1000;
        total += now[i];
    }
    double begin = seconds();
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel
        {
#pragma omp for schedule(dynamic, 512)
            for (int i = 0; i < cells; i++) {
                long sum = given[i] == 0 ? now[i] : now[i] % given[i];
                for (int l = start[i]; l < start[i + 1]; l++)
                    sum += now[from[l]] / given[from[l]];
                next[i] = sum;
            }
#pragma omp for schedule(static)
            for (int i = 0; i < cells; i++)
                now[i] = next[i];
        }
    }
    printf("seconds %.6f\n", seconds() - begin);
    long sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < cells; i++)
        sum += now[i];
    CHECK(sum == total, "no value is lost");
    if (rounds <= 10) {
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < cells; i++) {
                next[i] = given[i] == 0 ? plain[i] : plain[i] % given[i];
                for (int l = start[i]; l < start[i + 1]; l++)
                    next[i] += plain[from[l]] / given[from[l]];
            }
            memcpy(plain, next, sizeof(long) * number);
        }
        CHECK(memcmp(plain, now, sizeof(long) * number) == 0, "the result of plain loops");
    }
    return finish();
}
