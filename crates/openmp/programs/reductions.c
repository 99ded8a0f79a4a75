/* Reductions: of regions, loops, sections, task groups and loops of tasks; of arrays; declared by the program. */
#include "check.h"
#include <limits.h>
#include <omp.h>

struct pair {
    double sum;
    long number;
};

static void pair_add(struct pair *into, const struct pair *from)
{
    into->sum += from->sum;
    into->number += from->number;
}

#pragma omp declare reduction(pairs : struct pair : pair_add(&omp_out, &omp_in)) initializer(omp_priv = {0.0, 0})

static void operators(void)
{
    long sum = 100, product = 1;
    int most = INT_MIN, least = INT_MAX;
    unsigned and = ~0u, or = 0, xor = 0;
    int all = 1, any = 0;
#pragma omp parallel for num_threads(3) schedule(dynamic, 7) reduction(+ : sum) reduction(* : product) reduction(max : most) reduction(min : least) \
    reduction(& : and) reduction(| : or) reduction(^ : xor) reduction(&& : all) reduction(|| : any)
    for (int i = 0; i < 500; i++) {
        sum += i;
        product *= i % 50 == 0 ? 2 : 1;
        if ((i * 37) % 501 > most)
            most = (i * 37) % 501;
        if (i - 250 < least)
            least = i - 250;
        and &= ~(1u << (i % 16));
        or |= 1u << (i % 9);
        xor ^= (unsigned)i;
        all = all && i >= 0;
        any = any || i == 499;
    }
    int xor_expected = 0, most_expected = 0;
    for (int i = 0; i < 500; i++) {
        xor_expected ^= i;
        if ((i * 37) % 501 > most_expected)
            most_expected = (i * 37) % 501;
    }
    CHECK(sum == 100 + 124750 && product == 1024, "sum and product");
    CHECK(most == most_expected && least == -250, "max and min");
    CHECK(and == 0xffff0000u && or == 0x1ff && xor == (unsigned)xor_expected, "bits");
    CHECK(all && any, "logical operators");
}

static void arrays(void)
{
    enum { BINS = 37 };
    long bins[BINS] = {0};
    double *heap = calloc(BINS, sizeof *heap);
#pragma omp parallel for num_threads(3) reduction(+ : bins) reduction(+ : heap[0 : BINS])
    for (int i = 0; i < 3700; i++) {
        bins[i % BINS] += i;
        heap[(i * 7) % BINS] += 0.5;
    }
    for (int i = 0; i < BINS; i++) {
        CHECK(bins[i] == 100L * i + 37L * 4950, "reduction of an array");
        CHECK(heap[i] == 50, "reduction of an array section");
    }
    free(heap);
}

static void declared(void)
{
    struct pair pair = {1.5, 1};
#pragma omp parallel num_threads(4) reduction(pairs : pair)
    {
#pragma omp for nowait
        for (int i = 0; i < 100; i++) {
            pair.sum += 0.25;
            pair.number++;
        }
    }
    CHECK(pair.sum == 26.5 && pair.number == 101, "a declared reduction");
}

static long nodes;

/* The tree of a recursion, whose tasks all add to one sum. */
static void tree(int depth)
{
#pragma omp task in_reduction(+ : nodes) firstprivate(depth)
    {
        nodes += 1;
        if (depth > 0) {
            tree(depth - 1);
            tree(depth - 1);
        }
    }
}

static void tasks(void)
{
    for (int round = 0; round < 10; round++) {
        long sum = 7;
        struct pair pair = {0.0, 0};
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskgroup task_reduction(+ : sum) task_reduction(pairs : pair)
        {
            for (int i = 0; i < 200; i++) {
#pragma omp task in_reduction(+ : sum) in_reduction(pairs : pair) firstprivate(i)
                {
                    sum += i;
                    pair.sum += 1;
                    pair.number += 2;
#pragma omp task in_reduction(+ : sum)
                    sum += 1;
                }
            }
        }
        CHECK(sum == 7 + 19900 + 200, "in_reduction");
        CHECK(pair.sum == 200 && pair.number == 400, "a declared in_reduction");
    }
    long sum = 0;
#pragma omp parallel num_threads(3) reduction(task, + : sum)
    {
#pragma omp single
        for (int i = 0; i < 100; i++) {
#pragma omp task in_reduction(+ : sum)
            sum += i;
        }
    }
    CHECK(sum == 4950, "reduction(task) of a region");
    sum = 3;
#pragma omp parallel num_threads(3)
    {
#pragma omp for reduction(task, + : sum) schedule(static)
        for (int i = 0; i < 60; i++) {
#pragma omp task in_reduction(+ : sum)
            sum += i;
        }
    }
    CHECK(sum == 3 + 1770, "reduction(task) of a loop");
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskgroup task_reduction(+ : nodes)
    tree(8);
    CHECK(nodes == 511, "in_reduction in a recursion");
}

#ifndef __clang__
/* Threads run ahead of each other into scopes within each other, which have no barrier at their beginning. */
static void scopes(void)
{
    for (int round = 0; round < 20; round++) {
        long sum = 0, product = 1, bits = ~0L;
#pragma omp parallel num_threads(4)
        {
#pragma omp scope reduction(task, + : sum)
#pragma omp scope reduction(task, * : product)
#pragma omp scope reduction(task, & : bits)
            {
                sum += 1;
                for (int i = 0; i < 3; i++) {
#pragma omp task in_reduction(+ : sum) in_reduction(* : product) in_reduction(& : bits) firstprivate(i)
                    {
                        sum += i;
                        product *= i == 1 ? 3 : 1;
                        bits &= ~(1L << i);
                    }
                }
            }
#pragma omp scope reduction(task, + : sum)
            sum += 1;
        }
        CHECK(sum == 20 && product == 81 && bits == ~7L, "reduction(task) of scopes");
    }
}
#endif

int main(void)
{
    omp_set_dynamic(0);
    operators();
    arrays();
    declared();
    tasks();
#ifndef __clang__
    scopes();
#endif
    return finish();
}
