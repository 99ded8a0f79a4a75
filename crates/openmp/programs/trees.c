/* Recursive tasks without `depend`: `--fib N`, `--queens N`, `--villages LEVELS` (a walk over a tree whose nodes pass patients on to their
 * parents); without any, all three, small. Prints the seconds and checks the results. */
#include "check.h"
#include <omp.h>

static long fib(long n)
{
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a) firstprivate(n) untied
    a = fib(n - 1);
#pragma omp task shared(b) firstprivate(n) untied
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

/* Queens on a board of n: `columns`, `left` and `right` say which places of this row are attacked. */
static long queens(int n, unsigned columns, unsigned left, unsigned right)
{
    unsigned all = (1u << n) - 1;
    if (columns == all)
        return 1;
    long found[32];
    int number = 0;
    for (unsigned free_places = all & ~(columns | left | right); free_places != 0;) {
        unsigned place = free_places & -free_places;
        free_places ^= place;
        int mine = number++;
#pragma omp task shared(found) firstprivate(n, columns, left, right, place, mine) untied
        found[mine] = queens(n, columns | place, (left | place) << 1, (right | place) >> 1);
    }
#pragma omp taskwait
    long sum = 0;
    for (int i = 0; i < number; i++)
        sum += found[i];
    return sum;
}

enum { BRANCHES = 4, DEEPEST = 10 };

struct village {
    struct village *inner;
    unsigned long state;
    long waiting, treated, arrived;
};

static void settle(struct village *village, int level, unsigned long seed)
{
    village->state = spin(seed, 3);
    village->waiting = village->treated = village->arrived = 0;
    village->inner = NULL;
    if (level > 1) {
        village->inner = malloc(BRANCHES * sizeof *village->inner);
        for (int i = 0; i < BRANCHES; i++)
            settle(&village->inner[i], level - 1, seed * BRANCHES + (unsigned)i + 1);
    }
}

/* One day of a village: first of those within, then of its own. Returns how many patients go on to the village around it. */
static long day(struct village *village)
{
    long from[BRANCHES] = {0};
    if (village->inner != NULL) {
        for (int i = 0; i < BRANCHES; i++) {
#pragma omp task shared(from) firstprivate(village, i) untied
            from[i] = day(&village->inner[i]);
        }
#pragma omp taskwait
    }
    village->state = spin(village->state, 5);
    long ill = (long)(village->state >> 60);
    village->arrived += ill;
    village->waiting += ill + from[0] + from[1] + from[2] + from[3];
    long healed = village->waiting < 6 ? village->waiting : 6;
    village->treated += healed;
    village->waiting -= healed;
    long on = village->waiting / 3;
    village->waiting -= on;
    return on;
}

static void count(const struct village *village, long *arrived, long *known)
{
    *arrived += village->arrived;
    *known += village->waiting + village->treated;
    for (int i = 0; village->inner != NULL && i < BRANCHES; i++)
        count(&village->inner[i], arrived, known);
}

static void check_fib(long n)
{
    long result = -1;
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    result = fib(n);
    printf("fib seconds %.6f\n", seconds() - begin);
    long a = 0, b = 1;
    for (long i = 0; i < n; i++) {
        long sum = a + b;
        a = b;
        b = sum;
    }
    CHECK(result == a, "fib");
}

static void check_queens(long n)
{
    static const long solutions[] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712};
    long result = -1;
    double begin = seconds();
#pragma omp parallel
#pragma omp single
    result = queens((int)n, 0, 0, 0);
    printf("queens seconds %.6f\n", seconds() - begin);
    CHECK(n > 13 || result == solutions[n], "queens");
}

static void check_villages(long levels)
{
    struct village root;
    long out = 0, arrived = 0, known = 0;
    settle(&root, (int)(levels < DEEPEST ? levels : DEEPEST), 1);
    double begin = seconds();
    for (int d = 0; d < 20; d++) {
        long on = 0;
#pragma omp parallel
#pragma omp single
        on = day(&root);
        out += on;
    }
    printf("villages seconds %.6f\n", seconds() - begin);
    count(&root, &arrived, &known);
    CHECK(arrived == known + out, "no patient is lost");
    CHECK(arrived > 0, "there are patients");
}

int main(int argc, char **argv)
{
    long f = option(argc, argv, "fib", -1), q = option(argc, argv, "queens", -1), v = option(argc, argv, "villages", -1);
    if (f < 0 && q < 0 && v < 0) {
        f = has_flag(argc, argv, "quick") ? 12 : 18;
        q = has_flag(argc, argv, "quick") ? 5 : 7;
        v = has_flag(argc, argv, "quick") ? 3 : 4;
    }
    if (f >= 0)
        check_fib(f);
    if (q >= 0)
        check_queens(q);
    if (v >= 0)
        check_villages(v);
    return finish();
}
