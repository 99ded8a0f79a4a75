/* A library with OpenMP in it, which `load.c` loads. Compiled twice, with different `FACTOR`s. */
#ifndef FACTOR
#define FACTOR 1
#endif

long loaded_sum(int n);
long loaded_tasks(int n);

long loaded_sum(int n)
{
    long sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum) schedule(dynamic, 8)
    for (int i = 0; i < n; i++)
        sum += (long)i * FACTOR;
    return sum;
}

long loaded_tasks(int n)
{
    long sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < n; i++) {
#pragma omp task firstprivate(i) depend(inout : sum)
        sum += (long)i * FACTOR;
    }
    return sum;
}
